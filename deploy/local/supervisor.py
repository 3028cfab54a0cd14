"""`Supervisor`: starts the components, restarts those that exit, and stops them in order."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from deploy.local.directory import rotate
from deploy.local.plan import ROOT, Component, Role
from maabo_dist._util.network import backoff_delay
from maabo_dist.errors import MaaboError

# A component stops before those that it needs.
STOP_ORDER: tuple[Role, ...] = ("flower", "service", "worker", "scheduler", "redis")
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.05
LOG_LINES = 15
FIRST_DELAY = 0.5
MAX_DELAY = 10.0
STABLE_SECONDS = 30.0  # a component that was healthy for this long is restarted after the first delay again
MAX_FAILURES = 5
FAILURE_WINDOW = 30.0
_PR_SET_PDEATHSIG = 1


class ComponentError(MaaboError):
    """A component exited several times without ever being healthy."""


class Process:
    """A started component. It has its own session, so that Ctrl-C in the terminal does not reach it."""

    def __init__(self, component: Component, log: Path, lock: int) -> None:
        rotate(log)
        with log.open("ab") as file:
            self._log, self._log_start = log, file.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                component.command,
                cwd=ROOT,
                env=component.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,  # only this user reads tables and jobs
                pass_fds=(lock,),
                preexec_fn=_orphan_setup(component.orphan_signal),  # noqa: PLW1509 - this process has one thread
            )

    @property
    def pid(self) -> int:
        """The process ID of the main process."""
        return self._process.pid

    def exit_reason(self) -> str | None:
        """Why it ended, for example `exit code 1` or `SIGKILL`; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def terminate(self) -> None:
        """Ask it to stop."""
        self._process.terminate()

    def kill(self) -> None:
        """End all its processes immediately, including those that a killed main process left behind."""
        with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter if the group has ended
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        """Its log since it was started."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


# Returns the names of the healthy ones among running components that were not healthy before.
HealthCheck = Callable[[Sequence[tuple[Component, Process]]], set[str]]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When to restart one component. Times are seconds of one clock, which is not read here."""

    quick_exits: int = 0  # exits in a row without `STABLE_SECONDS` of health before
    healthy_since: float | None = None  # None from an exit until it is healthy again
    ever_healthy: bool = False
    failures: tuple[float, ...] = ()  # times of its exits while it was never healthy

    def after_health(self, now: float) -> Self:
        """Return the policy once the component is healthy."""
        return replace(self, healthy_since=now, ever_healthy=True, failures=())

    def after_exit(self, now: float) -> tuple[Self, float | None]:
        """Return the policy after an exit, and the delay before the restart in seconds; None to give up."""
        stable = self.healthy_since is not None and now - self.healthy_since >= STABLE_SECONDS
        quick_exits = 0 if stable else self.quick_exits
        failures = () if self.ever_healthy else (*self.failures, now)[-MAX_FAILURES:]
        policy = replace(self, quick_exits=quick_exits + 1, healthy_since=None, failures=failures)
        hopeless = len(failures) == MAX_FAILURES and now - failures[0] <= FAILURE_WINDOW
        return policy, None if hopeless else backoff_delay(FIRST_DELAY, quick_exits, MAX_DELAY)


@dataclass(slots=True)
class _State:
    component: Component
    process: Process | None = None
    healthy: bool = False
    healthy_pid: int | None = None
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    start_at: float = 0.0  # when to start it, while there is no process
    exit_reason: str = ""  # of its previous process


class Supervisor:
    """Keeps components running. `report` is called with one line about each restart."""

    def __init__(
        self,
        components: Sequence[Component],
        start: Callable[[Component], Process],
        check_health: HealthCheck,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._states = [_State(component) for component in components]
        self._start, self._check_health, self._report = start, check_health, report
        self._clock, self._sleep = clock, sleep

    def step(self) -> None:
        """Handle exits, start what is due, and check the health of components that are not healthy yet."""
        now = self._clock()
        for state in self._states:
            if state.process is not None and (reason := state.process.exit_reason()) is not None:
                self._handle_exit(state, state.process, reason, now)
            if state.process is None and now >= state.start_at:
                state.process = self._start(state.component)
                if state.exit_reason:
                    name, pid = state.component.name, state.process.pid
                    self._report(f"{name} exited ({state.exit_reason}) and was restarted as process {pid}.")
        self._update_health()

    @property
    def healthy(self) -> bool:
        """True if every component is healthy."""
        return not self.unhealthy

    @property
    def unhealthy(self) -> list[str]:
        """The names of the components that are not healthy."""
        return [state.component.name for state in self._states if not state.healthy]

    @property
    def processes(self) -> list[tuple[Role, int]]:
        """Role and process ID of each component when it was last healthy, in the order of the components."""
        return [(state.component.role, state.healthy_pid) for state in self._states if state.healthy_pid is not None]

    def stop(self, immediately: Callable[[], bool] = lambda: False) -> list[str]:
        """Stop all in `STOP_ORDER`, those of one role together. Returns the names of those that had to be killed."""
        killed = []
        for role in STOP_ORDER:
            processes = {s.component.name: s.process for s in self._states if s.component.role == role and s.process}
            killed += self._stop_together(processes, immediately)
        for state in self._states:
            state.process, state.healthy = None, False
        return killed

    def _handle_exit(self, state: _State, process: Process, reason: str, now: float) -> None:
        process.kill()  # its child processes may still be running
        state.process, state.healthy, state.exit_reason = None, False, reason
        state.policy, delay = state.policy.after_exit(now)
        if delay is None:
            lines = "\n".join(process.output().splitlines()[-LOG_LINES:])
            raise ComponentError(
                f"{state.component.name} exited {len(state.policy.failures)} times without ever being ready, "
                f"the last time with {reason}. The end of its log:\n{lines}"
            )
        state.start_at = now + delay

    def _update_health(self) -> None:
        unknown = [(state.component, state.process) for state in self._states if state.process and not state.healthy]
        names = self._check_health(unknown) if unknown else set()
        for state in self._states:
            if state.component.name in names and state.process is not None:
                state.healthy, state.healthy_pid = True, state.process.pid
                state.policy = state.policy.after_health(self._clock())

    def _stop_together(self, processes: Mapping[str, Process], immediately: Callable[[], bool]) -> list[str]:
        for process in processes.values():
            process.terminate()
        end = self._clock() + GRACE_SECONDS
        while (running := [n for n, p in processes.items() if p.exit_reason() is None]) and self._clock() < end:
            if immediately():
                break
            self._sleep(POLL_SECONDS)
        for process in processes.values():
            process.kill()
        return running


def _orphan_setup(number: signal.Signals) -> Callable[[], None] | None:
    """Return a function that a new process calls first, to get a signal when this process ends. Linux only.

    Elsewhere, components of a killed supervisor keep running and hold the lock of the data directory.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def request_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the supervisor ended before the line above
            os._exit(1)

    return request_signal
