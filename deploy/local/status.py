"""The status of a local cluster: lines and a table of addresses for people, the ready file for programs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from deploy.files import write_private
from deploy.local.plan import Plan

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
