"""`Broker`: how a scheduler sends by the broker and asks how much waits there; one over Redis, one over RabbitMQ.

RabbitMQ is apart from the Redis that everything else is in. An outage of it must not hold up a scheduler, which has
answers to hear: whatever is asked of it has an end in seconds, and after a failure nothing is, for a while.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock
from time import monotonic
from typing import Any, Protocol

from amqp.exceptions import NotFound  # type: ignore[import-untyped]  # ships no types
from celery import Celery
from kombu.messaging import Producer

from maabo_dist.cluster.broker import BROKER_ERRORS, broker_address, uses_amqp
from maabo_dist.cluster.settings import ClusterSettings

PATIENCE = 3.0
"""Seconds for anything that RabbitMQ is asked, a publisher's confirm too. Well below the time of a lease."""
SHORTEST_PAUSE = 0.5
UNACKED = "unacked"
"""Where kombu keeps in Redis what workers have taken and not acknowledged."""


class BrokerError(Exception):
    """The broker cannot be reached, or refuses. What was being sent may or may not have arrived."""


class Broker(Protocol):
    """What a scheduler wants of a broker."""

    @property
    def apart(self) -> bool:
        """Whether it is another server than the cluster's Redis."""

    def waiting(self, queues: Sequence[str]) -> list[int]:
        """Messages of each queue that no worker has taken."""

    def unacked(self) -> int | None:
        """Messages that workers have taken and not acknowledged; None where that cannot be asked."""

    def sending(self) -> AbstractContextManager[Producer]:
        """Something to send with, once or several times."""

    def close(self) -> None:
        """Let go of it."""


def open_broker(settings: ClusterSettings, redis: Any, celery: Celery) -> Broker:
    """The broker that the settings name. It is not asked anything yet."""
    return AmqpBroker(settings, celery) if uses_amqp(settings) else RedisBroker(settings, redis, celery)


class RedisBroker:
    """The cluster's Redis. Its errors are those of Redis."""

    apart = False

    def __init__(self, settings: ClusterSettings, redis: Any, celery: Celery) -> None:
        self._settings, self._redis, self._celery = settings, redis, celery

    def waiting(self, queues: Sequence[str]) -> list[int]:
        """Queues are lists."""
        return [int(self._redis.llen(self._settings.key(queue))) for queue in queues]

    def unacked(self) -> int | None:
        """They are kept in a hash."""
        return int(self._redis.hlen(self._settings.key(UNACKED)))

    @contextmanager
    def sending(self) -> Iterator[Producer]:
        """Several messages go in one pipeline."""
        with self._celery.producer_pool.acquire(block=True) as producer, producer.batch(max_size=64):
            yield producer

    def close(self) -> None:
        """The connections are Celery's, who closes them."""


class AmqpBroker:
    """A RabbitMQ. Threads take turns on one connection, which confirms every message.

    After an error the connection is given up: an answer that comes late would be taken for that to the next question.
    """

    apart = True

    def __init__(self, settings: ClusterSettings, celery: Celery, clock: Callable[[], float] = monotonic) -> None:
        self._settings, self._celery, self._clock = settings, celery, clock
        self._lock = Lock()
        self._connection: Any = None
        self._rest_until, self._reason = 0.0, ""

    def waiting(self, queues: Sequence[str]) -> list[int]:
        """A queue that nobody has declared yet is empty."""
        with self._connected() as connection:
            try:
                return [connection.default_channel.queue_declare(queue, passive=True)[1] for queue in queues]
            except NotFound:
                self._drop()  # and with it what it takes for declared
                return [0 for _ in queues]

    def unacked(self) -> int | None:
        """RabbitMQ tells that by its management plugin alone."""
        return None

    @contextmanager
    def sending(self) -> Iterator[Producer]:
        """Each message is confirmed, or an error raised within `PATIENCE`."""
        with self._connected() as connection:
            yield Producer(connection)  # type: ignore[no-untyped-call]  # kombu has types for some of its parts

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._drop()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._lock:
            started = self._clock()
            if started < self._rest_until:
                raise BrokerError(self._reason)
            try:
                self._connection = self._connection or self._connect()
                yield self._connection
            except (*BROKER_ERRORS, AttributeError) as error:  # the latter from py-amqp, when a connection is lost
                self._drop()
                lost = self._clock() - started
                self._rest_until = self._clock() + max(SHORTEST_PAUSE, 2 * lost)
                self._reason = f"RabbitMQ at {broker_address(self._settings)}: {type(error).__name__}: {error}"
                raise BrokerError(self._reason) from error

    def _connect(self) -> Any:
        connection = self._celery.connection_for_write(
            connect_timeout=PATIENCE, transport_options={"confirm_publish": True}
        )
        connection.ensure_connection(max_retries=0)
        # Of the socket: what py-amqp calls read_timeout does not end the wait for an answer.
        connection.connection.sock.settimeout(PATIENCE)
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*BROKER_ERRORS, AttributeError):
                connection.collect(socket_timeout=0.1)
