"""`JobMachine`: the search of one job as a pure state machine, without I/O.

It drives a `SearchRun` and tracks what is in flight:

    proposed batch ──cut──► task ──sent──► answer ──► batch complete ──► observed, when the schedule allows
                             ▲       │ no answer: again          (not a failure: the worker may have died)
                             ├───────┤ unavailable: again, later (not a failure of the task)
                             └───────┘ failed or lost: in halves; a single subset is given up after some failures

Neither the cut of a batch, nor repeated sending, nor the order of the answers changes what is proposed.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.result import StopReason
from maabo_dist.mining.run import SearchRun
from maabo_dist.search.space import Subsets
from maabo_dist.trees.forest import Forest, failed_forest
from scheduler.core.outbox import Outbox

# Failures after which a single subset is given up: enough that dying machines rarely look like a bad subset.
MAX_SUBSET_FAILURES = 4


@dataclass(frozen=True, slots=True, order=True)
class TaskKey:
    """Subsets start … stop − 1 of a batch."""

    batch: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of subsets."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Task:
    """A task to send. `attempt` counts its failures."""

    key: TaskKey
    attempt: int
    subsets: Subsets


@dataclass(slots=True)
class _Batch:
    subsets: Subsets
    answered: npt.NDArray[np.bool_]
    # The answers, by the index of their first subset.
    forests: dict[int, Forest] = field(default_factory=dict)
    # Tasks that were sent. They are not cut again: their answers may still come.
    cuts: set[TaskKey] = field(default_factory=set)


class JobMachine:
    """The in-flight state of one search."""

    def __init__(self, run: SearchRun, max_depth: int, classes: int) -> None:
        self.run = run
        self._max_depth, self._classes = max_depth, classes
        self._batches: dict[int, _Batch] = {}
        # Batches proposed.
        self.proposed = 0
        # Batches observed.
        self.observed = 0
        self._stop: tuple[int, StopReason] | None = None
        self.outbox: Outbox[TaskKey] = Outbox()

    @property
    def finished(self) -> bool:
        """True when the search is over and every answer is in."""
        return self.run.finished

    def stop(self, after: int, reason: StopReason) -> None:
        """End the search once `after` batches are proposed; those are still observed."""
        self._stop = (after, reason)

    def propose(self) -> tuple[tuple[int, Subsets], ...]:
        """Observe complete batches, propose as many as the schedule allows, and return the new ones."""
        fresh = []
        while True:
            if self._stop is not None and self.proposed >= self._stop[0]:
                self.run.stop(self._stop[1])
                self._stop = None
            subsets = self.run.propose()
            if subsets is not None:
                fresh.append((self.proposed, subsets))
                self._batches[self.proposed] = _Batch(subsets, np.zeros(len(subsets), np.bool_))
                self.outbox.unsent.append((TaskKey(self.proposed, 0, len(subsets)), 0))
                self.proposed += 1
            elif not self._observe_oldest():
                return tuple(fresh)

    def next_task(self, max_size: int, now: float) -> Task | None:
        """Take the next task to send, of at most `max_size` subsets."""
        entry = self.outbox.take_next(now)
        if entry is None:
            return None
        key, attempt = entry
        if key.size > max_size and key not in self._batches[key.batch].cuts:
            rest = TaskKey(key.batch, key.start + max_size, key.stop)
            key = TaskKey(key.batch, key.start, key.start + max_size)
            self.outbox.put_back(rest, attempt)
        return Task(key, attempt, self.subsets(key))

    def mark_sent(self, key: TaskKey, attempt: int, now: float) -> None:
        """Record that a task is in flight."""
        self.outbox.mark_sent(key, attempt, now)
        self._batches[key.batch].cuts.add(key)

    def adopt(self, key: TaskKey, attempt: int, now: float) -> None:
        """Treat a task sent by an earlier scheduler as in flight. Call this for the newest task first."""
        if self.is_open(key) and not any(_overlap(key, other) for other in self.outbox.sent):
            self.outbox.trim(lambda other: _remainder(other, key))
            self.mark_sent(key, attempt, now)

    def accept(self, key: TaskKey, forest: Forest) -> bool:
        """Accept the trees of a task; False if they are no longer needed."""
        if not self.is_open(key):
            return False
        batch, outbox = self._batches[key.batch], self.outbox
        batch.answered[key.start : key.stop] = True
        batch.forests[key.start] = forest
        if key in outbox.sent:  # then no other task holds these subsets
            outbox.remove_sent(key)
            return True
        # Tasks that overlap the answer keep only the subsets outside of it, and are sent again.
        outbox.trim(lambda other: _remainder(other, key))
        for other in [other for other in outbox.sent if _overlap(other, key)]:
            attempt = outbox.remove_sent(other).attempt
            outbox.unsent.extendleft((rest, attempt) for rest in _remainder(other, key))
        return True

    def fail(self, key: TaskKey, attempt: int) -> bool:
        """Send a failed attempt again, in halves. True if it is a single subset that failed too often."""
        if not self.outbox.is_sent(key, attempt):
            return False
        self.outbox.remove_sent(key)
        if key.size > 1:
            middle = (key.start + key.stop) // 2
            self.outbox.put_back(TaskKey(key.batch, middle, key.stop), 0)
            self.outbox.put_back(TaskKey(key.batch, key.start, middle), 0)
            return False
        if attempt + 1 < MAX_SUBSET_FAILURES:
            self.outbox.put_back(key, attempt + 1)
            return False
        return True

    def give_up(self, key: TaskKey) -> bool:
        """Continue without a subset; False if it was answered in the meantime."""
        batch = self._batches.get(key.batch)
        subsets = np.empty((0, 0), np.int32) if batch is None else batch.subsets[key.start : key.stop]
        return self.accept(key, failed_forest(subsets, self._max_depth, self._classes))

    def is_open(self, key: TaskKey) -> bool:
        """True if these subsets are not answered yet."""
        batch = self._batches.get(key.batch)
        return (
            batch is not None
            and key.start < key.stop <= len(batch.subsets)
            and not batch.answered[key.start : key.stop].any()
        )

    def subsets(self, key: TaskKey) -> Subsets:
        """The subsets of an open task."""
        return self._batches[key.batch].subsets[key.start : key.stop]

    def _observe_oldest(self) -> bool:
        oldest = self._batches.get(self.observed)
        if oldest is None or not oldest.answered.all():
            return False
        self.run.observe(Forest.concatenate([oldest.forests[start] for start in sorted(oldest.forests)]))
        del self._batches[self.observed]
        self.outbox.forget_timeouts(lambda key: key.batch == self.observed)
        self.observed += 1
        return True


def _overlap(task: TaskKey, other: TaskKey) -> bool:
    return task.batch == other.batch and task.start < other.stop and other.start < task.stop


def _remainder(task: TaskKey, answered: TaskKey) -> list[TaskKey]:
    """The zero to two ranges of a task that an answer does not cover."""
    if not _overlap(task, answered):
        return [task]
    ranges = [
        TaskKey(task.batch, task.start, min(task.stop, answered.start)),
        TaskKey(task.batch, max(task.start, answered.stop), task.stop),
    ]
    return [rest for rest in ranges if rest.size > 0]
