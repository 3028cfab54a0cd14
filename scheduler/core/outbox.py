"""`Outbox`: the tasks of one job that are to be sent, that are in flight, and that are to be sent again. No I/O.

unsent ──mark_sent──► sent ──remove_sent──► answered, cut, or unsent again
  ▲                     │ no answer in time: unsent again; the allowed time doubles
  └───postponed◄────────┘ postpone
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from maabo_dist._util.network import backoff_delay

# The time allowed for an answer doubles after each timeout, up to this multiple of the first.
MAX_PATIENCE = 64
# Subsets of a task at most, while it is only estimated how long one takes.
FIRST_TASK_SIZE = 32
MAX_TASK_SIZE = 16_384
# The greatest ratio of durations that is taken into account, and its decay with each answer.
MAX_SPREAD, SPREAD_DECAY = 4.0, 0.98


class TaskLike(Hashable, Protocol):
    """Identifies a task."""

    @property
    def size(self) -> int:
        """The amount of work, in the owner's unit."""


Key = TypeVar("Key", bound=TaskLike)


@dataclass(slots=True)
class SentTask:
    """A task in flight. `attempt` counts its failures."""

    attempt: int
    sent_at: float
    # The work of its message.
    size: int
    # False if another task of the same message stands for it.
    is_first: bool = True
    # When it became certain that a worker had taken it from the queue.
    taken_at: float | None = None


class Outbox(Generic[Key]):
    """The tasks of one owner; each is in one collection only."""

    def __init__(self) -> None:
        # Tasks with their number of failures.
        self.unsent: deque[tuple[Key, int]] = deque()
        # Tasks that are not to be sent before a time.
        self.postponed: list[tuple[float, Key, int]] = []
        self.sent: dict[Key, SentTask] = {}
        # The total size of the sent tasks, and the number of their messages.
        self.in_flight = self.messages = 0
        self._timeouts: dict[Key, int] = {}

    def take_next(self, now: float) -> tuple[Key, int] | None:
        """Remove and return the task to send next, with its number of failures."""
        due = [entry for entry in self.postponed if entry[0] <= now]
        if due:
            self.postponed = [entry for entry in self.postponed if entry[0] > now]
            self.unsent.extendleft((key, attempt) for _, key, attempt in due)
        return self.unsent.popleft() if self.unsent else None

    def put_back(self, key: Key, attempt: int) -> None:
        """Return a task that was not sent; it is the next one again."""
        self.unsent.appendleft((key, attempt))

    @property
    def unsent_size(self) -> int:
        """The amount of work that is not in flight and may be sent now."""
        return sum(key.size for key, _ in self.unsent)

    def count_unsent(self, max_size: int) -> int:
        """The number of messages of about this size that the unsent and postponed tasks make."""
        return -(-(self.unsent_size + sum(key.size for _, key, _ in self.postponed)) // max_size)

    def mark_sent(self, key: Key, attempt: int, now: float) -> None:
        """Record that a task is in flight."""
        self.sent[key] = SentTask(attempt, now, key.size)
        self.in_flight += key.size
        self.messages += 1

    def note_joined(self, keys: Sequence[Key]) -> None:
        """Record that these tasks were sent as one message."""
        size = sum(key.size for key in keys)
        for number, key in enumerate(keys):
            self.sent[key].size, self.sent[key].is_first = size, number == 0
        self.messages -= len(keys) - 1

    def remove_sent(self, key: Key) -> SentTask:
        """Remove a task that is no longer in flight."""
        sent = self.sent.pop(key)
        self.in_flight -= key.size
        self.messages -= sent.is_first
        return sent

    def sent_at(self, key: Key) -> float | None:
        """The time at which a task in flight was sent."""
        sent = self.sent.get(key)
        return None if sent is None else sent.sent_at

    def is_sent(self, key: Key, attempt: int) -> bool:
        """True if this attempt is in flight."""
        sent = self.sent.get(key)
        return sent is not None and sent.attempt == attempt

    def postpone(self, key: Key, attempt: int, until: float) -> None:
        """Send an attempt again later, because the worker could not begin it."""
        if self.is_sent(key, attempt):
            self.remove_sent(key)
            self.postponed.append((until, key, attempt))

    def trim(self, remainder: Callable[[Key], list[Key]]) -> None:
        """Replace each task that is not in flight by its remainder."""
        self.unsent = deque((rest, attempt) for key, attempt in self.unsent for rest in remainder(key))
        self.postponed = [(when, rest, attempt) for when, key, attempt in self.postponed for rest in remainder(key)]

    def mark_taken(self, sent_before: float, now: float) -> None:
        """Record that workers have taken all tasks sent before a time; their answers are awaited from now on."""
        for sent in self.sent.values():
            if sent.taken_at is None and sent.sent_at <= sent_before:
                sent.taken_at = now

    def resend_unanswered(self, now: float, allowance: Callable[[int], float]) -> list[Key]:
        """Mark tasks as unsent that a worker took over `allowance(size of the message)` seconds ago.

        The allowance doubles each time.
        """
        unanswered = []
        for key, sent in self.sent.items():
            first = allowance(sent.size)
            patience = backoff_delay(first, self._timeouts.get(key, 0), MAX_PATIENCE * first)
            if sent.taken_at is not None and now - sent.taken_at > patience:
                unanswered.append(key)
        for key in unanswered:
            self.put_back(key, self.remove_sent(key).attempt)
            self._timeouts[key] = self._timeouts.get(key, 0) + 1
        return unanswered

    def forget_timeouts(self, is_done: Callable[[Key], bool]) -> None:
        """Forget the timeouts of tasks that will not be sent again."""
        for key in [key for key in self._timeouts if is_done(key)]:
            del self._timeouts[key]


@dataclass(slots=True)
class Speed:
    """The time that a subset, or a pair, takes: a moving average, and how far single tasks exceed it."""

    seconds: float | None = None
    # What it is expected to be before the first answer; 0 if that is unknown.
    estimate: float = 0.0
    # The largest recent ratio of a task's time to the expected one; it decays slowly.
    spread: float = MAX_SPREAD / 2

    def observe(self, size: int, seconds: float) -> None:
        """Include an answer."""
        each = seconds / max(1, size)
        if self.seconds:
            self.spread = max(min(MAX_SPREAD, each / self.seconds), 1.0, SPREAD_DECAY * self.spread)
        self.seconds = each if self.seconds is None else self.seconds + 0.3 * (each - self.seconds)

    def task_size(self, seconds: float) -> int:
        """The number of subsets in a task of this duration."""
        limit, each = (FIRST_TASK_SIZE, self.estimate) if self.seconds is None else (MAX_TASK_SIZE, self.seconds)
        return max(1, min(limit, int(seconds / max(each, 1e-7))))

    def expected(self, size: int) -> float:
        """The seconds that `size` subsets take."""
        return size * (self.seconds or 0.001)
