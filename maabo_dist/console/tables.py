"""Tables and lists of fields on stdout."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from maabo_dist._util.text import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

# The width where stdout is not a terminal: enough for every cell, because programs split the lines.
PIPE_WIDTH = 160
NOTHING = "–"

# A text, or a text and its style. Control characters are escaped.
Cell = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """The heading and layout of a column. A column that wraps gives way first on a narrow terminal."""

    title: str
    right: bool = False
    wrap: bool = False
    min_width: int | None = None
    max_width: int | None = None


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows under headings."""
    # rich takes 0.1 s to import, which `--help`, `--json` and the processes of a cluster do not need.
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            min_width=column.min_width,
            max_width=column.max_width,
        )
    for row in rows:
        table.add_row(*map(_text, row))
    _print(table)


def print_fields(fields: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, one pair per line."""
    from rich.table import Table  # noqa: PLC0415 - see print_table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, _text(value))
    _print(table)


def format_time(seconds: float) -> str:
    """Format seconds since the epoch as local time with its offset."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


def format_duration(seconds: float) -> str:
    """Format a duration in a suitable unit: `40 s`, `5 min`, `1.5 h`, `3 days`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _text(cell: Cell) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - see print_table

    text, style = (cell, "") if isinstance(cell, str) else cell
    return Text(printable(text), style=style)


def _print(table: "Table") -> None:
    from rich.console import Console  # noqa: PLC0415 - see print_table

    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    console.width = PIPE_WIDTH
    with console.capture() as capture:
        console.print(table)
    # rich pads lines with spaces, which a pipe would keep.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
