"""`Post`: tasks to the broker, several in one go, and how far ahead of the workers the queue is kept."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kombu.entity import Queue
from kombu.messaging import Producer

from maabo_dist.cluster.broker import BROKER_ERRORS
from maabo_dist.contract import names
from maabo_dist.contract.job import Callback
from maabo_dist.contract.messages import EvaluateMessage, RulesMessage, ScreenMessage
from scheduler.messaging.broker import BrokerError
from scheduler.resources import Resources

LEAST_AHEAD, MOST_AHEAD = 2, 2048
"""Messages that wait in the broker: enough that no worker idles, few enough that a small job need not wait."""

POSTPONED = (0.5, 1.5)
"""Seconds until a task is sent again that a worker could not begin. At random: with a steady beat that worker may be
the first in the queue each time."""


class PostError(Exception):
    """The broker cannot be reached. What was being sent may or may not have arrived."""


class Post:
    """Sends tasks by their names."""

    def __init__(self, resources: Resources) -> None:
        self._celery, self._broker = resources.celery, resources.broker
        self._ahead = LEAST_AHEAD
        self._room = self._used = 0

    def waiting(self, queue: str) -> int:
        """Messages that no worker has taken."""
        try:
            return self._broker.waiting([queue])[0]
        except BrokerError as error:
            raise PostError(str(error)) from error

    def room(self, waiting: int) -> int:
        """How many more tasks to send. A queue that was filled and is found empty is kept longer from then on."""
        if waiting == 0 and 0 < self._room <= self._used:
            self._ahead = min(MOST_AHEAD, self._ahead * 2)
        elif waiting > self._ahead // 2:
            self._ahead = max(LEAST_AHEAD, self._ahead - max(1, self._ahead // 8))
        self._room, self._used = self._ahead - waiting, 0
        return self._room

    def evaluate(self, messages: Sequence[EvaluateMessage]) -> None:
        """Send `maabo.evaluate` tasks."""
        self._used += len(messages)
        self._send([(names.EVALUATE, names.EVALUATE_QUEUE, message) for message in messages])

    def screen(self, messages: Sequence[ScreenMessage]) -> None:
        """Send `maabo.screen` tasks, to the same workers."""
        self._used += len(messages)
        self._send([(names.SCREEN, names.EVALUATE_QUEUE, message) for message in messages])

    def mine(self, message: RulesMessage) -> None:
        """Send a `maabo.rules` task."""
        self._send([(names.RULES, names.RULES_QUEUE, message)])

    def call(self, callback: Callback, values: dict[str, object]) -> None:
        """Call a task of another service."""
        with self._sending() as producer:
            self._celery.send_task(
                callback.task, kwargs=values, queue=Queue(callback.queue), producer=producer, retry=False
            )

    def _send(self, letters: Sequence[tuple[str, str, EvaluateMessage | ScreenMessage | RulesMessage]]) -> None:
        with self._sending() as producer:
            for name, queue, message in letters:
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

    @contextmanager
    def _sending(self) -> Iterator[Producer]:
        try:
            with self._broker.sending() as producer:
                yield producer
        except BrokerError as error:
            raise PostError(str(error)) from error
        except BROKER_ERRORS as error:
            raise PostError(f"{type(error).__name__}: {error}") from error
