"""Where Celery, billiard and kombu would leave a worker slow or silent: what they are made to do instead.

Look each of these up again when versions move (celery 5.7, billiard 4.3, kombu 5.7).
"""

from typing import Any

import billiard.pool  # type: ignore[import-untyped]  # ships no types
from celery.concurrency.asynpool import AsynPool
from celery.worker.consumer.tasks import Tasks
from kombu.transport import redis

LAST_RESULT_LOOKS = 20
"""A tenth of a second each."""
POOL_LOOK = 0.5


def mend_celery() -> None:
    """Once, before a worker starts."""
    # A process that ends waits for its last result to be read, by default for 30 s; a main process that is told to stop
    # may have left off reading. Answers are on the stream by then; a task that is not acknowledged is only done again.
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = LAST_RESULT_LOOKS
    # That a process has died shows by a pipe that closes a moment before the process can be waited for. Who looks in
    # that moment sees nothing, and then not before the next look, by default 5 s later.
    AsynPool.timers = property(lambda pool: {pool.maintain_pool: POOL_LOOK})
    redis.Channel.QoS = ReleasingQoS
    # RabbitMQ's quorum queues refuse a limit for a whole channel, and its newer versions mean to for all. Celery uses
    # one unless it knows of a quorum queue, which it cannot where the virtual host makes them.
    Tasks.qos_global = lambda _step, _consumer: False


class ReleasingQoS(redis.QoS):
    """Lets go of messages also when Redis cannot be told so.

    Else they count as under way for ever, and a worker with as many of them as it may have at once takes no other.
    Redis hands them out again after the visibility timeout; the scheduler drops what is answered twice.

    A channel that was closed in an outage has no connection any more, not even one that is lost. kombu stumbles over
    that with an AttributeError, which nobody expects and which ends the worker.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]  # kombu has types for some of its parts
        except Exception as error:
            self._quick_ack(delivery_tag)
            if isinstance(error, AttributeError):
                raise ConnectionError("The channel is closed.") from error
            raise

    def restore_unacked(self, client: Any = None) -> None:
        """Give back what is not acknowledged."""
        try:
            super().restore_unacked(client)  # type: ignore[no-untyped-call]
        except AttributeError:
            self._delivered.clear()
