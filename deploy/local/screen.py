"""What the user of a local cluster sees: a table of addresses on stdout, what happens on stderr."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from deploy.local.processes import Plan

WIDEST = 200


class Screen:
    """Tells people; with `quiet`, of problems only."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def note(self, line: str) -> None:
        """Something that is going well."""
        if not self._quiet:
            self.problem(line)

    def problem(self, line: str) -> None:
        """Something that a person should know in any case."""
        click.echo(f"maabo: {line}", err=True)

    def addresses(self, plan: Plan, processes: Sequence[tuple[str, int]], logs: Path) -> None:
        """The table."""
        if self._quiet:
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table("part", "process", "address", box=box.SIMPLE, pad_edge=False)
        addresses = {"redis": plan.settings.redis_url, "service": plan.http_url, "flower": plan.flower_url}
        for part, (role, pid) in zip(plan.parts, processes, strict=True):
            table.add_row(part.name, str(pid), addresses.get(role) or "")
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        # An address is there to be copied: a narrow terminal may break its line, but never shorten it.
        console.width = max(console.width, WIDEST)
        console.print(table, soft_wrap=True)
        console.print(
            f"To use the cluster in another terminal:\n\n  export MAABO_REDIS={plan.settings.redis_url}\n",
            soft_wrap=True,
        )
        if plan.http_url:
            console.print(f"or over HTTP:\n\n  export MAABO_SERVER={plan.http_url}\n", soft_wrap=True)
        console.print(
            f"Logs are in {logs}. Ctrl-C stops everything; the next start resumes what is unfinished.", soft_wrap=True
        )


def counted(plan: Plan) -> str:
    """`Redis, the scheduler, 2 workers and Flower`."""
    workers = sum(part.role == "worker" for part in plan.parts)
    texts = ["Redis", "the scheduler", f"{workers} worker{'s' if workers > 1 else ''}"]
    texts += ["the HTTP service"] if plan.http_port is not None else []
    texts += ["Flower"] if plan.flower_port is not None else []
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
