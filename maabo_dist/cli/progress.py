"""How a run shows that it is alive: a bar on a terminal, a line now and then in a log. Both go to stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from maabo_dist.mining import Progress

LOG_SECONDS = 10.0
"""In a log, the time between two lines, and before the first."""
WARM_UP_SECONDS = 1.0
"""A search that has said nothing for so long is explained."""


class Pace:
    """How long the rest of a search takes, judged from its first report on: what came before was compiling."""

    def __init__(self) -> None:
        self.first: Progress | None = None

    def time_left(self, progress: "Progress") -> str:
        """`40 s left`, or nothing while there is nothing to judge from."""
        self.first = self.first or progress
        trees = progress.trees - self.first.trees
        if not trees:
            return ""
        seconds = (progress.seconds - self.first.seconds) * (progress.planned - progress.trees) / trees
        if seconds < 60:
            return f"{seconds:.0f} s left"
        return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"


class SilentDisplay:
    """Shows nothing: what `--quiet` asks for."""

    def search_begins(self) -> None:
        """The table is read; from here on the search reports."""

    def report(self, progress: "Progress") -> bool | None:
        """The callback for `mine`."""


class LogDisplay(SilentDisplay):
    """Writes a line every `LOG_SECONDS` at most, and none in a short run."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self.write, self.clock, self.last = write, clock, clock()
        self.pace = Pace()

    def report(self, progress: "Progress") -> None:
        """Write a line if it is time."""
        left = self.pace.time_left(progress)
        if self.clock() - self.last >= LOG_SECONDS:
            self.last = self.clock()
            counted = f"{progress.trees:,} of {progress.planned:,} trees"
            self.write(", ".join(filter(None, [counted, _findings(progress), left])))


class BarDisplay(SilentDisplay):
    """Moves a bar, which rich redraws from a thread of its own."""

    def __init__(self, bars: "Bars") -> None:
        self.bars, self.pace = bars, Pace()
        self.task = bars.add_task("reading the table", total=None, trees="", findings="", left="")

    def search_begins(self) -> None:
        """Start the clock of the search: its first report may take long to come."""
        self.bars.reset(self.task, total=None, description="searching")

    def report(self, progress: "Progress") -> None:
        """Show where the search stands."""
        self.bars.update(
            self.task,
            completed=progress.trees,
            total=progress.planned,
            trees=f"{progress.trees:,}/{progress.planned:,} trees",
            findings=_findings(progress),
            left=self.pace.time_left(progress),
        )


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[SilentDisplay]:
    """A display for one run. A bar is wiped off the screen when the block ends, however it ends."""
    if quiet:
        yield SilentDisplay()
    elif sys.stderr.isatty():
        with _bars() as bars:
            yield BarDisplay(bars)
    else:
        yield LogDisplay(lambda line: click.echo(f"maabo: {line}", err=True))


def _findings(progress: "Progress") -> str:
    return f"best F1 {progress.best_score:.3f}, {progress.reliable:,} reliable"


def _bars() -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class Activity(ProgressColumn):
        """What goes on; a search that is slow to report is compiling, which the next run will find done."""

        def render(self, task: Task) -> Text:
            silent = task.description == "searching" and not task.completed
            compiling = silent and (task.elapsed or 0.0) > WARM_UP_SECONDS
            return Text("compiling kernels (first run only)…" if compiling else task.description)

    fields = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("trees", "findings", "left")]
    console = Console(file=sys.stderr, highlight=False, emoji=False)
    return Progress(SpinnerColumn(), Activity(), BarColumn(bar_width=20), *fields, console=console, transient=True)
