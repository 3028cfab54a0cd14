"""Print tables, 100 columns wide, with figures in readable units."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

console = Console(width=100, highlight=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure."""

    minimum: float | None = None
    maximum: float | None = None

    def __str__(self) -> str:
        return f"≥ {self.minimum:g}" if self.minimum is not None else f"≤ {self.maximum:g}"

    def met(self, value: float) -> bool:
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)


def print_comparison(title: str, ours: str, peer: str, rows: Sequence[tuple], notes: Sequence[str] = ()) -> None:
    """Print rows of (name, our seconds, the peer's seconds, ratio, goal or None)."""
    cells = [
        (name, format_time(mine), format_time(theirs), f"{ratio:.3g}×", *format_verdict(ratio, goal))
        for name, mine, theirs, ratio, goal in rows
    ]
    print_table(title, ["", ours, peer, "ratio", "goal", ""], cells, notes)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim")
    console.print()


def format_verdict(value: float, goal: Goal | None) -> tuple[str, str]:
    """The goal, and whether the value meets it."""
    if goal is None:
        return "", ""
    return str(goal), "[green]met[/]" if goal.met(value) else "[red]missed[/]"


def format_count(number: int) -> str:
    """Three digits: 479 k, 2.5 M."""
    for scale, unit in ((10**6, " M"), (10**3, " k")):
        if number >= scale:
            return f"{number / scale:.3g}{unit}"
    return str(number)


def format_time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
