"""Which broker tasks travel by, and how Celery is to use it.

    MAABO_BROKER unset            the Redis of MAABO_REDIS: nothing else to run
    MAABO_BROKER=amqp(s)://…      RabbitMQ, for tasks alone: streams, records and answers stay in Redis

Either is a hint: the scheduler owns delivery (see `scheduler.outbox`). What is set here keeps losses rare and recovery
quick.
"""

import ssl
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from amqp.exceptions import AMQPError, MessageNacked  # type: ignore[import-untyped]  # ships no types
from kombu.exceptions import KombuError, OperationalError
from redis import RedisError

from maabo_dist.cluster.address import shown_url, verifying
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import SOCKET_SECONDS
from maabo_dist.errors import SettingsError

ERRORS = (KombuError, OperationalError, RedisError, AMQPError, MessageNacked, OSError)
"""All that can be raised while one talks to a broker."""

HEARTBEAT = 10
"""Seconds. A worker whose RabbitMQ is gone without a word notices after two of them, and so does RabbitMQ."""

CONSUMER_TIMEOUT = 1800.0
"""Seconds after which RabbitMQ, unless told otherwise, takes a task back from a worker that has not acknowledged it."""

_SSL_OPTIONS = {"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}


def over_amqp(settings: ClusterSettings) -> bool:
    """Whether tasks travel by RabbitMQ."""
    return bool(settings.broker_url)


def shown_broker(settings: ClusterSettings) -> str:
    """The broker as people name it, without what is secret."""
    return shown_url(settings.broker_url or settings.redis_url)


def celery_options(settings: ClusterSettings) -> dict[str, Any]:
    """What Celery has to know of the broker."""
    return _amqp_options(settings) if over_amqp(settings) else _redis_options(settings)


def _redis_options(settings: ClusterSettings) -> dict[str, Any]:
    return {
        "broker_url": verifying(settings.redis_url),
        "broker_transport_options": {
            "global_keyprefix": settings.prefix,
            "visibility_timeout": int(settings.task_limit * 10) + 60,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "socket_timeout": SOCKET_SECONDS,
            "socket_connect_timeout": SOCKET_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": 5,
        },
    }


def _amqp_options(settings: ClusterSettings) -> dict[str, Any]:
    """Queues are declared as any Celery client declares them, durable and of no named type.

    So a service that sends to `maabo.jobs` and a worker agree, whoever comes first; and the virtual host's default
    queue type says whether they are replicated (quorum) or not.
    """
    url, _, query = settings.broker_url.partition("?")
    return {
        "broker_url": url,
        "broker_use_ssl": _ssl_options(url, query),
        "broker_heartbeat": HEARTBEAT,
        "broker_connection_timeout": SOCKET_SECONDS,
        "broker_transport_options": {},
    }


def _ssl_options(url: str, query: str) -> dict[str, Any] | None:
    """From the words that redis-py knows to those of py-amqp. The server's certificate is verified, always."""
    given = dict(parse_qsl(query))
    unknown = given.keys() - _SSL_OPTIONS.keys() - {"ssl_cert_reqs"}
    if unknown or (given and not url.startswith("amqps://")):
        raise SettingsError(
            f"MAABO_BROKER at {shown_url(url)}: {', '.join(sorted(unknown or given))} cannot be given. "
            f"amqps:// takes {', '.join(_SSL_OPTIONS)}; amqp:// takes nothing."
        )
    if given.get("ssl_cert_reqs", "required") != "required":
        raise SettingsError(f"MAABO_BROKER at {shown_url(url)}: ssl_cert_reqs is always required.")
    if not url.startswith("amqps://"):
        return None
    options = {ours: given[name] for name, ours in _SSL_OPTIONS.items() if name in given}
    return options | {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": urlsplit(url).hostname}
