"""Tables on the screen, 100 columns wide; figures in the unit that reads best."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

console = Console(width=100, highlight=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure."""

    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def comparison(title: str, ours: str, peer: str, rows: Sequence[tuple], notes: Sequence[str] = ()) -> None:
    """Rows of (what, our seconds, the peer's seconds, ratio, goal or None)."""
    shown = [
        (what, time(mine), time(theirs), f"{ratio:.3g}×", *verdict(ratio, goal))
        for what, mine, theirs, ratio, goal in rows
    ]
    table(title, ["", ours, peer, "ratio", "goal", ""], shown, notes)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    grid = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        grid.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    console.print(grid)
    for note in notes:
        console.print(f"  {note}", style="dim")
    console.print()


def verdict(value: float, goal: Goal | None) -> tuple[str, str]:
    if goal is None:
        return "", ""
    return str(goal), "[green]met[/]" if goal.met(value) else "[red]missed[/]"


def count(number: int) -> str:
    """Three digits are enough: 479 k, 2.5 M."""
    for scale, unit in ((10**6, " M"), (10**3, " k")):
        if number >= scale:
            return f"{number / scale:.3g}{unit}"
    return str(number)


def time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
