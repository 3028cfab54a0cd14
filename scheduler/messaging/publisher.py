"""`TaskPublisher`: sends tasks through the broker, several in one batch."""

from collections.abc import Sequence

from kombu.entity import Queue

from maabo_dist.contract import names
from maabo_dist.contract.job import Callback
from maabo_dist.contract.messages import EvaluateMessage, RulesMessage, ScreenMessage
from scheduler.resources import Resources

TaskMessage = EvaluateMessage | ScreenMessage | RulesMessage

# The task name and queue of each message; screens go to the workers that evaluate.
_ROUTES = {
    EvaluateMessage: (names.EVALUATE, names.EVALUATE_QUEUE),
    ScreenMessage: (names.SCREEN, names.EVALUATE_QUEUE),
    RulesMessage: (names.RULES, names.RULES_QUEUE),
}


class TaskPublisher:
    """Publishes tasks for workers, and callbacks to other services."""

    def __init__(self, resources: Resources) -> None:
        self._celery, self._broker = resources.celery, resources.broker

    def publish(self, messages: Sequence[TaskMessage]) -> None:
        """Send tasks to the workers."""
        with self._broker.sending() as producer:
            for message in messages:
                name, queue = _ROUTES[type(message)]
                self._celery.send_task(
                    name,
                    kwargs=message.model_dump(mode="json"),
                    queue=queue,
                    producer=producer,
                    retry=False,
                    argsrepr=message.argsrepr,
                    kwargsrepr="",
                    # The ledger has them: RabbitMQ need not write them to its disk before it confirms.
                    delivery_mode="transient",
                )

    def call_back(self, callback: Callback, values: dict[str, object]) -> None:
        """Send a task to another service."""
        with self._broker.sending() as producer:
            self._celery.send_task(
                callback.task, kwargs=values, queue=Queue(callback.queue), producer=producer, retry=False
            )
