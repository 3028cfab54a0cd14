"""`Supervisor`: starts the parts, watches them, starts again what ended, and stops them in order."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deploy.local.processes import Part, Role
from deploy.local.restarts import Restarts
from maabo_dist.errors import MaaboError

STOP_ORDER: tuple[Role, ...] = ("flower", "service", "worker", "scheduler", "redis")
"""Who needs a part stops before it."""
GRACE_SECONDS = 10.0
PAUSE = 0.05
LAST_LINES = 15


class PartError(MaaboError):
    """A part ends again and again, and has never been healthy."""


class Running(Protocol):
    """A process, as the supervisor sees it."""

    @property
    def pid(self) -> int:
        """Its number."""

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""

    def terminate(self) -> None:
        """Ask it to stop."""

    def kill(self) -> None:
        """End it at once, with all that it started."""

    def output(self) -> str:
        """What it has logged since it was started."""


Checks = Callable[[Sequence[tuple[Part, Running]]], set[str]]
"""Given parts that run and were not healthy yet, the names of those that are."""


@dataclass(slots=True)
class _Slot:
    part: Part
    process: Running | None = None
    healthy: bool = False
    healthy_pid: int | None = None
    restarts: Restarts = field(default_factory=Restarts)
    due: float = 0.0
    """When it is to be started, while there is no process."""
    end: str = ""
    """How its last process ended."""


class Supervisor:
    """Keeps parts running. `say` gets one line for people about each restart."""

    def __init__(
        self,
        parts: Sequence[Part],
        start: Callable[[Part], Running],
        checks: Checks,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slots = [_Slot(part) for part in parts]
        self._start, self._checks, self._say, self._clock, self._sleep = start, checks, say, clock, sleep

    def turn(self) -> None:
        """Everything once: notice ends, start what is due, look which parts have become healthy."""
        now = self._clock()
        for slot in self._slots:
            if slot.process is not None and (end := slot.process.ended()) is not None:
                self._bury(slot, slot.process, end, now)
            if slot.process is None and now >= slot.due:
                self._revive(slot)
        self._look()

    @property
    def healthy(self) -> bool:
        """Whether every part is."""
        return all(slot.healthy for slot in self._slots)

    @property
    def waiting_for(self) -> list[str]:
        """The names of the parts that are not healthy."""
        return [slot.part.name for slot in self._slots if not slot.healthy]

    @property
    def processes(self) -> list[tuple[Role, int]]:
        """The process of each part that was last healthy, in the order of the parts."""
        return [(slot.part.role, slot.healthy_pid) for slot in self._slots if slot.healthy_pid is not None]

    def stop(self, hurried: Callable[[], bool] = lambda: False) -> list[str]:
        """Stop all in `STOP_ORDER`, those of one role together; gives the names of those that had to be killed."""
        killed = []
        for role in STOP_ORDER:
            slots = [slot for slot in self._slots if slot.part.role == role and slot.process is not None]
            killed += self._stop_together(slots, hurried)
        return killed

    def _bury(self, slot: _Slot, process: Running, end: str, now: float) -> None:
        process.kill()  # what it had started may have outlived it
        slot.process, slot.healthy, slot.end = None, False, end
        slot.restarts, delay = slot.restarts.ended(now)
        if delay is None:
            lines = "\n".join(process.output().splitlines()[-LAST_LINES:])
            raise PartError(
                f"{slot.part.name} ended {len(slot.restarts.failures)} times without ever being ready, "
                f"the last time with {end}. Its log ends:\n{lines}"
            )
        slot.due = now + delay

    def _revive(self, slot: _Slot) -> None:
        slot.process = self._start(slot.part)
        if slot.end:
            self._say(f"{slot.part.name} ended ({slot.end}) and was started again as process {slot.process.pid}.")

    def _look(self) -> None:
        unsure = [(slot.part, slot.process) for slot in self._slots if slot.process is not None and not slot.healthy]
        found = self._checks(unsure) if unsure else set()
        for slot in self._slots:
            if slot.part.name in found and slot.process is not None:
                slot.healthy, slot.healthy_pid = True, slot.process.pid
                slot.restarts = slot.restarts.healthy(self._clock())

    def _stop_together(self, slots: Sequence[_Slot], hurried: Callable[[], bool]) -> list[str]:
        processes = {slot.part.name: slot.process for slot in slots if slot.process is not None}
        for process in processes.values():
            process.terminate()
        end = self._clock() + GRACE_SECONDS
        while (left := [n for n, p in processes.items() if p.ended() is None]) and self._clock() < end:
            if hurried():
                break
            self._sleep(PAUSE)
        for slot in slots:
            processes[slot.part.name].kill()
            slot.process, slot.healthy = None, False
        return left
