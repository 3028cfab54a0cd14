"""`JobMachine`: one job as a pure state machine. Events go in, batches and tasks to send come out; no I/O inside.

It drives a `SearchRun` and keeps the books of what is on its way:

    proposed batch ──cut──► task ──sent, attempt n──► answer ──► batch complete ──► observed, when the schedule says
                             ▲           │ lost, overdue
                             └───────────┘ again; after the last attempt in halves; a single subset is then given up

How a batch is cut, how often a task is sent and in which order answers come does not change what is proposed.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from maabo_dist.run import SearchRun
from maabo_dist.search import Subsets
from maabo_dist.trees.forest import Forest, failed_forest

MOST_ATTEMPTS = 4
"""Times that a task is sent before it is cut in halves."""


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


@dataclass(slots=True)
class _Sent:
    attempt: int
    deadline: float


@dataclass(slots=True)
class _Batch:
    subsets: Subsets
    answered: npt.NDArray[np.bool_]
    parts: dict[int, Forest] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return bool(self.answered.all())


class JobMachine:
    """The books of one running job."""

    def __init__(self, run: SearchRun, max_depth: int, classes: int) -> None:
        self.run = run
        self._max_depth, self._classes = max_depth, classes
        self._batches: dict[int, _Batch] = {}
        self._proposed = 0
        self._next_observed = 0
        self._unsent: deque[tuple[TaskKey, int]] = deque()  # with the attempt to come
        self._sent: dict[TaskKey, _Sent] = {}
        self._ever_sent: set[TaskKey] = set()  # a task once sent keeps its cut: its answer may still come

    @property
    def finished(self) -> bool:
        """Whether the search is over and every answer is in."""
        return self.run.finished

    @property
    def in_flight(self) -> int:
        """Tasks that were sent and not answered."""
        return len(self._sent)

    def propose(self) -> tuple[tuple[int, Subsets], ...]:
        """Propose as far as the schedule allows, observing what is complete; returns the new batches."""
        fresh = []
        while True:
            subsets = self.run.propose()
            if subsets is not None:
                fresh.append((self._proposed, subsets))
                self._open(subsets)
                continue
            oldest = self._batches.get(self._next_observed)
            if oldest is None or not oldest.complete:
                return tuple(fresh)
            self.run.observe(_joined(oldest))
            del self._batches[self._next_observed]
            self._ever_sent = {key for key in self._ever_sent if key.batch != self._next_observed}
            self._next_observed += 1

    def next_task(self, most: int) -> tuple[TaskKey, int, Subsets] | None:
        """The next task to send, of at most `most` subsets, its attempt and its subsets."""
        if not self._unsent:
            return None
        key, attempt = self._unsent.popleft()
        if attempt == 0 and key not in self._ever_sent and key.size > most:
            rest = TaskKey(key.batch, key.start + most, key.stop)
            key = TaskKey(key.batch, key.start, key.start + most)
            self._unsent.appendleft((rest, 0))
        return key, attempt, self._batches[key.batch].subsets[key.start : key.stop]

    def sent(self, key: TaskKey, attempt: int, deadline: float) -> None:
        """The task is on its way."""
        self._sent[key] = _Sent(attempt, deadline)
        self._ever_sent.add(key)

    def answer(self, key: TaskKey, forest: Forest) -> bool:
        """The trees of a task; False if they are of no use any more."""
        if not self.is_open(key):
            return False
        batch = self._batches[key.batch]
        batch.answered[key.start : key.stop] = True
        batch.parts[key.start] = forest
        # What overlaps the answer keeps only what lies outside of it; cut differently, it is to be sent anew.
        self._unsent = deque((part, attempt) for other, attempt in self._unsent for part in _outside(other, key))
        for other in [other for other in self._sent if _outside(other, key) != [other]]:
            attempt = self._sent.pop(other).attempt
            self._unsent.extendleft((part, attempt) for part in _outside(other, key))
        return True

    def lost(self, key: TaskKey, attempt: int) -> TaskKey | None:
        """An attempt will not be answered: send again, or in halves; a single subset that cannot be had is returned."""
        sent = self._sent.get(key)
        if sent is None or sent.attempt != attempt:
            return None
        del self._sent[key]
        if attempt + 1 < MOST_ATTEMPTS:
            self._unsent.appendleft((key, attempt + 1))
        elif key.size == 1:
            return key
        else:
            middle = (key.start + key.stop) // 2
            self._unsent.appendleft((TaskKey(key.batch, middle, key.stop), 1))
            self._unsent.appendleft((TaskKey(key.batch, key.start, middle), 1))
        return None

    def is_open(self, key: TaskKey) -> bool:
        """Whether an answer to these subsets is still of use."""
        batch = self._batches.get(key.batch)
        return batch is not None and key.stop <= len(batch.subsets) and not batch.answered[key.start : key.stop].any()

    def subsets(self, key: TaskKey) -> Subsets:
        """The subsets of an open task."""
        return self._batches[key.batch].subsets[key.start : key.stop]

    def again(self, key: TaskKey) -> None:
        """Nothing was heard of a task: send it once more. Silence is no strike against it: workers may have died."""
        sent = self._sent.pop(key, None)
        if sent is not None:
            self._unsent.appendleft((key, sent.attempt))

    def give_up(self, key: TaskKey) -> bool:
        """Go on without a subset that cannot be had; False if it was answered after all."""
        batch = self._batches.get(key.batch)
        subsets = np.empty((0, 0), np.int32) if batch is None else batch.subsets[key.start : key.stop]
        return self.answer(key, failed_forest(subsets, self._max_depth, self._classes))

    def overdue(self, now: float) -> list[tuple[TaskKey, int]]:
        """Tasks whose answer should have come."""
        return [(key, sent.attempt) for key, sent in self._sent.items() if sent.deadline <= now]

    def _open(self, subsets: Subsets) -> None:
        self._batches[self._proposed] = _Batch(subsets, np.zeros(len(subsets), np.bool_))
        self._unsent.append((TaskKey(self._proposed, 0, len(subsets)), 0))
        self._proposed += 1


def _outside(task: TaskKey, answered: TaskKey) -> list[TaskKey]:
    """The parts of a task, none to two, that an answer does not cover."""
    if task.batch != answered.batch:
        return [task]
    parts = [
        TaskKey(task.batch, task.start, min(task.stop, answered.start)),
        TaskKey(task.batch, max(task.start, answered.stop), task.stop),
    ]
    return [part for part in parts if part.size > 0]


def _joined(batch: _Batch) -> Forest:
    return Forest.joined([batch.parts[start] for start in sorted(batch.parts)])
