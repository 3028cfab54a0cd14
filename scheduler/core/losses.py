"""`Losses`: counts the worker processes that the tasks of one job have ended, so that the job fails in time.

A single bad subset is isolated and given up, and costs some processes. A table that does not fit into the memory of the
workers ends a process with every task.
"""

from dataclasses import dataclass
from enum import StrEnum

# Losses without a task that was done in between: one bad subset, alone, causes four.
MAX_IN_A_ROW = 12
# Losses in all, unless most tasks are done: machines may be switched off, too.
MAX_LOSSES, DONE_PER_LOSS = 40, 4


class Cause(StrEnum):
    """Why a task did not end well."""

    MEMORY = "memory"
    TIME = "time"
    CRASH = "crash"

    @property
    def explanation(self) -> str:
        """What happened, after "the worker process"."""
        return {
            Cause.MEMORY: "was killed or ran out of memory (signal 9 is most often the kernel's, when memory is short)",
            Cause.TIME: "exceeded the time limit of a task",
            Cause.CRASH: "crashed",
        }[self]

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return {
            Cause.MEMORY: "Give the workers more memory or fewer processes (celery worker -c), "
            "or submit a table with fewer rows or columns.",
            Cause.TIME: "Raise MAABO_TASK_LIMIT, or submit a table with fewer rows.",
            Cause.CRASH: "The log of the worker has the details.",
        }[self]


def cause_of(kind: str, reason: str) -> Cause | None:
    """Why a task was lost or failed, from a worker's answer; None if it raised an ordinary error."""
    if "out of memory" in reason or "MemoryError" in reason or (kind == "lost" and "signal 9 " in reason):
        return Cause.MEMORY
    if "TimeLimitExceeded" in reason:
        return Cause.TIME
    return Cause.CRASH if kind == "lost" else None


def explain(reason: str, cause: Cause | None) -> str:
    """A worker's reason, with what it means and what to do."""
    return reason if cause is None else f"a worker process {cause.explanation}: {reason.rstrip('.')}. {cause.remedy}"


@dataclass(slots=True)
class Losses:
    """The losses of one job while a scheduler holds it."""

    done: int = 0
    lost: int = 0
    in_a_row: int = 0
    cause: Cause | None = None
    reason: str = ""

    def note_done(self) -> None:
        """Record a task that was done."""
        self.done += 1
        self.in_a_row = 0

    def note_failure(self, kind: str, reason: str) -> None:
        """Record a task that was lost or failed."""
        cause = cause_of(kind, reason)
        if cause is not None:
            self.lost += 1
            self.in_a_row += 1
            self.cause, self.reason = cause, reason

    @property
    def too_many(self) -> bool:
        """True if the job should fail."""
        return self.in_a_row >= MAX_IN_A_ROW or (self.lost >= MAX_LOSSES and self.done < DONE_PER_LOSS * self.lost)

    def explain(self, table: str) -> str:
        """Why the job fails, with the cause, the table and the remedy."""
        return f"{self.lost} tasks on the table {table} ended early: {explain(self.reason, self.cause)}"
