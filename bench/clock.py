"""Timing on a noisy machine: what is compared runs in turn, round by round, after a round that is not counted.

The first round compiles and fills caches. A disturbance hits all of a round, and the best of several rounds is the
figure that disturbances spoil least; it is what every table shows unless it says median.
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


def interleaved(calls: dict[str, Callable[[], object]], rounds: int, *, warm_up: bool = True) -> dict[str, Timing]:
    """Seconds of each call over `rounds` rounds in which all of them run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + warm_up):
        for name, call in calls.items():
            taken = stopwatch(call)
            if number >= warm_up:
                seconds[name].append(taken)
    return {name: Timing(min(taken), median(taken)) for name, taken in seconds.items()}


def stopwatch(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def python(*arguments: str) -> str:
    """What a fresh interpreter prints; its errors go through."""
    run = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout


def peak_megabytes() -> float:
    """The most memory that this process ever held.

    Linux hands `ru_maxrss` on from the process that started this one; `VmHWM` is this one's own.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_megabytes() -> float:
    """The memory that this process holds now; its peak where that is not to be had."""
    return _status("VmRSS") or peak_megabytes()


def _status(field: str) -> float | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields[field].split()[0]) / 1024
