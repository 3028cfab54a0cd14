"""`JobMachine`: one job as a pure state machine. Events go in, batches and tasks to send come out; no I/O inside.

It drives a `SearchRun` and keeps the books of what is on its way:

    proposed batch ──cut──► task ──sent──► answer ──► batch complete ──► observed, when the schedule says
                             ▲       │ nothing heard: again       (no strike: workers may have died)
                             ├───────┤ unavailable: again, later  (no strike: the worker was at fault)
                             └───────┘ failed or lost: in halves; a single subset is given up after some strikes

How a batch is cut, how often a task is sent and in which order answers come does not change what is proposed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.result import StopReason
from maabo_dist.mining.run import SearchRun
from maabo_dist.search.space import Subsets
from maabo_dist.trees.forest import Forest, failed_forest
from scheduler.core.outbox import Outbox

MOST_STRIKES = 4
"""Failures after which a single subset is given up: enough that machines that die hardly look like a bad subset."""


@dataclass(frozen=True, slots=True, order=True)
class TaskKey:
    """Subsets start … stop − 1 of a batch."""

    batch: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many subsets."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Task:
    """A task to send. `attempt` counts the strikes against it."""

    key: TaskKey
    attempt: int
    subsets: Subsets


@dataclass(slots=True)
class _Batch:
    subsets: Subsets
    answered: npt.NDArray[np.bool_]
    parts: dict[int, Forest] = field(default_factory=dict)
    cuts: set[TaskKey] = field(default_factory=set)
    """A task once sent keeps its cut: its answer may still come."""

    @property
    def complete(self) -> bool:
        return bool(self.answered.all())


class JobMachine:
    """The books of one running job."""

    def __init__(self, run: SearchRun, max_depth: int, classes: int) -> None:
        self.run = run
        self._max_depth, self._classes = max_depth, classes
        self._batches: dict[int, _Batch] = {}
        self.proposed = 0
        """Batches proposed."""
        self.observed = 0
        """Batches observed."""
        self._stop: tuple[int, StopReason] | None = None
        self._outbox: Outbox[TaskKey] = Outbox()

    @property
    def tasks_in_flight(self) -> int:
        """Tasks that were sent and not answered."""
        return len(self._outbox.sent)

    def tasks_to_send(self, most: int) -> int:
        """About how many tasks of at most `most` subsets could be sent now."""
        return self._outbox.tasks_to_send(most)

    @property
    def in_flight(self) -> int:
        """Subsets that were sent and not answered."""
        return self._outbox.in_flight

    @property
    def finished(self) -> bool:
        """Whether the search is over and every answer is in."""
        return self.run.finished

    def stop(self, after: int, reason: StopReason) -> None:
        """End the search when `after` batches have been proposed; those are still observed."""
        self._stop = (after, reason)

    def propose(self) -> tuple[tuple[int, Subsets], ...]:
        """Propose as far as the schedule allows, observing what is complete; returns the new batches."""
        fresh = []
        while True:
            if self._stop is not None and self.proposed >= self._stop[0]:
                self.run.stop(self._stop[1])
                self._stop = None
            subsets = self.run.propose()
            if subsets is not None:
                fresh.append((self.proposed, subsets))
                self._open(subsets)
            elif not self._observe_oldest():
                return tuple(fresh)

    def next_task(self, most: int, now: float) -> Task | None:
        """The next task to send, of at most `most` subsets."""
        found = self._outbox.next(now)
        if found is None:
            return None
        key, attempt = found
        if key.size > most and key not in self._batches[key.batch].cuts:
            rest = TaskKey(key.batch, key.start + most, key.stop)
            key = TaskKey(key.batch, key.start, key.start + most)
            self._outbox.unsent.appendleft((rest, attempt))
        return Task(key, attempt, self.subsets(key))

    def sent(self, key: TaskKey, attempt: int, now: float) -> None:
        """The task is on its way."""
        self._outbox.note_sent(key, attempt, now)
        self._batches[key.batch].cuts.add(key)

    def unsent(self, key: TaskKey, attempt: int) -> None:
        """A task from `next_task` could not be sent after all."""
        self._outbox.unsent.appendleft((key, attempt))

    def adopt(self, key: TaskKey, attempt: int, now: float) -> None:
        """A predecessor sent this task; its answer may still come. Call it for the newest first."""
        if self.is_open(key) and not any(_overlap(key, other) for other in self._outbox.sent):
            self._outbox.cut(lambda other: _outside(other, key))
            self.sent(key, attempt, now)

    def is_sent(self, key: TaskKey, attempt: int) -> bool:
        """Whether this very attempt is under way."""
        return self._outbox.is_sent(key, attempt)

    def sent_at(self, key: TaskKey) -> float | None:
        """When a task that is under way was sent."""
        return self._outbox.sent_at(key)

    def answer(self, key: TaskKey, forest: Forest) -> bool:
        """The trees of a task; False if they are of no use any more."""
        if not self.is_open(key):
            return False
        batch, outbox = self._batches[key.batch], self._outbox
        batch.answered[key.start : key.stop] = True
        batch.parts[key.start] = forest
        if key in outbox.sent:  # then nothing else holds these subsets
            outbox.take_back(key)
            return True
        # What overlaps the answer keeps only what lies outside of it; cut differently, it is to be sent anew.
        outbox.cut(lambda other: _outside(other, key))
        for other in [other for other in outbox.sent if _overlap(other, key)]:
            attempt = outbox.take_back(other).attempt
            outbox.unsent.extendleft((part, attempt) for part in _outside(other, key))
        return True

    def strike(self, key: TaskKey, attempt: int) -> TaskKey | None:
        """An attempt failed: send it in halves. A single subset that cannot be had is returned."""
        if not self._outbox.is_sent(key, attempt):
            return None
        self._outbox.take_back(key)
        if key.size > 1:
            middle = (key.start + key.stop) // 2
            self._outbox.unsent.appendleft((TaskKey(key.batch, middle, key.stop), 0))
            self._outbox.unsent.appendleft((TaskKey(key.batch, key.start, middle), 0))
        elif attempt + 1 < MOST_STRIKES:
            self._outbox.unsent.appendleft((key, attempt + 1))
        else:
            return key
        return None

    def postpone(self, key: TaskKey, attempt: int, until: float) -> None:
        """The worker could not begin: send again later."""
        self._outbox.postpone(key, attempt, until)

    def give_up(self, key: TaskKey) -> bool:
        """Go on without a subset that cannot be had; False if it was answered after all."""
        batch = self._batches.get(key.batch)
        subsets = np.empty((0, 0), np.int32) if batch is None else batch.subsets[key.start : key.stop]
        return self.answer(key, failed_forest(subsets, self._max_depth, self._classes))

    def is_open(self, key: TaskKey) -> bool:
        """Whether an answer to these subsets is still of use."""
        batch = self._batches.get(key.batch)
        return (
            batch is not None
            and key.start < key.stop <= len(batch.subsets)
            and not batch.answered[key.start : key.stop].any()
        )

    def subsets(self, key: TaskKey) -> Subsets:
        """The subsets of an open task."""
        return self._batches[key.batch].subsets[key.start : key.stop]

    def taken(self, sent_before: float, now: float) -> None:
        """Whatever was sent before a time has been taken from the queue: from now on its answer is awaited."""
        self._outbox.taken(sent_before, now)

    def resend_silent(self, now: float, allowance: Callable[[TaskKey], float]) -> list[TaskKey]:
        """Send again what a worker took longer ago than `allowance` seconds, twice as long after each silence."""
        return self._outbox.resend_silent(now, allowance)

    def _observe_oldest(self) -> bool:
        oldest = self._batches.get(self.observed)
        if oldest is None or not oldest.complete:
            return False
        self.run.observe(Forest.joined([oldest.parts[start] for start in sorted(oldest.parts)]))
        del self._batches[self.observed]
        self._outbox.forget_silences(lambda key: key.batch == self.observed)
        self.observed += 1
        return True

    def _open(self, subsets: Subsets) -> None:
        self._batches[self.proposed] = _Batch(subsets, np.zeros(len(subsets), np.bool_))
        self._outbox.unsent.append((TaskKey(self.proposed, 0, len(subsets)), 0))
        self.proposed += 1


def _overlap(task: TaskKey, other: TaskKey) -> bool:
    return task.batch == other.batch and task.start < other.stop and other.start < task.stop


def _outside(task: TaskKey, answered: TaskKey) -> list[TaskKey]:
    """The parts of a task, none to two, that an answer does not cover."""
    if not _overlap(task, answered):
        return [task]
    parts = [
        TaskKey(task.batch, task.start, min(task.stop, answered.start)),
        TaskKey(task.batch, max(task.start, answered.stop), task.stop),
    ]
    return [part for part in parts if part.size > 0]
