"""The subsets that meet `SubsetLimits`: enumerated in blocks, and drawn with equal probabilities.

A subset takes features of one unit after another. The number of ways to complete it depends on two things alone: how
many features are still to be taken, and whether one of the top features must be among them. With these numbers, a draw
takes from each unit what it must take to make all subsets equally likely, and the subset at a rank is found directly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.errors import SearchError
from maabo_dist.search.limits import SubsetLimits, Unit

# The greatest rank. Larger spaces are counted as this large.
MAX_RANK = 1 << 62

Features = npt.NDArray[np.int32]
Subsets = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LimitedSpace:
    """The subsets of `size` out of `features` features that meet the limits, in the order of their units."""

    features: int
    size: int
    limits: SubsetLimits

    @property
    def count(self) -> int:
        """The number of subsets, exact at any size."""
        return self.completions.count

    @cached_property
    def completions(self) -> "Completions":
        """The ways to put subsets together."""
        return Completions.count_all(self, top=None)

    def block(self, start: int, length: int) -> Subsets:
        """Return the subsets at ranks start … start + length − 1, fewer at the end of the space."""
        return self.completions.block(start, length)


class Pool(NamedTuple):
    """Columns of a unit that have equally many features of either kind."""

    # (columns, features of the kind).
    top: Features
    rest: Features


class Choice(NamedTuple):
    """What to take from a unit: features of one of the columns in a pool."""

    pool: Pool
    top: int
    rest: int
    # The number of ways to do so.
    ways: int

    @property
    def taken(self) -> int:
        """The number of features."""
        return self.top + self.rest


class State(NamedTuple):
    """What is left to do: features to take, and whether a top feature is still missing."""

    left: int
    needs_top: bool

    def after(self, choice: Choice) -> "State":
        """Return what is left after a choice."""
        return State(self.left - choice.taken, self.needs_top and not choice.top)


@dataclass(frozen=True)
class Completions:
    """For each unit and state, the choices, and the number of subsets that each leads to."""

    start: State
    # For each unit: state to (choice, number of ways to complete a subset after it).
    steps: tuple[dict[State, list[tuple[Choice, int]]], ...]

    @classmethod
    def count_all(cls, space: LimitedSpace, top: Features | None) -> "Completions":
        """Count all subsets that have one of the top features; None does not ask for any."""
        start = State(space.size, top is not None)
        is_top = np.zeros(space.features, np.bool_)
        is_top[[] if top is None else top] = True
        ways = {State(0, False): 1}
        states = [State(left, needs) for left in range(space.size + 1) for needs in {False, start.needs_top}]
        steps: list[dict[State, list[tuple[Choice, int]]]] = []
        for unit in reversed(space.limits.units(space.features)):
            choices = list(_choices(unit, is_top, space.size))
            step = {
                state: [(choice, after) for choice in choices if (after := ways.get(state.after(choice), 0))]
                for state in states
            }
            ways = {state: sum(choice.ways * after for choice, after in options) for state, options in step.items()}
            steps.append(step)
        return cls(start, tuple(reversed(steps)))

    @cached_property
    def count(self) -> int:
        """The number of subsets."""
        return sum(choice.ways * after for choice, after in self.steps[0][self.start])

    def block(self, start: int, length: int) -> Subsets:
        """Return the subsets at ranks start … start + length − 1, fewer at the end."""
        stop = min(start + length, self.count)
        if stop > MAX_RANK:
            raise SearchError(f"Rank {stop - 1} is too large.")
        return np.sort(_unrank(self, np.arange(start, max(start, stop), dtype=np.int64)), axis=1)


def _choices(unit: Unit, is_top: npt.NDArray[np.bool_], most: int) -> Iterator[Choice]:
    """Yield the choices of a unit. None of its features, which is one way, comes first."""
    nothing = np.empty((1, 0), np.int32)
    if not unit.required:
        yield Choice(Pool(nothing, nothing), 0, 0, 1)
    columns: dict[tuple[int, int], list[Pool]] = {}
    for features in unit.columns:
        own = np.array(features, np.int32)
        pool = Pool(own[is_top[own]], own[~is_top[own]])
        columns.setdefault((len(pool.top), len(pool.rest)), []).append(pool)
    for (tops, rests), pools in sorted(columns.items()):
        merged = Pool(np.stack([pool.top for pool in pools]), np.stack([pool.rest for pool in pools]))
        for taken in range(1, min(most, tops + rests) + 1):
            for top in range(max(0, taken - rests), min(taken, tops) + 1):
                yield Choice(merged, top, taken - top, len(pools) * comb(tops, top) * comb(rests, taken - top))


def _clip(numbers: list[int]) -> Numbers:
    return np.array([min(number, MAX_RANK) for number in numbers], np.int64)


def _unrank(completions: Completions, ranks: Numbers) -> Subsets:
    """Return the subsets at these ranks; their features are not in order."""
    out = np.empty((len(ranks), completions.start.left), np.int32)
    groups = {completions.start: (np.arange(len(ranks)), ranks)}
    for step in completions.steps:
        following: dict[State, list[tuple[Numbers, Numbers]]] = {}
        for state, (rows, own) in groups.items():
            options = step[state]
            totals = [choice.ways * after for choice, after in options]
            firsts = _clip([sum(totals[:index]) for index in range(len(totals))])
            chosen = np.searchsorted(firsts, own, side="right") - 1
            for index, (choice, after) in enumerate(options):
                mine = np.flatnonzero(chosen == index)
                number, remainder = np.divmod(own[mine] - firsts[index], min(after, MAX_RANK))
                _write(out, rows[mine], state, choice, _numbered(choice, number))
                following.setdefault(state.after(choice), []).append((rows[mine], remainder))
        groups = {state: _joined(parts) for state, parts in following.items()}
    return out


def _joined(parts: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([ranks for _, ranks in parts])


def _numbered(choice: Choice, numbers: Numbers) -> Features:
    """Return the features of the ways with these numbers."""
    numbers, rest = np.divmod(numbers, min(comb(choice.pool.rest.shape[1], choice.rest), MAX_RANK))
    columns, top = np.divmod(numbers, min(comb(choice.pool.top.shape[1], choice.top), MAX_RANK))
    parts = [_combinations(top, *_shape(choice.pool.top, choice.top))]
    parts += [_combinations(rest, *_shape(choice.pool.rest, choice.rest))]
    return _features(choice.pool, columns, *parts)


def _shape(features: Features, size: int) -> tuple[int, int]:
    return features.shape[1], size


def _combinations(numbers: Numbers, features: int, size: int) -> Numbers:
    """Return combinations of indices by their number, those with the smallest last index first."""
    out = np.empty((len(numbers), size), np.int64)
    for position in range(size, 0, -1):
        firsts = _clip([comb(last, position) for last in range(features + 1)])
        out[:, position - 1] = np.searchsorted(firsts, numbers, side="right") - 1
        numbers = numbers - firsts[out[:, position - 1]]
    return out


def _features(pool: Pool, columns: Numbers, top: Numbers, rest: Numbers) -> Features:
    rows = columns[:, None]
    return np.concatenate([pool.top[rows, top], pool.rest[rows, rest]], axis=1)


def _write(out: Subsets, rows: Numbers, state: State, choice: Choice, features: Features) -> None:
    first = out.shape[1] - state.left
    out[rows, first : first + choice.taken] = features


def draw_subsets(completions: Completions, stream: int, count: int) -> Subsets:
    """Draw subsets, each of all with the same probability."""
    out = np.empty((count, completions.start.left), np.int32)
    groups = {completions.start: np.arange(count)}
    for number, step in enumerate(completions.steps):
        following: dict[State, list[Numbers]] = {}
        for state, rows in groups.items():
            options = step[state]
            own = draws.stream(stream, number, 2 * state.left + state.needs_top)
            chosen = np.searchsorted(_thresholds(options), draws.keys(own, len(rows)), side="right")
            for index, (choice, _) in enumerate(options):
                mine = rows[chosen == index]
                _write(out, mine, state, choice, _drawn(choice, draws.stream(own, index, 0), len(mine)))
                following.setdefault(state.after(choice), []).append(mine)
        groups = {state: np.concatenate(parts) for state, parts in following.items()}
    return np.sort(out, axis=1)


def _thresholds(options: list[tuple[Choice, int]]) -> npt.NDArray[np.uint64]:
    """The cumulative probabilities of all choices but the last, in units of 2⁻⁶⁴."""
    totals = [choice.ways * after for choice, after in options]
    return np.array([(sum(totals[:index]) << 64) // sum(totals) for index in range(1, len(totals))], np.uint64)


def _drawn(choice: Choice, stream: int, count: int) -> Features:
    columns = _below(draws.stream(stream, 0, 0), count, len(choice.pool.top))
    top = _draw_combinations(draws.stream(stream, 1, 0), count, *_shape(choice.pool.top, choice.top))
    rest = _draw_combinations(draws.stream(stream, 2, 0), count, *_shape(choice.pool.rest, choice.rest))
    return _features(choice.pool, columns, top, rest)


def _draw_combinations(stream: int, count: int, features: int, size: int) -> Numbers:
    """Floyd: `size` distinct numbers below `features`, each combination equally likely."""
    out = np.empty((count, size), np.int64)
    for position in range(size):
        last = features - size + position
        pick = _below(draws.stream(stream, position, 0), count, last + 1)
        repeated = (out[:, :position] == pick[:, None]).any(axis=1)
        out[:, position] = np.where(repeated, last, pick)
    return out


def _below(stream: int, count: int, limit: int) -> Numbers:
    keys: Any = draws.keys(stream, count) % np.uint64(limit)
    numbers: Numbers = keys.astype(np.int64)
    return numbers
