"""The layout of a generated table: the kind of each column, and the rules planted in the columns.

Every column is a non-decreasing function of one standard normal latent variable (except text, whose levels have no
order). A quantile of the latent is therefore a threshold on the column, and a decoy is a column with a correlated
latent.

    latent ──► shape by kind ──► shift, scale ──► rounded to `DECIMALS`          numbers
           └─► position among the cuts ──► whole number, or level                whole numbers, text
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.research.synthetic.recipe import Recipe

DECIMALS = 4
MIN_LEVELS, MAX_LEVELS = 3, 6

Latent = npt.NDArray[np.float64]

_EPSILON = 1e-9  # smaller than the distance of any two cuts
_MIN_GAP = 0.03  # between a cut that a rule needs and the next one, so that both neighbouring values have rows


class Kind(StrEnum):
    """The family of a column's values."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    SKEWED = "skewed"
    WHOLE = "whole"
    TEXT = "text"


_NUMBERS = (Kind.NORMAL, Kind.UNIFORM, Kind.SKEWED, Kind.WHOLE)
_SHAPES: dict[Kind, Callable[[Any], Any]] = {Kind.NORMAL: np.positive, Kind.UNIFORM: ndtr, Kind.SKEWED: np.exp}


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The distribution of one column."""

    kind: Kind
    shift: float = 0.0
    scale: float = 1.0
    cuts: tuple[float, ...] = ()  # WHOLE and TEXT: the latents at which the next value begins, ascending
    levels: tuple[str, ...] = ()  # TEXT: one more than there are cuts

    def cells(self, latent: Latent) -> npt.NDArray[Any]:
        """The cells of the column, none of them missing."""
        if self.kind is Kind.TEXT:
            return np.array(self.levels, dtype=object)[np.searchsorted(self.cuts, latent, side="right")]
        if self.kind is Kind.WHOLE:
            return self.shift + np.searchsorted(self.cuts, latent, side="right")
        rounded: npt.NDArray[np.float64] = np.round(self._number(latent), DECIMALS) + 0.0  # avoids −0.0
        return rounded

    def threshold(self, below: float) -> float:
        """A number that a share `below` of the cells is less than; no cell is equal to it.

        It lies between two neighbouring rounded values, so that rounding moves no cell across it.
        """
        latent = ndtri(below)
        if self.kind is Kind.WHOLE:
            return float(self.shift + np.searchsorted(self.cuts, latent - _EPSILON) + 0.5)
        steps = np.floor(self._number(latent) * 10**DECIMALS)
        return float(np.round((steps + 0.5) / 10**DECIMALS, DECIMALS + 1))

    def literal(self, name: str, mass: float, *, large: bool) -> Condition:
        """A condition that a share `mass` of the cells satisfies; the plan must have been made for this share."""
        if self.kind is Kind.TEXT:
            return Condition(name, Op.IS, self.levels[0])
        if large:
            return Condition(name, Op.ABOVE, self.threshold(1 - mass))
        return Condition(name, Op.AT_MOST, self.threshold(mass))

    def _number(self, latent: Any) -> Any:
        return self.shift + self.scale * _SHAPES[self.kind](latent)


def number_plan(rng: np.random.Generator, quantiles: Sequence[float] = ()) -> ColumnPlan:
    """Plan a column of numbers of a random kind; thresholds will be needed at these `quantiles`."""
    kind = _NUMBERS[rng.integers(len(_NUMBERS))]
    if kind is Kind.WHOLE:
        shift = float(rng.integers(-3, 10))
        spread = np.arange(1, rng.integers(4, 16)) + rng.uniform(-0.3, 0.3)
        free = [each for each in spread / (len(spread) + 1) if all(abs(each - fixed) > _MIN_GAP for fixed in quantiles)]
        return ColumnPlan(kind, shift, cuts=tuple(ndtri(np.sort([*free, *quantiles])).tolist()))
    shift, scale = np.round([rng.normal(0, 10), 1 + rng.exponential(10)], 2).tolist()
    return ColumnPlan(kind, shift, scale)


def text_plan(rng: np.random.Generator, mass: float | None = None) -> ColumnPlan:
    """Plan a column of text; `mass` is the share of its first level if a rule has a condition on it."""
    count = int(rng.integers(MIN_LEVELS, MAX_LEVELS + 1))
    shares = rng.dirichlet(np.full(count, 5.0))
    if mass is not None:
        shares = np.array([mass, *(1 - mass) * shares[1:] / shares[1:].sum()])
    cuts = ndtri(np.cumsum(shares)[:-1]).tolist()
    return ColumnPlan(Kind.TEXT, cuts=tuple(cuts), levels=_level_names(rng, count))


def decoy_plan(rng: np.random.Generator, original: ColumnPlan) -> ColumnPlan:
    """Plan a column that imitates `original`: numbers of any kind, or text with levels of the same shares."""
    if original.kind is not Kind.TEXT:
        return number_plan(rng)
    return ColumnPlan(Kind.TEXT, cuts=original.cuts, levels=_level_names(rng, len(original.levels)))


def _level_names(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    return tuple("abcdef"[index] for index in rng.permutation(count))


UNEVEN = 0.4  # the largest deviation of a literal's weight in the selectivity of a conjunction from equal weights


@dataclass(frozen=True, slots=True)
class Planting:
    """A rule to plant."""

    structure: str  # `conjunction 1`, `xor 1`, `parity 1`, …: rules of one structure share their columns
    conditions: tuple[Condition, ...]
    label: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table and the rules planted in them."""

    recipe: Recipe
    columns: dict[str, ColumnPlan]  # by name, in table order
    informative: tuple[str, ...]  # in table order
    decoys: dict[str, str]  # each decoy with the column it imitates
    conjunctions: tuple[Planting, ...]
    # The rules of XOR and parity structures. They decide the rows that no conjunction covers.
    cells: tuple[Planting, ...]

    @property
    def rules(self) -> tuple[Planting, ...]:
        """All rules; where two cover a row, the earlier decides its class."""
        return (*self.conjunctions, *self.cells)


def lay_out(recipe: Recipe) -> Layout:
    """Return the layout for a recipe."""
    planner = _Planner(recipe)
    conjunctions = planner.conjunctions()
    cells = planner.cells()
    ruled = set(planner.plans)
    decoys = planner.decoys()
    planner.noise()
    columns = {name: planner.plans[name] for name in (f"x{index}" for index in range(recipe.features))}
    informative = tuple(name for name in columns if name in ruled)
    return Layout(recipe, columns, informative, decoys, conjunctions, cells)


class _Planner:
    """Plans the columns of conjunctions, XOR and parity, decoys and noise in turn, at random positions of the table."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.rng = np.random.default_rng([recipe.seed, 0])
        self.names = [f"x{index}" for index in self.rng.permutation(recipe.features)]
        self.plans: dict[str, ColumnPlan] = {}
        # The turns in which a text column is planned: for a literal of a conjunction, or for noise
        eligible = [*range(sum(recipe.sizes)), *range(recipe.informative + recipe.decoys, recipe.features)]
        self.texts = frozenset(self.rng.permutation(eligible)[: recipe.text_columns].tolist())

    def conjunctions(self) -> tuple[Planting, ...]:
        recipe, planted, taken = self.recipe, [], 0.0
        # Classes that are at most as frequent as the average outside of the rules, the last first
        average = 1 / recipe.classes
        labels = [label for label in reversed(range(recipe.classes)) if recipe.base_shares[label] <= average + 1e-9]
        for number, size in enumerate(recipe.sizes):
            coverage = self.rng.uniform(*recipe.coverages)
            weights = 1 + self.rng.uniform(-UNEVEN, UNEVEN, size)
            # Shares of the rows, whose product is the coverage. It cannot cover rows of earlier conjunctions.
            masses = (coverage / (1 - taken)) ** (weights / weights.sum())
            conditions = tuple(self._literal(mass) for mass in masses.tolist())
            planted.append(Planting(f"conjunction {number + 1}", conditions, labels[number % len(labels)]))
            taken += coverage
        return tuple(planted)

    def cells(self) -> tuple[Planting, ...]:
        gates, xor, parity = self._gates(), self.recipe.xor, self.recipe.parity
        structures = [(f"xor {k + 1}", 2) for k in range(xor)] + [(f"parity {k + 1}", 3) for k in range(parity)]
        planted: list[Planting] = []
        for number, (structure, order) in enumerate(structures):
            halves = [self._halves() for _ in range(order)]
            for larges in product((False, True), repeat=order):
                conditions = (*gates[number], *(half[large] for half, large in zip(halves, larges, strict=True)))
                # Each structure uses the next two classes.
                label = (2 * number + sum(larges) % 2) % self.recipe.classes
                planted.append(Planting(structure, conditions, label))
        return tuple(planted)

    def decoys(self) -> dict[str, str]:
        """Plan decoys of the columns planned so far, in turn."""
        originals = self.rng.permutation(list(self.plans)).tolist()
        imitated = [originals[number % len(originals)] for number in range(self.recipe.decoys)]
        return {self._plan(decoy_plan(self.rng, self.plans[original])): original for original in imitated}

    def noise(self) -> None:
        while len(self.plans) < self.recipe.features:
            self._plan(text_plan(self.rng) if len(self.plans) in self.texts else number_plan(self.rng))

    def _plan(self, plan: ColumnPlan) -> str:
        name = self.names[len(self.plans)]
        self.plans[name] = plan
        return name

    def _literal(self, mass: float) -> Condition:
        large = bool(self.rng.integers(2))
        is_text = len(self.plans) in self.texts
        plan = text_plan(self.rng, mass) if is_text else number_plan(self.rng, (1 - mass if large else mass,))
        return plan.literal(self._plan(plan), mass, large=large)

    def _halves(self) -> tuple[Condition, Condition]:
        plan = number_plan(self.rng, (0.5,))
        name = self._plan(plan)
        return plan.literal(name, 0.5, large=False), plan.literal(name, 0.5, large=True)

    def _gates(self) -> list[tuple[Condition, ...]]:
        """The conditions on the gate that select the rows of each structure; none if one structure takes all rows."""
        count, share = self.recipe.structures, self.recipe.xor_share
        if not self.recipe.gated:
            return [()] * count
        edges = [share * part / count for part in range(count + 1)]
        plan = number_plan(self.rng, [edge for edge in edges if 0 < edge < 1])
        name = self._plan(plan)
        lows = [(Condition(name, Op.ABOVE, plan.threshold(edge)),) if edge > 0 else () for edge in edges]
        highs = [(Condition(name, Op.AT_MOST, plan.threshold(edge)),) if edge < 1 else () for edge in edges]
        return [(*low, *high) for low, high in zip(lows[:-1], highs[1:], strict=True)]
