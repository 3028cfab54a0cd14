"""`run_cluster`: runs a cluster in the foreground, from its start to its end, and reports its status.

It prints lines and a table of addresses, and writes the ready file for programs.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from deploy.local.directory import DataDirectory
from deploy.local.plan import Component, Options, Plan, check_flower, make_plan
from deploy.local.supervisor import GRACE_SECONDS, POLL_SECONDS, Process, Supervisor
from deploy.shared import write_private

if TYPE_CHECKING:
    from deploy.local.health import HealthChecks


TABLE_WIDTH = 200


class StatusPrinter:
    """Prints lines on stderr and the table of addresses on stdout; with `quiet`, only problems."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def info(self, line: str) -> None:
        """Print a line about normal operation."""
        if not self._quiet:
            self.problem(line)

    def problem(self, line: str) -> None:
        """Print a line about a problem."""
        click.echo(f"maabo: {line}", err=True)

    def addresses(self, plan: Plan, processes: Sequence[tuple[str, int]], logs: Path) -> None:
        """Print the table of components and their addresses."""
        if self._quiet:
            return
        table = Table("component", "process", "address", box=box.SIMPLE, pad_edge=False)
        addresses = {"redis": plan.settings.redis_url, "service": plan.http_url, "flower": plan.flower_url}
        for component, (role, pid) in zip(plan.components, processes, strict=True):
            table.add_row(component.name, str(pid), addresses.get(role) or "")
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        # Users copy addresses: a narrow terminal may wrap them, but must not shorten them.
        console.width = max(console.width, TABLE_WIDTH)
        texts = [f"To use the cluster in another terminal:\n\n  export MAABO_REDIS={plan.settings.redis_url}\n"]
        if plan.http_url:
            texts.append(f"or over HTTP:\n\n  export MAABO_SERVER={plan.http_url}\n")
        texts.append(f"Logs are in {logs}. Ctrl-C stops everything; the next start resumes unfinished jobs.")
        for content in (table, *texts):
            console.print(content, soft_wrap=True)


def describe_components(plan: Plan) -> str:
    """Return `Redis, the scheduler, 2 workers and Flower`."""
    workers = sum(component.role == "worker" for component in plan.components)
    texts = ["Redis", "the scheduler", f"{workers} worker{'s' if workers > 1 else ''}"]
    texts += ["the HTTP API"] if plan.http_port is not None else []
    texts += ["Flower"] if plan.flower_port is not None else []
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


class ReadyFile:
    """A file with the addresses of the cluster, which exists while it is ready.

    Only the user can read it, because the address of Redis contains the password.
    """

    def __init__(self, path: Path | None, plan: Plan) -> None:
        self._path, self._plan = path, plan
        self._content: dict[str, Any] | None = None
        self.remove()  # a killed cluster may have left one

    def write(self, processes: Sequence[tuple[str, int]]) -> None:
        """Write the file if its content has changed."""
        content = {
            "redis": self._plan.settings.redis_url,
            "http": self._plan.http_url,
            "flower": self._plan.flower_url,
            "processes": [{"role": role, "pid": pid} for role, pid in processes],
        }
        if self._path is not None and content != self._content:
            write_private(self._path, json.dumps(content, indent=2) + "\n")
            self._content = content

    def remove(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


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
        def start_process(component: Component) -> Process:
            return Process(component, directory.log(component.name), lock)

        self._plan, self._directory, self._printer, self._ready_file = plan, directory, printer, ready_file
        self._supervisor = Supervisor(plan.components, start_process, self._check_health, printer.problem)
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

    def _check_health(self, components: Sequence[tuple[Component, Process]]) -> set[str]:
        if self._health is None:
            # Importing Celery takes time; by now the components are starting in parallel.
            from deploy.local.health import HealthChecks  # noqa: PLC0415 - 0.2 s, see above

            self._health = HealthChecks(self._plan)
        return self._health(components)
