"""`Outbox`: which tasks are to be sent, which are on their way, and which are to be sent again. Pure: no clock, no I/O.

    unsent ──sent──► on its way ──taken back──► answered, cut anew, or unsent again
      ▲                  │ nothing heard: unsent again, with more patience each time
      └───later◄─────────┘ postponed

What a task is, is its owner's business: a key that knows its size.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from maabo_dist._util.backoff import backoff_delay

MAX_PATIENCE = 64
"""The time allowed for an answer doubles after each silence, up to this multiple of the first."""


class TaskLike(Hashable, Protocol):
    """What tells tasks apart."""

    @property
    def size(self) -> int:
        """How much work it is, in the owner's unit."""


Key = TypeVar("Key", bound=TaskLike)


@dataclass(slots=True)
class Sent:
    """A task on its way. `attempt` counts the strikes against it."""

    attempt: int
    at: float
    taken: float | None = None
    """When it was certain that a worker had taken it."""


class Outbox(Generic[Key]):
    """The tasks of one owner; each is in one place only."""

    def __init__(self) -> None:
        self.unsent: deque[tuple[Key, int]] = deque()
        """With the strikes against it, like everywhere here."""
        self.later: list[tuple[float, Key, int]] = []
        """Not before this time."""
        self.sent: dict[Key, Sent] = {}
        self.in_flight = 0
        """The sizes of what is on its way."""
        self._silences: dict[Key, int] = {}

    def next(self, now: float) -> tuple[Key, int] | None:
        """The task to send next, with its strikes; it is the caller's then."""
        due = [entry for entry in self.later if entry[0] <= now]
        if due:
            self.later = [entry for entry in self.later if entry[0] > now]
            self.unsent.extendleft((key, attempt) for _, key, attempt in due)
        return self.unsent.popleft() if self.unsent else None

    def tasks_to_send(self, most: int) -> int:
        """How many tasks of at most this size those would be that are not on their way."""
        waiting = [*(key for key, _ in self.unsent), *(key for _, key, _ in self.later)]
        return sum(-(-key.size // most) for key in waiting)

    def note_sent(self, key: Key, attempt: int, now: float) -> None:
        """The task is on its way."""
        self.sent[key] = Sent(attempt, now)
        self.in_flight += key.size

    def sent_at(self, key: Key) -> float | None:
        """When a task that is on its way was sent."""
        sent = self.sent.get(key)
        return None if sent is None else sent.at

    def is_sent(self, key: Key, attempt: int) -> bool:
        """Whether this very attempt is on its way."""
        sent = self.sent.get(key)
        return sent is not None and sent.attempt == attempt

    def take_back(self, key: Key) -> Sent:
        """The task is not on its way any more."""
        self.in_flight -= key.size
        return self.sent.pop(key)

    def postpone(self, key: Key, attempt: int, until: float) -> None:
        """The worker could not begin this attempt: send again later."""
        if self.is_sent(key, attempt):
            self.take_back(key)
            self.later.append((until, key, attempt))

    def cut(self, outside: Callable[[Key], list[Key]]) -> None:
        """Keep of each task that is not on its way what `outside` gives."""
        self.unsent = deque((part, attempt) for key, attempt in self.unsent for part in outside(key))
        self.later = [(when, part, attempt) for when, key, attempt in self.later for part in outside(key)]

    def taken(self, sent_before: float, now: float) -> None:
        """Whatever was sent before a time has been taken from the queue: from now on its answer is awaited."""
        for sent in self.sent.values():
            if sent.taken is None and sent.at <= sent_before:
                sent.taken = now

    def resend_silent(self, now: float, allowance: Callable[[Key], float]) -> list[Key]:
        """Send again what a worker took longer ago than `allowance` seconds, twice as long after each silence."""
        silent = [
            key
            for key, sent in self.sent.items()
            if sent.taken is not None and now - sent.taken > self._patience(key, allowance(key))
        ]
        for key in silent:
            self.unsent.appendleft((key, self.take_back(key).attempt))
            self._silences[key] = self._silences.get(key, 0) + 1
        return silent

    def forget_silences(self, settled: Callable[[Key], bool]) -> None:
        """Of tasks that will not be sent again."""
        for key in [key for key in self._silences if settled(key)]:
            del self._silences[key]

    def _patience(self, key: Key, first: float) -> float:
        return backoff_delay(first, self._silences.get(key, 0), MAX_PATIENCE * first)
