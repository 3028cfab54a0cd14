"""`Resources`: the connections of a scheduler or API process, opened once at its entry point.

Among them is a broker, which sends messages and measures queues, over Redis or RabbitMQ. RabbitMQ is a server of its
own. While it is out, a scheduler must still read answers: every request to it has a timeout of seconds, and after a
failure there is a pause without requests.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic, time
from typing import Any

from amqp.exceptions import NotFound  # type: ignore[import-untyped]  # ships no types
from celery import Celery
from kombu.messaging import Producer

from maabo_dist.cluster.broker import BROKER_ERRORS, broker_address, make_celery, uses_amqp
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import ArtifactStore
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from scheduler.ledger import Ledger
from scheduler.metrics import Metrics

# For every request to RabbitMQ, including a publisher's confirm. Well below the duration of a lease.
TIMEOUT_SECONDS = 3.0
MIN_PAUSE_SECONDS = 0.5
# Messages in one command.
MAX_PUSHED = 64
# The key in which kombu stores messages that workers have taken and not acknowledged.
UNACKED = "unacked"


class BrokerError(Exception):
    """The broker cannot be reached, or rejected the message. The message may or may not have arrived."""


class RedisBroker:
    """The cluster's Redis. It raises the errors of Redis, except while sending."""

    # True if the broker is not the cluster's Redis.
    is_separate = False

    def __init__(self, settings: ClusterSettings, redis: Any, celery: Celery) -> None:
        self._settings, self._redis, self._celery = settings, redis, celery

    def waiting(self, queues: Sequence[str]) -> list[int]:
        """The number of messages in each queue that no worker has taken. Queues are lists in Redis."""
        return [int(self._redis.llen(self._settings.key(queue))) for queue in queues]

    def unacked(self) -> int | None:
        """The number of messages taken and not acknowledged, which are in a hash in Redis."""
        return int(self._redis.hlen(self._settings.key(UNACKED)))

    def push(self, queue: str, messages: Sequence[str]) -> None:
        """Put messages that are already encoded into a queue."""
        try:
            for start in range(0, len(messages), MAX_PUSHED):
                self._redis.lpush(self._settings.key(queue), *messages[start : start + MAX_PUSHED])
        except BROKER_ERRORS as error:
            raise BrokerError(f"{type(error).__name__}: {error}") from error

    @contextmanager
    def sending(self) -> Iterator[Producer]:
        """A producer; its messages are sent in one pipeline."""
        try:
            with self._celery.producer_pool.acquire(block=True) as producer, producer.batch(max_size=64):
                yield producer
        except BROKER_ERRORS as error:
            raise BrokerError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Celery owns and closes the connections."""


class AmqpBroker:
    """RabbitMQ. Threads share one connection, which confirms every message.

    After an error the connection is closed: a late response could be mistaken for the response to the next request.
    """

    is_separate = True

    def __init__(self, settings: ClusterSettings, celery: Celery, clock: Callable[[], float] = monotonic) -> None:
        self._settings, self._celery, self._clock = settings, celery, clock
        self._lock = Lock()
        self._connection: Any = None
        self._paused_until, self._reason = 0.0, ""

    def waiting(self, queues: Sequence[str]) -> list[int]:
        """The number of messages in each queue that no worker has taken; 0 if it is not declared yet."""
        with self._connected() as connection:
            try:
                return [connection.default_channel.queue_declare(queue, passive=True)[1] for queue in queues]
            except NotFound:
                self._drop()  # also clears kombu's list of declared queues
                return [0 for _ in queues]

    def unacked(self) -> int | None:
        """Return None: only the management plugin has this number."""
        return None

    @contextmanager
    def sending(self) -> Iterator[Producer]:
        """A producer; each message is confirmed within `TIMEOUT_SECONDS`, or an error is raised."""
        with self._connected() as connection:
            yield Producer(connection)  # type: ignore[no-untyped-call]  # kombu has types for some of its parts

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._lock:
            started = self._clock()
            if started < self._paused_until:
                raise BrokerError(self._reason)
            try:
                self._connection = self._connection or self._connect()
                yield self._connection
            except (*BROKER_ERRORS, AttributeError) as error:  # the latter from py-amqp, when a connection is lost
                self._drop()
                elapsed = self._clock() - started
                self._paused_until = self._clock() + max(MIN_PAUSE_SECONDS, 2 * elapsed)
                self._reason = f"RabbitMQ at {broker_address(self._settings)}: {type(error).__name__}: {error}"
                raise BrokerError(self._reason) from error

    def _connect(self) -> Any:
        connection = self._celery.connection_for_write(
            connect_timeout=TIMEOUT_SECONDS, transport_options={"confirm_publish": True}
        )
        connection.ensure_connection(max_retries=0)
        # On the socket: py-amqp's read_timeout does not end the wait for a response.
        connection.connection.sock.settimeout(TIMEOUT_SECONDS)
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*BROKER_ERRORS, AttributeError):
                connection.collect(socket_timeout=0.1)


Broker = RedisBroker | AmqpBroker


def open_broker(settings: ClusterSettings, redis: Any, celery: Celery) -> Broker:
    """Return the broker that the settings name, without connecting."""
    return AmqpBroker(settings, celery) if uses_amqp(settings) else RedisBroker(settings, redis, celery)


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything outside of the process that it uses."""

    settings: ClusterSettings
    ledger: Ledger
    redis: Any
    celery: Celery
    store: ArtifactStore
    cache: TableCache
    broker: Broker
    clock: Callable[[], float] = time
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)

    @classmethod
    def connect(cls, settings: ClusterSettings, tracing: Tracing | None = None) -> "Resources":
        """Open the connections that the settings name."""
        client = open_redis(settings)
        store = open_store(settings, client)
        cache = TableCache(Path(settings.cache_dir), store, settings.cache_bytes)
        ledger, celery = Ledger(settings.ledger_url), make_celery(settings)
        broker = open_broker(settings, client, celery)
        return cls(settings, ledger, client, celery, store, cache, broker, tracing=tracing or Tracing())

    def close(self) -> None:
        """Close all connections."""
        self.ledger.close()
        self.redis.close()
        self.broker.close()
        self.celery.close()
        self.tracing.close()
