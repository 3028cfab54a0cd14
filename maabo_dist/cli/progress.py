"""How a run shows that it is alive, and how it hears Ctrl-C.

A terminal gets a bar, a log gets a line now and then; both on stderr. The display is also what asks a search to stop.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task

    from maabo_dist.mining.local import Progress

INTERRUPTED = 130
"""The exit code after a Ctrl-C."""
LOG_SECONDS = 10.0
"""In a log, the time between two lines, and before the first."""
WARM_UP_SECONDS = 1.0
"""A search that has said nothing for so long is explained."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a display shows of a search, here or on a cluster."""

    done: int
    planned: int | None
    """None before anyone knows."""
    seconds: float
    findings: str
    unit: str = "trees"
    """What is counted: trees, or pairs before there are any."""

    @property
    def count_text(self) -> str:
        """`120/455 trees`; pairs are too many to be read one by one: `40 % of 12,497,500 pairs`."""
        if self.planned is None:
            return f"{self.done:,} {self.unit}"
        if self.unit == "trees":
            return f"{self.done:,}/{self.planned:,} trees"
        return f"{100 * self.done // max(1, self.planned)} % of {self.planned:,} {self.unit}"


class Pace:
    """How long the rest of a search takes, judged from its first report on: what came before was compiling."""

    def __init__(self) -> None:
        self.first: Standing | None = None

    def speed(self, standing: Standing) -> str:
        """`250 trees/s`, or nothing while there is nothing to judge from."""
        first = self.first
        if first is None or first.unit != standing.unit or standing.seconds <= first.seconds:
            return ""
        return f"{(standing.done - first.done) / (standing.seconds - first.seconds):,.0f} {standing.unit}/s"

    def time_left(self, standing: Standing) -> str:
        """`40 s left`, or nothing while there is nothing to judge from."""
        if standing.planned is None:
            return ""
        if self.first is None or self.first.unit != standing.unit:
            self.first = standing
        done = standing.done - self.first.done
        if not done:
            return ""
        seconds = (standing.seconds - self.first.seconds) * (standing.planned - standing.done) / done
        return f"{duration_text(seconds)} left"


class Display:
    """Shows nothing, which is what `--quiet` asks for; the others show something."""

    def __init__(self) -> None:
        self.stopping = False
        self.searching = False
        self.activity = ""
        self.heading = ""
        self.pace = Pace()
        self.repeats = self.run = 0
        self.seconds, self.seconds_before = 0.0, 0.0

    def search_begins(self) -> None:
        """The table is read; from here on the search reports."""
        self.searching = True

    def report(self, progress: "Progress") -> bool:
        """The callback for `mine`: show where the search stands; True asks it to stop."""
        findings = f"{best_text(progress.best_score)}, {progress.reliable:,} reliable"
        self.seconds = self.seconds_before + progress.seconds
        done, planned = progress.planned * self.run + progress.trees, progress.planned * (1 + self.repeats)
        self.update(Standing(done, planned, self.seconds, findings))
        return self.stopping

    def report_repeat(self, run: int, progress: "Progress") -> bool:
        """The same for repeats, from 1: one bar is for the search and all `repeats`, which have as many trees each."""
        if run != self.run:
            self.run, self.seconds_before, self.heading = run, self.seconds, repeat_text(run, self.repeats)
        return self.report(progress)

    def head(self, heading: str) -> None:
        """What is shown from now on is of another search, under this heading."""
        if heading != self.heading:
            self.heading, self.pace = heading, Pace()

    def update(self, standing: Standing) -> None:
        """Show where the search stands."""
        findings = ", ".join(filter(None, [self.heading, standing.findings]))
        self.show(replace(standing, findings=findings), self.pace.time_left(standing))

    def turn_to(self, activity: str) -> None:
        """Something else goes on now, as when a job on a cluster passes from state to state."""
        self.activity = activity

    def show(self, standing: Standing, left: str) -> None:
        """Show it; `left` says how long the rest takes."""

    def tell(self, line: str) -> None:
        """Something that stays to be read."""


class LogDisplay(Display):
    """Writes a line every `LOG_SECONDS` at most, and none in a short run."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.write, self.clock, self.last = write, clock, clock()

    def turn_to(self, activity: str) -> None:
        """Write a line if it is news."""
        if activity != self.activity:
            self.write(activity)
        super().turn_to(activity)

    def tell(self, line: str) -> None:
        """Write it."""
        self.write(line)

    def show(self, standing: Standing, left: str) -> None:
        """Write a line if it is time."""
        if self.clock() - self.last >= LOG_SECONDS:
            self.last = self.clock()
            counted = standing.count_text.replace("/", " of ")
            self.write(", ".join(filter(None, [counted, standing.findings, left])))


class BarDisplay(Display):
    """Moves a bar, which rich redraws from a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.bars = _bars(self._activity)
        self.task = self.bars.add_task("", total=None, count="", findings="", left="")

    def search_begins(self) -> None:
        """Start the clock of the search: its first report may take long to come."""
        super().search_begins()
        self.bars.reset(self.task, total=None)

    def show(self, standing: Standing, left: str) -> None:
        """Move the bar."""
        self.bars.update(
            self.task,
            completed=standing.done,
            total=standing.planned,
            count=standing.count_text,
            findings=standing.findings,
            left=left,
        )

    def tell(self, line: str) -> None:
        """Above the bar, broken where the terminal ends."""
        from rich.text import Text

        self.bars.console.print(Text(line))

    def _activity(self, task: "Task") -> str:
        if self.activity:
            return self.activity
        if not self.searching:
            return "reading the table"
        if self.stopping:
            return "stopping after this batch…"
        waiting = not task.completed and (task.elapsed or 0.0) > WARM_UP_SECONDS
        return "compiling kernels (first run only)…" if waiting else "searching"


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Display]:
    """A display for one run. A bar is wiped off the screen when the block ends, however it ends."""
    if quiet:
        yield Display()
    elif sys.stderr.isatty():
        display = BarDisplay()
        with display.bars:
            yield display
    else:
        yield LogDisplay(note)


@contextmanager
def polite_interrupt(display: Display) -> Iterator[None]:
    """While a search runs, the first Ctrl-C asks it to stop after its batch; the second stops it at once.

    An exception at any moment would do for Python code, but numba does not survive one while it compiles.
    """

    def ask(_signal: int, _frame: object) -> None:
        if display.stopping:
            raise KeyboardInterrupt
        display.stopping = True

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def note(line: str) -> None:
    """A line for people, on stderr."""
    click.echo(f"maabo: {line}", err=True)


def duration_text(seconds: float) -> str:
    """`40 s`, `5 min`, `1.5 h`, `3 days`: in a unit that fits."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def best_text(score: float | None) -> str:
    """The best score so far; nothing before there is one."""
    return "" if score is None else f"best F1 {score:.3f}"


def repeat_text(run: int, repeats: int) -> str:
    """The heading of a run; that of the table itself, 0, has none."""
    return f"repeat {run:,} of {repeats:,}" if run else ""


def _bars(activity: "Callable[[Task], str]") -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class Activity(ProgressColumn):
        """What goes on at the moment."""

        def render(self, task: Task) -> Text:
            return Text(activity(task))

    fields = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "findings", "left")]
    console = Console(file=sys.stderr, highlight=False, emoji=False)
    return Progress(SpinnerColumn(), Activity(), BarColumn(bar_width=20), *fields, console=console, transient=True)
