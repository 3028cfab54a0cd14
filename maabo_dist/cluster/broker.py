"""The broker of the tasks, and the Celery configuration.

    MAABO_BROKER unset            the Redis of MAABO_REDIS
    MAABO_BROKER=amqp(s)://…      RabbitMQ, for tasks only: streams, records and answers stay in Redis

Delivery does not depend on the broker: the scheduler sends lost tasks again (see `scheduler.core.outbox`). These
settings make losses rare and recovery fast.
"""

import ssl
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from amqp.exceptions import AccessRefused, AMQPError, MessageNacked, NotAllowed  # type: ignore[import-untyped]
from celery import Celery
from kombu.entity import Queue
from kombu.exceptions import KombuError, OperationalError
from redis import RedisError

from maabo_dist.cluster.settings import ClusterSettings, redact_url, require_certificate
from maabo_dist.cluster.streams import SOCKET_SECONDS
from maabo_dist.contract import names
from maabo_dist.errors import SettingsError

# All errors that communication with a broker can raise.
BROKER_ERRORS = (KombuError, OperationalError, RedisError, AMQPError, MessageNacked, OSError)

# A worker and RabbitMQ detect a lost connection after two missed heartbeats.
HEARTBEAT_SECONDS = 10

CHECK_SECONDS = 3.0
# Seconds after which RabbitMQ, by default, takes back a task that a worker has not acknowledged.
CONSUMER_TIMEOUT = 1800.0

_CERT_REQS = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_SSL_OPTIONS = {"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}


def uses_amqp(settings: ClusterSettings) -> bool:
    """Return True if the broker is RabbitMQ."""
    return bool(settings.broker_url)


def broker_address(settings: ClusterSettings) -> str:
    """Return the address of the broker without secrets."""
    return redact_url(settings.broker_url or settings.redis_url)


def celery_options(settings: ClusterSettings) -> dict[str, Any]:
    """Return the Celery options for the broker.

    RabbitMQ's queues are declared as Celery clients declare them by default: durable, with the virtual host's queue
    type. So another service that sends to `maabo.jobs` and a worker declare the same queue, in any order, and the
    default queue type of the virtual host decides whether queues are replicated (quorum).
    """
    if not uses_amqp(settings):
        return _redis_options(settings)
    url, _, query = settings.broker_url.partition("?")
    return {
        "broker_url": url,
        "broker_use_ssl": _ssl_options(url, query),
        "broker_heartbeat": HEARTBEAT_SECONDS,
        "broker_connection_timeout": SOCKET_SECONDS,
        "broker_transport_options": {},
    }


def check_broker(settings: ClusterSettings, celery: Celery) -> str | None:
    """Return None if RabbitMQ answers or is not used, else the problem; permanent problems are raised."""
    if not uses_amqp(settings):
        return None
    name = f"RabbitMQ at {broker_address(settings)}"
    try:
        with celery.connection_for_write(connect_timeout=CHECK_SECONDS) as connection:
            connection.ensure_connection(max_retries=0)
    except (AccessRefused, NotAllowed) as error:
        remedy = "Check the user, the password and the virtual host in MAABO_BROKER."
        raise SettingsError(f"{name} refused the connection ({error.reply_text}). {remedy}") from error
    except BROKER_ERRORS as error:
        if isinstance(error.__cause__ or error, ssl.SSLError):
            remedy = "Set the certificate authority of the server with amqps://…?ssl_ca_certs=FILE."
            raise SettingsError(f"{name} failed the certificate check ({error}). {remedy}") from error
        return f"{name} cannot be reached ({error})."
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
    """Split the URL into one without TLS options and the TLS options, because Flower reads only the latter.

    kombu verifies the server's certificate only with the option that `require_certificate` adds.
    """
    if not url.startswith("rediss://"):
        return url, None
    address, _, query = require_certificate(url).partition("?")
    options = parse_qsl(query)
    tls = {name: _tls_value(name, value) for name, value in options if name.startswith("ssl_")}
    rest = urlencode([(name, value) for name, value in options if not name.startswith("ssl_")])
    return (f"{address}?{rest}" if rest else address), tls


def _tls_value(name: str, value: str) -> object:
    if name == "ssl_check_hostname":
        return value.lower() not in {"false", "no", "0"}
    if name != "ssl_cert_reqs":
        return value
    if value not in _CERT_REQS:
        raise SettingsError(f"MAABO_REDIS: ssl_cert_reqs={value!r} must be one of {', '.join(_CERT_REQS)}.")
    return _CERT_REQS[value]


def _ssl_options(url: str, query: str) -> dict[str, Any] | None:
    """Translate the TLS options of redis-py to those of py-amqp. The server's certificate is always verified."""
    values = dict(parse_qsl(query))
    unknown = values.keys() - _SSL_OPTIONS.keys() - {"ssl_cert_reqs"}
    if unknown or (values and not url.startswith("amqps://")):
        raise SettingsError(
            f"MAABO_BROKER at {redact_url(url)}: {', '.join(sorted(unknown or values))} not supported. "
            f"amqps:// supports {', '.join(_SSL_OPTIONS)}; amqp:// supports no options."
        )
    if values.get("ssl_cert_reqs", "required") != "required":
        raise SettingsError(f"MAABO_BROKER at {redact_url(url)}: ssl_cert_reqs must be required.")
    if not url.startswith("amqps://"):
        return None
    options = {option: values[name] for name, option in _SSL_OPTIONS.items() if name in values}
    return options | {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": urlsplit(url).hostname}


# A task that ignores its time limit is killed after this multiple of it.
HARD_LIMIT_FACTOR = 1.25


def make_celery(settings: ClusterSettings, **more: Any) -> Celery:
    """Return a configured Celery application without tasks."""
    app = Celery("maabo", set_as_current=False)
    app.conf.update(
        # Only JSON is accepted: messages are never unpickled.
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        # Answers use Redis streams (see streams.py). A result backend would block publishers during an outage.
        result_backend=None,
        task_ignore_result=True,
        task_queues=[Queue(names.EVALUATE_QUEUE), Queue(names.RULES_QUEUE), Queue(names.JOBS_QUEUE)],
        task_default_queue=names.EVALUATE_QUEUE,
        task_create_missing_queues=False,
        # Acknowledged when done. A task whose process died is not requeued: a poison task would loop forever.
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        # True would kill all workers when Redis restarts. RabbitMQ immediately redelivers the tasks of a lost
        # connection; the scheduler drops the second answer.
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
