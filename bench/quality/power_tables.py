"""Tables that are hard in one way each, with planted rules: a rare class, weak rules, narrow tails, five classes, sets
of levels, missing values that mean something, and columns with proxies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

TARGET = "y"
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted rule."""

    label: str
    columns: frozenset[str]
    rows: Mask


@dataclass(frozen=True, slots=True)
class PowerTable:
    """A table and the rules in it; the other columns are noise."""

    frame: pd.DataFrame
    plants: tuple[Plant, ...]
    proxies: Mapping[str, str] = field(default_factory=dict)
    """The original of each column that is correlated with one."""

    @property
    def noise(self) -> frozenset[str]:
        planted = {column for plant in self.plants for column in plant.columns}
        return frozenset(self.frame.columns) - planted - self.proxies.keys() - {TARGET}


class Table:
    """A table under construction: uniform numbers, and a class that the rules change."""

    def __init__(self, seed: int, kind: str, columns: int, rows: int) -> None:
        self.rng = np.random.default_rng([seed, len(kind), *kind.encode()])
        self.cells: dict[str, np.ndarray] = {f"x{number}": self.rng.random(rows) for number in range(columns)}
        self.columns, self.rows = columns, rows
        self.plants: list[Plant] = []

    def start(self, shares: Mapping[str, float]) -> None:
        """Draw classes by their shares outside of the rules."""
        self.labels = self.rng.choice(list(shares), self.rows, p=list(shares.values()))

    def plant(self, label: str, precision: float, conditions: Mapping[str, Mask]) -> None:
        """Give the rows in which all conditions hold this class, with this probability, and another one otherwise."""
        rows = np.logical_and.reduce(list(conditions.values()))
        others = [each for each in np.unique(self.labels).tolist() if each != label]
        hit = self.rng.random(self.rows) < precision
        self.labels = np.where(rows, np.where(hit, label, self.rng.choice(others, self.rows)), self.labels)
        self.plants.append(Plant(label, frozenset(conditions), rows))

    def above(self, column: str, cut: float) -> dict[str, Mask]:
        return {column: self.cells[column] > cut}

    def at_most(self, column: str, cut: float) -> dict[str, Mask]:
        return {column: self.cells[column] <= cut}

    def finish(self, proxies: Mapping[str, str] | None = None) -> PowerTable:
        """Return the table, its columns in random order."""
        frame = pd.DataFrame(self.cells)
        frame = frame[self.rng.permutation(frame.columns)]
        return PowerTable(frame.assign(**{TARGET: self.labels}), tuple(self.plants), proxies or {})


def _weak(table: Table) -> PowerTable:
    """Three rules of precision 0.65 on 15 % of the rows each; elsewhere 0.35."""
    table.start({"yes": 0.35, "no": 0.65})
    table.plant("yes", 0.65, table.above("x0", 0.6) | table.at_most("x1", 0.4))
    table.plant("yes", 0.65, table.above("x2", 0.6) | table.above("x3", 0.6))
    table.plant("yes", 0.65, table.at_most("x4", 0.3) | table.above("x5", 0.5))
    return table.finish()


def _rare(table: Table) -> PowerTable:
    """2 % of the rows are positive: 35 % of the rows of two rules, which cover 2 % each, and 0.6 % of the others."""
    table.start({"yes": 0.00625, "no": 0.99375})
    table.plant("yes", 0.35, table.above("x0", 0.9) | table.at_most("x1", 0.2))
    table.plant("yes", 0.35, table.above("x2", 0.85) | table.above("x3", 0.867))
    return table.finish()


def _tails(table: Table) -> PowerTable:
    """Two rules on 3 % of the rows, the tail of one column and of two; precision 0.9, elsewhere 0.3."""
    table.start({"yes": 0.3, "no": 0.7})
    table.plant("yes", 0.9, table.above("x0", 0.97))
    table.plant("yes", 0.9, table.at_most("x1", 0.173) | table.above("x2", 0.827))
    return table.finish()


def _five_classes(table: Table) -> PowerTable:
    """A rule for each of five classes, on up to 12 % of the rows and no rows of another, precision 0.7."""
    names = ["a", "b", "c", "d", "e"]
    table.start(dict.fromkeys(names, 0.2))
    for number, name in enumerate(names):
        first, second = f"x{2 * number}", f"x{2 * number + 1}"
        taken = np.logical_or.reduce([plant.rows for plant in table.plants], initial=False)
        table.cells[first] = np.where(taken, 0.65 * table.cells[first], table.cells[first])
        table.plant(name, 0.7, table.above(first, 0.65) | table.at_most(second, 0.35))
    return table.finish()


def _levels(table: Table) -> PowerTable:
    """20 text columns of 6 to 10 levels; rules on 3 of 8 levels and a number, and on 3 of 10; 0.8 instead of 0.3."""
    for number in range(20):
        levels = [8, 10, *table.rng.integers(6, 11, 18).tolist()][number]
        texts = [f"{chr(97 + number)}{level}" for level in range(levels)]
        table.cells[f"c{number}"] = table.rng.choice(texts, table.rows)
        del table.cells[f"x{table.columns - 1 - number}"]
    table.start({"yes": 0.3, "no": 0.7})
    in_first = np.isin(table.cells["c0"], ["a1", "a4", "a6"])
    table.plant("yes", 0.8, {"c0": in_first} | table.above("x0", 0.5))
    table.plant("yes", 0.8, {"c1": np.isin(table.cells["c1"], ["b0", "b5", "b7"])} | table.at_most("x1", 0.6))
    return table.finish()


def _missingness(table: Table) -> PowerTable:
    """Cells are missing in ten columns; a gap in one of them means something, in the others it does not."""
    table.start({"yes": 0.3, "no": 0.7})
    gaps = {f"x{number}": table.rng.random(table.rows) < 0.15 for number in range(10)}
    table.plant("yes", 0.8, {"x0": gaps["x0"]} | table.above("x10", 0.4))
    table.plant("yes", 0.8, {"x1": ~gaps["x1"] & (table.cells["x1"] > 0.7)} | table.at_most("x11", 0.5))
    for name, missing in gaps.items():
        table.cells[name] = np.where(missing, np.nan, table.cells[name])
    return table.finish()


def _proxies(table: Table) -> PowerTable:
    """Two rules on two columns each, and five columns with a correlation of 0.9 to each of these four."""
    table.start({"yes": 0.35, "no": 0.65})
    table.plant("yes", 0.8, table.above("x0", 0.6) | table.at_most("x1", 0.4))
    table.plant("yes", 0.8, table.above("x2", 0.6) | table.above("x3", 0.6))
    proxies = {f"x{10 + 5 * number + copy}": f"x{number}" for number in range(4) for copy in range(5)}
    for name, original in proxies.items():
        # Uniform noise added to a uniform number: a share of 0.484 gives the correlation.
        table.cells[name] = table.cells[original] + 0.484 * table.rng.random(table.rows)
    return table.finish(proxies)


KINDS: dict[str, Callable[[Table], PowerTable]] = {
    "rare class": _rare,
    "weak rules": _weak,
    "narrow tails": _tails,
    "five classes": _five_classes,
    "sets of levels": _levels,
    "missingness": _missingness,
    "proxies": _proxies,
}


def make_table(kind: str, seed: int, columns: int, rows: int) -> PowerTable:
    """The table of a kind; the same arguments give the same table."""
    return KINDS[kind](Table(seed, kind, columns, rows))
