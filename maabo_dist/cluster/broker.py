"""Which broker tasks travel by, and how Celery is to use it.

    MAABO_BROKER unset            the Redis of MAABO_REDIS: nothing else to run
    MAABO_BROKER=amqp(s)://…      RabbitMQ, for tasks alone: streams, records and answers stay in Redis

Neither is trusted: the scheduler owns delivery (see `scheduler.core.outbox`). These settings keep losses rare
and recovery quick.
"""

import ssl
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from amqp.exceptions import (  # type: ignore[import-untyped]  # ships no types
    AccessRefused,
    AMQPError,
    MessageNacked,
    NotAllowed,
)
from celery import Celery
from kombu.entity import Queue
from kombu.exceptions import KombuError, OperationalError
from redis import RedisError

from maabo_dist.cluster.address import redact_url, require_certificate
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import SOCKET_SECONDS
from maabo_dist.contract import names
from maabo_dist.errors import SettingsError

BROKER_ERRORS = (KombuError, OperationalError, RedisError, AMQPError, MessageNacked, OSError)
"""All that can be raised while one talks to a broker."""

HEARTBEAT_SECONDS = 10
"""Seconds. A worker whose RabbitMQ is gone without a word notices after two of them, and so does RabbitMQ."""

CHECK_SECONDS = 3.0
CONSUMER_TIMEOUT = 1800.0
"""Seconds after which RabbitMQ, unless told otherwise, takes a task back from a worker that has not acknowledged it."""

_CERT_REQS = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_SSL_OPTIONS = {"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}


def uses_amqp(settings: ClusterSettings) -> bool:
    """Whether tasks travel by RabbitMQ."""
    return bool(settings.broker_url)


def broker_address(settings: ClusterSettings) -> str:
    """The broker as people name it, without what is secret."""
    return redact_url(settings.broker_url or settings.redis_url)


def celery_options(settings: ClusterSettings) -> dict[str, Any]:
    """What Celery has to know of the broker."""
    return _amqp_options(settings) if uses_amqp(settings) else _redis_options(settings)


def check_broker(settings: ClusterSettings, celery: Celery) -> str | None:
    """None if a RabbitMQ answers, or there is none; else what is wrong with it now. What will stay wrong is raised."""
    if not uses_amqp(settings):
        return None
    said = f"RabbitMQ at {broker_address(settings)}"
    try:
        with celery.connection_for_write(connect_timeout=CHECK_SECONDS) as connection:
            connection.ensure_connection(max_retries=0)
    except (AccessRefused, NotAllowed) as error:
        remedy = "Check the user, the password and the virtual host in MAABO_BROKER."
        raise SettingsError(f"{said} refuses us ({error.reply_text}). {remedy}") from error
    except BROKER_ERRORS as error:
        if isinstance(error.__cause__ or error, ssl.SSLError):
            remedy = "Name the authority that signed its certificate as amqps://…?ssl_ca_certs=FILE."
            raise SettingsError(f"{said} cannot be trusted, or does not trust us ({error}). {remedy}") from error
        return f"{said} cannot be reached ({error})."
    return None


def _redis_options(settings: ClusterSettings) -> dict[str, Any]:
    url, tls = _redis_tls(settings.celery_url)
    return {
        "broker_url": url,
        "broker_use_ssl": tls,
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


def _redis_tls(url: str) -> tuple[str, dict[str, Any] | None]:
    """The URL without its words on TLS, and these apart: Flower knows them by that setting alone.

    kombu would verify a server's certificate only if it is told to.
    """
    if not url.startswith("rediss://"):
        return url, None
    place, _, query = require_certificate(url).partition("?")
    given = parse_qsl(query)
    tls = {name: _tls_value(name, value) for name, value in given if name.startswith("ssl_")}
    rest = urlencode([(name, value) for name, value in given if not name.startswith("ssl_")])
    return (f"{place}?{rest}" if rest else place), tls


def _tls_value(name: str, value: str) -> object:
    if name == "ssl_check_hostname":
        return value.lower() not in {"false", "no", "0"}
    if name != "ssl_cert_reqs":
        return value
    if value not in _CERT_REQS:
        raise SettingsError(f"MAABO_REDIS: ssl_cert_reqs={value!r} is none of {', '.join(_CERT_REQS)}.")
    return _CERT_REQS[value]


def _amqp_options(settings: ClusterSettings) -> dict[str, Any]:
    """Queues are declared as any Celery client declares them, durable and of no named type.

    So a service that sends to `maabo.jobs` and a worker agree, whoever comes first; and the virtual host's default
    queue type says whether they are replicated (quorum) or not.
    """
    url, _, query = settings.broker_url.partition("?")
    return {
        "broker_url": url,
        "broker_use_ssl": _ssl_options(url, query),
        "broker_heartbeat": HEARTBEAT_SECONDS,
        "broker_connection_timeout": SOCKET_SECONDS,
        "broker_transport_options": {},
    }


def _ssl_options(url: str, query: str) -> dict[str, Any] | None:
    """From the words that redis-py knows to those of py-amqp. The server's certificate is verified, always."""
    given = dict(parse_qsl(query))
    unknown = given.keys() - _SSL_OPTIONS.keys() - {"ssl_cert_reqs"}
    if unknown or (given and not url.startswith("amqps://")):
        raise SettingsError(
            f"MAABO_BROKER at {redact_url(url)}: {', '.join(sorted(unknown or given))} cannot be given. "
            f"amqps:// takes {', '.join(_SSL_OPTIONS)}; amqp:// takes nothing."
        )
    if given.get("ssl_cert_reqs", "required") != "required":
        raise SettingsError(f"MAABO_BROKER at {redact_url(url)}: ssl_cert_reqs is always required.")
    if not url.startswith("amqps://"):
        return None
    options = {ours: given[name] for name, ours in _SSL_OPTIONS.items() if name in given}
    return options | {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": urlsplit(url).hostname}


HARD_LIMIT_FACTOR = 1.25
"""A task that does not heed its time limit is ended after this many times as long."""


def make_celery(settings: ClusterSettings, **more: Any) -> Celery:
    """A configured application without tasks."""
    app = Celery("maabo", set_as_current=False)
    app.conf.update(
        # JSON alone is accepted: nothing from the wire is ever unpickled.
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        # Answers travel on a stream of ours. A result backend would block publishers in an outage.
        result_backend=None,
        task_ignore_result=True,
        task_queues=[Queue(names.EVALUATE_QUEUE), Queue(names.RULES_QUEUE), Queue(names.JOBS_QUEUE)],
        task_default_queue=names.EVALUATE_QUEUE,
        task_create_missing_queues=False,
        # Acknowledged when done; but a task whose process died is not requeued: a poison task would loop for ever.
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        # True kills every worker when Redis restarts. RabbitMQ hands out again at once what a lost connection had
        # taken: what runs is answered first, and its twin's answer is dropped.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_soft_time_limit=settings.task_limit,
        task_time_limit=settings.task_limit * HARD_LIMIT_FACTOR,
        worker_max_memory_per_child=settings.worker_memory >> 10,
        worker_max_tasks_per_child=5000,
        task_send_sent_event=False,
        worker_send_task_events=True,
        worker_hijack_root_logger=False,
        **celery_options(settings),
        **more,
    )
    return app
