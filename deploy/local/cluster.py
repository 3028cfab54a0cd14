"""`run_cluster`: runs a cluster in the foreground, from its start to its end."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.directory import DataDirectory
from deploy.local.plan import Component, Options, Plan, check_flower, make_plan
from deploy.local.status import ReadyFile, StatusPrinter, describe_components
from deploy.local.supervisor import GRACE_SECONDS, POLL_SECONDS, Process, Supervisor

if TYPE_CHECKING:
    from deploy.local.health import HealthChecks

INTERRUPTED = 130
FIRST_NOTICE_SECONDS = 20.0  # after this long, a line names the components that are not ready yet


def run_cluster(
    options: Options,
    data_dir: Path,
    printer: StatusPrinter,
    *,
    ready_file: Path | None = None,
    client: Sequence[str] | None = None,
) -> int:
    """Run a cluster until Ctrl-C and return 0.

    With a `client`, run that command on the cluster until it exits, and return its exit code. The components are then
    killed instead of stopped, because their data is no longer needed.
    """
    check_flower(options)
    directory = DataDirectory.create(data_dir)
    with directory.lock() as lock:
        plan = make_plan(options, directory, dict(os.environ))
        return _Cluster(plan, directory, lock, printer, ReadyFile(ready_file, plan)).run(client)


class _Cluster:
    def __init__(
        self, plan: Plan, directory: DataDirectory, lock: int, printer: StatusPrinter, ready_file: ReadyFile
    ) -> None:
        self._plan, self._directory, self._lock = plan, directory, lock
        self._printer, self._ready_file = printer, ready_file
        self._supervisor = Supervisor(plan.components, self._start_process, self._check_health, printer.problem)
        self._health: HealthChecks | None = None
        self._client_exited = False
        self._signals = 0  # Ctrl-C and similar: the first asks for an orderly stop, the second for an immediate one
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup
                signal.signal(number, self._count_signal)

    def run(self, command: Sequence[str] | None) -> int:
        self._printer.info(f"starting {describe_components(self._plan)} in {self._directory.root}…")
        try:
            self._wait_until_ready()
            code = self._run_until_signal() if command is None else self._run_client(command)
        finally:
            self._ready_file.remove()
            if self._signals and not self._client_exited:
                self._printer.info("stopping… (Ctrl-C again stops immediately)")
            killed = self._supervisor.stop(self._stop_immediately)
            if killed and not self._stop_immediately():
                self._printer.problem(f"killed because they did not stop in time: {', '.join(killed)}.")
        return INTERRUPTED if self._signals > 1 else code

    def _wait_until_ready(self) -> None:
        started, notice_after = time.monotonic(), FIRST_NOTICE_SECONDS
        while not self._signals:
            self._supervisor.step()
            seconds = time.monotonic() - started
            if self._supervisor.healthy:
                self._ready_file.write(self._supervisor.processes)
                self._printer.info(f"ready in {seconds:.1f} s.")
                return
            if seconds > notice_after:
                notice_after *= 2
                self._printer.info(f"still waiting for {', '.join(self._supervisor.unhealthy)}…")
            time.sleep(POLL_SECONDS)

    def _run_until_signal(self) -> int:
        if not self._signals:
            self._printer.addresses(self._plan, self._supervisor.processes, self._directory.root / "logs")
        while not self._signals:
            self._supervise()
        return 0

    def _run_client(self, command: Sequence[str]) -> int:
        """Run the client, which also gets the terminal's Ctrl-C and handles it itself, and return its exit code."""
        if self._signals:
            return INTERRUPTED
        if self._plan.flower_url is not None:
            self._printer.info(f"Flower is at {self._plan.flower_url}")
        environment = os.environ | {"MAABO_REDIS": self._plan.settings.redis_url}
        client = subprocess.Popen(command, env=environment)  # noqa: S603 - our own command
        while not self._signals and client.poll() is None:
            self._supervise()
        self._client_exited = True
        client.terminate()  # does nothing if it has exited
        try:
            code = client.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            client.kill()
            code = client.wait()
        return code if code >= 0 else INTERRUPTED

    def _supervise(self) -> None:
        self._supervisor.step()
        self._ready_file.write(self._supervisor.processes)
        time.sleep(POLL_SECONDS)

    def _stop_immediately(self) -> bool:
        return self._signals > 1 or self._client_exited

    def _count_signal(self, _signal: int, _frame: object) -> None:
        self._signals += 1

    def _start_process(self, component: Component) -> Process:
        return Process(component, self._directory.log(component.name), self._lock)

    def _check_health(self, components: Sequence[tuple[Component, Process]]) -> set[str]:
        if self._health is None:
            # Importing Celery takes time; by now the components are starting in parallel.
            from deploy.local.health import HealthChecks  # noqa: PLC0415 - 0.2 s, see above

            self._health = HealthChecks(self._plan)
        return self._health(components)
