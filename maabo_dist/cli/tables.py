"""Tables on the terminal, without the spaces that rich fills lines up with."""

import sys

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from maabo_dist.report.terminal import report_console


def new_table() -> Table:
    """An empty table in the style of the report."""
    return Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))


def format_lines(*parts: RenderableType) -> list[str]:
    """The lines of tables and texts as they look on standard output, without trailing spaces."""
    console = report_console(sys.stdout)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return [line.rstrip() for line in capture.get().splitlines()]
