"""Progress displays on stderr, and the handling of Ctrl-C during a search.

A terminal shows a progress bar; a log gets a line every few seconds. The display also asks a search to stop.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from maabo_dist.console import format_duration, print_note
from maabo_dist.contract.result import StopReason

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task

    from maabo_dist.mining.local import Progress
    from maabo_dist.mining.result import MiningResult

# The time before the first line in a log, and between lines.
LOG_SECONDS = 10.0
SHUFFLES = "shuffled searches"
# A search without a report after this time is assumed to be compiling.
COMPILE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The progress of a search, local or on a cluster, at one moment."""

    done: int
    # None if it is not known yet.
    planned: int | None
    seconds: float
    details: str
    # What is counted: trees, pairs while pairs are screened, or searches on shuffled labels.
    unit: str = "trees"

    @property
    def count(self) -> str:
        """`120/455 trees`, `shuffled search 7 of 24`; for pairs, as there are many, `40 % of 12,497,500 pairs`."""
        if self.planned is None:
            return f"{self.done:,} {self.unit}"
        if self.unit == "trees":
            return f"{self.done:,}/{self.planned:,} trees"
        if self.unit == SHUFFLES:
            return f"shuffled search {min(self.done + 1, self.planned):,} of {self.planned:,}"
        return f"{100 * self.done // max(1, self.planned)} % of {self.planned:,} {self.unit}"


class RateEstimate:
    """The rate of a search, measured from its first snapshot, because the time before it includes compilation."""

    def __init__(self) -> None:
        self.first: Snapshot | None = None

    def format_rate(self, snapshot: Snapshot) -> str:
        """Return `250 trees/s`; empty if it cannot be estimated yet."""
        first = self.first
        if first is None or first.unit != snapshot.unit or snapshot.seconds <= first.seconds:
            return ""
        return f"{(snapshot.done - first.done) / (snapshot.seconds - first.seconds):,.0f} {snapshot.unit}/s"

    def format_time_left(self, snapshot: Snapshot) -> str:
        """Return `40 s left`; empty if it cannot be estimated yet."""
        if snapshot.planned is None:
            return ""
        if self.first is None or self.first.unit != snapshot.unit:
            self.first = snapshot
        done = snapshot.done - self.first.done
        if not done:
            return ""
        seconds = (snapshot.seconds - self.first.seconds) * (snapshot.planned - snapshot.done) / done
        return f"{format_duration(seconds)} left"


class Display:
    """A display that shows nothing, for `--quiet`; the base of the others."""

    def __init__(self) -> None:
        self.stopping = False
        self.searching = False
        self.activity = ""
        self.heading = ""
        self.rate = RateEstimate()
        self.repeats = self.run = 0
        self.seconds, self.seconds_before = 0.0, 0.0

    def start_search(self) -> None:
        """Note that the table is read and the search has started."""
        self.searching = True

    def report(self, progress: "Progress") -> bool:
        """Show the progress; the callback of `mine`. Returns True to stop the search."""
        self.seconds = self.seconds_before + progress.seconds
        if progress.shuffles is not None:
            self.update(Snapshot(progress.shuffles, progress.planned_shuffles, self.seconds, "", SHUFFLES))
            return self.stopping
        details = f"{format_best(progress.best_score)}, {progress.reliable:,} reliable"
        done, planned = progress.planned * self.run + progress.trees, progress.planned * (1 + self.repeats)
        self.update(Snapshot(done, planned, self.seconds, details))
        return self.stopping

    def report_repeat(self, run: int, progress: "Progress") -> bool:
        """Show the progress of a repeat, counted from 1. One bar covers the search and all repeats."""
        if run != self.run:
            self.run, self.seconds_before, self.heading = run, self.seconds, format_repeat(run, self.repeats)
        return self.report(progress)

    def start_job(self, heading: str) -> None:
        """Start the display of another job under this heading."""
        if heading != self.heading:
            self.heading, self.rate = heading, RateEstimate()

    def update(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        details = ", ".join(filter(None, [self.heading, snapshot.details]))
        self.show(replace(snapshot, details=details), self.rate.format_time_left(snapshot))

    def set_activity(self, activity: str) -> None:
        """Show what is being done, for example the state of a job on a cluster."""
        self.activity = activity

    def show(self, snapshot: Snapshot, time_left: str) -> None:
        """Show a snapshot and the estimated time left."""

    def print_line(self, line: str) -> None:
        """Print a line that stays."""


class LogDisplay(Display):
    """Writes a line every `LOG_SECONDS`, and none in a short run."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.write, self.clock, self.last = write, clock, clock()

    def set_activity(self, activity: str) -> None:
        """Write a line if the activity changed."""
        if activity and activity != self.activity:
            self.write(activity)
        super().set_activity(activity)

    def print_line(self, line: str) -> None:
        """Write the line."""
        self.write(line)

    def show(self, snapshot: Snapshot, time_left: str) -> None:
        """Write a line if it is due."""
        if self.clock() - self.last >= LOG_SECONDS:
            self.last = self.clock()
            count = snapshot.count.replace("/", " of ")
            self.write(", ".join(filter(None, [count, snapshot.details, time_left])))


class BarDisplay(Display):
    """Moves a progress bar, which rich redraws in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.unit = ""
        self.bars = _make_bars(self._current_activity)
        self.task = self.bars.add_task("", total=None, count="", details="", left="")

    def start_search(self) -> None:
        """Restart the clock, because the first report may take long."""
        super().start_search()
        self.bars.reset(self.task, total=None)

    def show(self, snapshot: Snapshot, time_left: str) -> None:
        """Move the bar."""
        self.unit = snapshot.unit
        self.bars.update(
            self.task,
            completed=snapshot.done,
            total=snapshot.planned,
            count=snapshot.count,
            details=snapshot.details,
            left=time_left,
        )

    def print_line(self, line: str) -> None:
        """Print the line above the bar."""
        from rich.text import Text  # noqa: PLC0415 - see _make_bars

        self.bars.console.print(Text(line))

    def _current_activity(self, task: "Task") -> str:
        if self.activity:
            return self.activity
        if not self.searching:
            return "reading the table"
        if self.stopping:
            return "stopping after this batch…"
        if self.unit == SHUFFLES:
            return "certifying"
        waiting = not task.completed and (task.elapsed or 0.0) > COMPILE_SECONDS
        return "compiling kernels (first run only)…" if waiting else "searching"


@contextmanager
def progress_display(*, quiet: bool) -> Iterator[Display]:
    """Show the progress of one run. A bar is removed from the terminal when the block ends."""
    if quiet:
        yield Display()
    elif sys.stderr.isatty():
        display = BarDisplay()
        with display.bars:
            yield display
    else:
        yield LogDisplay(print_note)


@contextmanager
def graceful_interrupt(display: Display) -> Iterator[None]:
    """In the block, the first Ctrl-C stops the search after the current batch, and the second stops immediately.

    Python code could handle a KeyboardInterrupt anywhere, but numba cannot while it compiles.
    """

    def interrupt(_signal: int, _frame: object) -> None:
        if display.stopping:
            raise KeyboardInterrupt
        display.stopping = True

    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def with_interrupt(result: "MiningResult") -> "MiningResult":
    """Return the result with Ctrl-C as its end, if that was it: the display passes it on as a request to stop."""
    if result.search.stopped is not StopReason.REQUESTED:
        return result
    return replace(result, search=result.search.model_copy(update={"stopped": StopReason.INTERRUPTED}))


def format_best(score: float | None) -> str:
    """Format the best score so far; empty if there is none."""
    return "" if score is None else f"best F1 {score:.3f}"


def format_repeat(run: int, repeats: int) -> str:
    """Format the heading of a repeat; run 0, on the table itself, has none."""
    return f"repeat {run:,} of {repeats:,}" if run else ""


def _make_bars(activity: "Callable[[Task], str]") -> "Bars":
    # rich takes 0.1 s to import, and only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Activity(ProgressColumn):
        """The current activity."""

        def render(self, task: Task) -> Text:
            return Text(activity(task))

    fields = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "details", "left")]
    console = Console(file=sys.stderr, highlight=False, emoji=False)
    return Progress(SpinnerColumn(), Activity(), BarColumn(bar_width=20), *fields, console=console, transient=True)
