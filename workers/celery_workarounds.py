"""Workarounds for faults of Celery, billiard and kombu that leave a worker slow or silent.

Check each of them again when versions change (celery 5.7, billiard 4.3, kombu 5.7).
"""

from typing import Any

import billiard.pool  # type: ignore[import-untyped]  # ships no types
from celery.concurrency.asynpool import AsynPool
from celery.worker.consumer.tasks import Tasks
from kombu.transport import redis

# A tenth of a second each.
LAST_RESULT_CHECKS = 20
POOL_CHECK_SECONDS = 0.5


def apply_workarounds() -> None:
    """Call this once, before a worker starts."""
    # A process that ends waits up to 30 s for its last result to be read, but a main process that was told to stop may
    # not read any more. The answer is on the stream by then; a task that is not acknowledged is only repeated.
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = LAST_RESULT_CHECKS
    # The pipe of a process that dies closes a moment before the process can be waited for. A check in that moment
    # finds nothing, and the next one is by default 5 s later.
    AsynPool.timers = property(lambda pool: {pool.maintain_pool: POOL_CHECK_SECONDS})
    redis.Channel.QoS = ReleasingQoS
    # RabbitMQ's quorum queues refuse a prefetch limit for a whole channel, and future versions will for all queues.
    # Celery uses one unless it detects a quorum queue, which it cannot if the virtual host creates them by default.
    Tasks.qos_global = lambda _step, _consumer: False


class ReleasingQoS(redis.QoS):
    """Releases messages also if Redis cannot be reached.

    Otherwise they count as in progress forever, and a worker that reaches its limit of such messages takes no others.
    Redis delivers them again after the visibility timeout; the scheduler drops the second answer.

    A channel that was closed in an outage has no connection at all. kombu then raises an AttributeError, which is not
    handled and ends the worker.
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
        """Return unacknowledged messages to the queue."""
        try:
            super().restore_unacked(client)  # type: ignore[no-untyped-call]
        except AttributeError:
            self._delivered.clear()
