"""Timing on a noisy machine: the compared calls run in turn, round by round, after a warm-up round.

The warm-up compiles and fills caches. A disturbance hits all calls of a round, and the best of several rounds is the
figure that disturbances affect least. Every table shows it unless it says median.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Timing:
    best: float
    median: float

    def per(self, units: float) -> float:
        """Best microseconds per unit."""
        return self.best / units * 1e6


def time_interleaved(
    calls: dict[str, Callable[[], object]],
    rounds: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Timing]:
    """Time each call over `rounds` rounds in which all of them run in turn; seconds of the clock."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + warm_up):
        for name, call in calls.items():
            taken = time_call(call, clock)
            if number >= warm_up:
                seconds[name].append(taken)
    return {name: Timing(min(taken), median(taken)) for name, taken in seconds.items()}


def time_call(call: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    call()
    return clock() - start


def run_python(*arguments: str) -> str:
    """Run a new interpreter and return its output; its errors are printed."""
    run = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout


def peak_megabytes() -> float:
    """The peak resident memory of this process.

    On Linux, `ru_maxrss` includes the peak of the parent process; `VmHWM` does not.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_megabytes() -> float:
    """The resident memory of this process; its peak where the system does not report it."""
    return _status("VmRSS") or peak_megabytes()


def _status(field: str) -> float | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields[field].split()[0]) / 1024
