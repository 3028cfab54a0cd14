"""`TaskLengths`: how long the next task should take. No I/O.

    seconds
    most  ───────────────╮          plenty of work: in a large fleet longer than asked for, so that one scheduler
                          ╲         can send all tasks
                           ╲        half of a worker's share of what is left
    least                   ╰────   the end: short, so that all workers finish at about the same time
          work left ──────────► 0

How work is cut into tasks never changes a result, only the time until it is there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

# Tasks that a scheduler sends in a second while there is plenty of work, and for a short time near its end. A task
# costs it about 0.3 ms, and its subsets as much or more.
STEADY_RATE, PEAK_RATE = 400.0, 1000.0
# Tasks near the end are at least this part of the length that was asked for.
SHORTEST = 0.1


@dataclass(frozen=True, slots=True)
class TaskLengths:
    """The lengths of tasks for a fleet of workers."""

    # The length that was asked for.
    seconds: float
    # Tasks that can run at the same time.
    workers: int = 1
    # No task should take longer, whatever the fleet.
    longest: float = 30.0

    def next(self, left: float) -> float:
        """The seconds of the next task, if the work that is not sent yet takes `left` seconds of one worker."""
        workers = max(1, self.workers)
        # Work for fewer than all workers: as short as can be sent to as many workers as there are tasks.
        at_peak_rate = min(workers / PEAK_RATE, sqrt(left / PEAK_RATE))
        least = max(SHORTEST * self.seconds, at_peak_rate)
        most = max(self.seconds, min(workers / STEADY_RATE, self.longest))
        return min(most, max(least, left / (2 * workers)))

    def cut(self, total: float) -> Iterator[float]:
        """The lengths of all tasks of work that is cut in advance."""
        while total > 0:
            seconds = min(total, self.next(total))
            yield seconds
            total -= seconds
