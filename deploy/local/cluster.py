"""`run_cluster`: a cluster from its start to its end, in the foreground."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.child import Child
from deploy.local.directory import DataDirectory
from deploy.local.processes import Options, Part, Plan, check_flower, make_plan
from deploy.local.ready import ReadyFile
from deploy.local.screen import Screen, counted
from deploy.local.supervisor import GRACE_SECONDS, PAUSE, Running, Supervisor

if TYPE_CHECKING:
    from deploy.local.health import HealthChecks

INTERRUPTED = 130
PATIENCE = 20.0
"""After so many seconds of waiting, it is said what for."""


class StopSignals:
    """Ctrl-C and its like: the first asks for a stop in order, the second for one at once."""

    def __init__(self) -> None:
        self._count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, self._hear)

    def asked(self) -> bool:
        """Whether to stop."""
        return self._count > 0

    def hurried(self) -> bool:
        """Whether to stop at once."""
        return self._count > 1

    def _hear(self, _signal: int, _frame: object) -> None:
        self._count += 1


def run_cluster(
    options: Options,
    data_dir: Path,
    screen: Screen,
    *,
    ready_file: Path | None = None,
    client: Sequence[str] | None = None,
) -> int:
    """Run a cluster until Ctrl-C; 0.

    With a `client`, run it until that command has ended in it, and give its exit code. Nobody needs the cluster
    afterwards: its parts are not asked to stop but killed.
    """
    check_flower(options)
    directory = DataDirectory.prepared(data_dir)
    with directory.locked() as lock:
        plan = make_plan(options, directory, dict(os.environ))
        return _Run(plan, directory, lock, screen, ReadyFile(ready_file, plan)).until_end(client)


class _Run:
    def __init__(self, plan: Plan, directory: DataDirectory, lock: int, screen: Screen, ready: ReadyFile) -> None:
        self._plan, self._directory, self._lock, self._screen, self._ready = plan, directory, lock, screen, ready
        self._signals = StopSignals()
        self._supervisor = Supervisor(plan.parts, self._start, self._checks, screen.problem)
        self._started = time.monotonic()
        self._patience = PATIENCE
        self._needed = True

    def until_end(self, command: Sequence[str] | None) -> int:
        self._screen.note(f"starting {counted(self._plan)} in {self._directory.root}…")
        try:
            self._come_up()
            code = self._keep_up() if command is None else self._keep_up_for(command)
        finally:
            self._come_down()
        return INTERRUPTED if self._signals.hurried() else code

    def _come_up(self) -> None:
        while not self._signals.asked():
            self._supervisor.turn()
            if self._supervisor.healthy:
                self._ready.write(self._supervisor.processes)
                self._screen.note(f"ready in {time.monotonic() - self._started:.1f} s.")
                return
            if time.monotonic() - self._started > self._patience:
                self._patience *= 2
                self._screen.note(f"still waiting for {', '.join(self._supervisor.waiting_for)}…")
            time.sleep(PAUSE)

    def _keep_up(self) -> int:
        if not self._signals.asked():
            self._screen.addresses(self._plan, self._supervisor.processes, self._directory.root / "logs")
        while not self._signals.asked():
            self._watch()
        return 0

    def _keep_up_for(self, command: Sequence[str]) -> int:
        """The client hears the terminal's Ctrl-C itself, and ends in its own way."""
        if self._signals.asked():
            return INTERRUPTED
        if self._plan.flower_url is not None:
            self._screen.note(f"Flower is at {self._plan.flower_url}")
        environment = os.environ | {"MAABO_REDIS": self._plan.settings.redis_url}
        client = subprocess.Popen(command, env=environment)  # noqa: S603 - our own command
        while not self._signals.asked() and client.poll() is None:
            self._watch()
        self._needed = False
        return _end(client)

    def _watch(self) -> None:
        self._supervisor.turn()
        self._ready.write(self._supervisor.processes)
        time.sleep(PAUSE)

    def _come_down(self) -> None:
        self._ready.remove()
        if self._signals.asked() and self._needed:
            self._screen.note("stopping… (Ctrl-C again stops at once)")
        killed = self._supervisor.stop(self._hurried)
        if killed and not self._hurried():
            self._screen.problem(f"killed, as they did not stop by themselves: {', '.join(killed)}.")

    def _hurried(self) -> bool:
        return self._signals.hurried() or not self._needed

    def _start(self, part: Part) -> Running:
        return Child(part, self._directory.log(part.name), self._lock)

    def _checks(self, unsure: Sequence[tuple[Part, Running]]) -> set[str]:
        return self._health(unsure)

    @cached_property
    def _health(self) -> "HealthChecks":
        """Celery takes half a second to import, in which the parts are already starting."""
        from deploy.local.health import HealthChecks

        return HealthChecks(self._plan)


def _end(client: "subprocess.Popen[bytes]") -> int:
    """The client's exit code; one that has not ended is asked to, as it may not have heard what this process heard."""
    if client.poll() is None:
        client.terminate()
    try:
        code = client.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        client.kill()
        code = client.wait()
    return code if code >= 0 else INTERRUPTED
