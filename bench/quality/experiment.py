"""What an experiment is: it measures records, one a method and seed; a summary and a figure are made of these alone.

Records are what is kept, as CSV. So tables and plots can be made again without a measurement, and each experiment's
come from its own last run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.quality.figure import Panel
from bench.quality.peer_calls import Peers
from bench.show import Goal

Value = str | int | float | None
Record = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Run:
    """How a run was asked for."""

    seeds: int | None = None
    """None leaves it to the experiment."""
    quick: bool = False
    titanic: Path | None = None
    boston: Path | None = None
    peers: Peers | None = None
    """None where they are left out."""
    jobs: int = 1
    methods: tuple[str, ...] = ()
    """Of the methods that an experiment compares, these alone; all where none is named."""

    def takes(self, method: str) -> bool:
        return not self.methods or method.casefold() in self.methods

    def seeds_of(self, usual: int, quick: int = 1) -> range:
        return range(self.seeds or (quick if self.quick else usual))


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and the bound it should keep."""

    what: str
    value: float
    goal: Goal
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A table, in words; the first column names its row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    checks: Sequence[Check] = ()
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class Page:
    """A document with a place for tables: between `<!-- mark: begin -->` and `<!-- mark: end -->`."""

    path: Path
    mark: str
    results: str = "results"
    """Where the folder of results is, seen from there."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table and one plot of the bench."""

    name: str
    title: str
    about: str
    """What was measured, for a reader of the table."""
    measure: Callable[[Run], Iterator[Record]]
    summarise: Callable[[Sequence[Record]], Summary]
    panels: Callable[[Sequence[Record]], Sequence[Panel]]
    lacks: Callable[[Run], str | None] = lambda _: None
    """Why it cannot run as asked; None where it can."""
    page: Page | None = None
    """Where its table stands instead of the README; such an experiment runs only where it is named."""
