"""`Experiment`: measures records, one for each method and seed, from which a summary and a plot are made.

Records are stored as CSV. Tables and plots can therefore be made again without a measurement, and those of each
experiment come from its own last run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.printing import Goal
from bench.quality.figure import Panel
from bench.quality.peer_client import Peers

Value = str | int | float | None
Record = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Run:
    """The options of a run."""

    seeds: int | None = None
    """None for the default of the experiment."""
    quick: bool = False
    titanic: Path | None = None
    boston: Path | None = None
    peers: Peers | None = None
    """None to run without peers."""
    jobs: int = 1
    methods: tuple[str, ...] = ()
    """Only these methods of an experiment; all if empty."""

    def includes(self, method: str) -> bool:
        return not self.methods or method.casefold() in self.methods

    def seed_range(self, default: int, quick: int = 1) -> range:
        return range(self.seeds or (quick if self.quick else default))


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and its goal."""

    what: str
    value: float
    goal: Goal
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A table as text; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    checks: Sequence[Check] = ()
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class Page:
    """A document into which tables are written: between `<!-- mark: begin -->` and `<!-- mark: end -->`."""

    path: Path
    mark: str
    results: str = "results"
    """The folder of results, relative to the document."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table and one plot of the bench."""

    name: str
    title: str
    about: str
    """An explanation for readers of the table."""
    measure: Callable[[Run], Iterator[Record]]
    summarise: Callable[[Sequence[Record]], Summary]
    panels: Callable[[Sequence[Record]], Sequence[Panel]]
    reason_to_skip: Callable[[Run], str | None] = lambda _: None
    """Why it cannot run with these options; None if it can."""
    page: Page | None = None
    """The document for its table, instead of the README; such an experiment runs only if it is named."""
