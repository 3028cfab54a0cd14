"""How a generated column looks: from a standard normal latent to the cells of a table.

Every column is a function of one latent that never falls as the latent rises (the levels of text aside, which have no
order). A quantile of the latent is then a threshold on the column, and a decoy is a column whose latent is correlated.

    latent ──► shape by kind ──► shift, scale ──► rounded to `DECIMALS`          numbers
           └─► place among the cuts ──► whole number, or level                   whole numbers, text
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from maabo_dist.rules.rule import Condition, Op

DECIMALS = 4
FEWEST_LEVELS, MOST_LEVELS = 3, 6

Latent = npt.NDArray[np.float64]

_NOTHING = 1e-9  # less than any two cuts lie apart
_ROOM = 0.03  # between a cut that a rule needs and the next one, so that the values beside it have rows


class Kind(StrEnum):
    """The family of a column's values."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    SKEWED = "skewed"
    WHOLE = "whole"
    TEXT = "text"


_NUMBERS = (Kind.NORMAL, Kind.UNIFORM, Kind.SKEWED, Kind.WHOLE)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column."""

    kind: Kind
    shift: float = 0.0
    scale: float = 1.0
    cuts: tuple[float, ...] = ()
    """WHOLE and TEXT: where the latent passes to the next value, ascending."""
    levels: tuple[str, ...] = ()
    """TEXT: one more than cuts."""

    def cells(self, latent: Latent) -> npt.NDArray[Any]:
        """The column's cells, none of them missing."""
        if self.kind is Kind.TEXT:
            return np.array(self.levels, dtype=object)[np.searchsorted(self.cuts, latent, side="right")]
        if self.kind is Kind.WHOLE:
            return self.shift + np.searchsorted(self.cuts, latent, side="right")
        rounded: npt.NDArray[np.float64] = np.round(self._number(latent), DECIMALS) + 0.0  # no −0.0
        return rounded

    def threshold(self, below: float) -> float:
        """A number that a share `below` of the cells stays under; no cell is equal to it.

        It lies between two neighbouring roundings, so that rounding moves no cell across it.
        """
        latent = ndtri(below)
        if self.kind is Kind.WHOLE:
            return float(self.shift + np.searchsorted(self.cuts, latent - _NOTHING) + 0.5)
        steps = np.floor(self._number(latent) * 10**DECIMALS)
        return float(np.round((steps + 0.5) / 10**DECIMALS, DECIMALS + 1))

    def literal(self, name: str, mass: float, *, large: bool) -> Condition:
        """A condition that a share `mass` of the cells satisfies; the plan was made for it."""
        if self.kind is Kind.TEXT:
            return Condition(name, Op.IS, self.levels[0])
        if large:
            return Condition(name, Op.ABOVE, self.threshold(1 - mass))
        return Condition(name, Op.AT_MOST, self.threshold(mass))

    def _number(self, latent: Any) -> Any:
        match self.kind:
            case Kind.UNIFORM:
                shape = ndtr(latent)
            case Kind.SKEWED:
                shape = np.exp(latent)
            case _:
                shape = latent
        return self.shift + self.scale * shape


def number_plan(rng: np.random.Generator, quantiles: Sequence[float] = ()) -> ColumnPlan:
    """A column of numbers of some kind; `quantiles` are those at which thresholds will be asked for."""
    kind = _NUMBERS[rng.integers(len(_NUMBERS))]
    if kind is Kind.WHOLE:
        return ColumnPlan(kind, shift=float(rng.integers(-3, 10)), cuts=_whole_cuts(rng, quantiles))
    shift, scale = np.round([rng.normal(0, 10), 1 + rng.exponential(10)], 2).tolist()
    return ColumnPlan(kind, shift, scale)


def text_plan(rng: np.random.Generator, mass: float | None = None) -> ColumnPlan:
    """A column of text; `mass`, if given, is the share of its first level, which a rule asks for."""
    count = int(rng.integers(FEWEST_LEVELS, MOST_LEVELS + 1))
    shares = rng.dirichlet(np.full(count, 5.0))
    if mass is not None:
        shares = np.array([mass, *(1 - mass) * shares[1:] / shares[1:].sum()])
    cuts = ndtri(np.cumsum(shares)[:-1]).tolist()
    return ColumnPlan(Kind.TEXT, cuts=tuple(cuts), levels=_level_names(rng, count))


def decoy_plan(rng: np.random.Generator, original: ColumnPlan) -> ColumnPlan:
    """A column to imitate `original`: numbers of any kind, or text with levels of the same sizes."""
    if original.kind is not Kind.TEXT:
        return number_plan(rng)
    return ColumnPlan(Kind.TEXT, cuts=original.cuts, levels=_level_names(rng, len(original.levels)))


def _whole_cuts(rng: np.random.Generator, quantiles: Sequence[float]) -> tuple[float, ...]:
    spread = np.arange(1, rng.integers(4, 16)) + rng.uniform(-0.3, 0.3)
    free = [place for place in spread / (len(spread) + 1) if all(abs(place - fixed) > _ROOM for fixed in quantiles)]
    return tuple(ndtri(np.sort([*free, *quantiles])).tolist())


def _level_names(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    return tuple("abcdef"[place] for place in rng.permutation(count))
