"""`AllRows`: exact counts of the rows that rules cover in a dataset, whatever its size.

    batch ──► conditions, each tested once, as bits ──► rules: bits that conditions share ──► rows of parts and classes

Counts are sums over pieces of the dataset, and the same in any order and on any number of threads. A rule is counted
once: its counts are kept.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.contract.conditions import Condition
from maabo_dist.contract.coverage import MAX_COMPARED
from maabo_dist.data.columns import Feature
from maabo_dist.data.dataset_sources import Piece
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.data.row_classes import NO_CLASS
from maabo_dist.data.split import Part
from maabo_dist.rules.batch_matching import CHUNK_ROWS, BatchMatcher, Bits
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.matching import Floats, Logic
from maabo_dist.rules.rule import NO_LITERAL

Ints = npt.NDArray[np.int64]
Premise = tuple[Condition, ...]


@dataclass(frozen=True)
class DatasetRows:
    """A dataset, the class and the part of each of its rows, and how its cells are read."""

    table: Dataset
    classes: tuple[str, ...]
    # (rows): see `row_classes` and `row_sample`.
    labels: npt.NDArray[np.uint8]
    parts: npt.NDArray[np.uint8]
    # (parts, C): all rows.
    totals: Ints
    encoder: TableEncoder
    na_values: tuple[str, ...] = ()


class Overlaps(NamedTuple):
    """What several rules cover together."""

    # (rules): training rows that no other rule covers.
    unique: Ints
    # (C): rows of each class that some rule for this class covers.
    explained: Ints
    # Rows of each class by the rules that cover them: bit k is set if the k-th rule does.
    combinations: dict[int, Ints]


@dataclass
class AllRows:
    """Counts the rows of rules in a dataset; a `RowCounter`."""

    rows_of: DatasetRows
    # The features of the study whose rules are counted.
    features: Sequence[Feature]
    threads: int = 1
    # Called with the rows that a pass has counted, and all rows.
    progress: Callable[[int, int], None] = lambda _done, _rows: None
    effect: float = 1.0
    unit: int = 1
    _counts: dict[Premise, Ints] = field(default_factory=dict)
    _overlaps: dict[tuple[tuple[Premise, int], ...], Overlaps] = field(default_factory=dict)

    @property
    def totals(self) -> Ints:
        """(parts, C): all rows."""
        return self.rows_of.totals

    @property
    def rows(self) -> tuple[int, int, int]:
        """The number of rows of each part."""
        train, validation, holdout = self.totals.sum(axis=1).tolist()
        return train, validation, holdout

    def count(self, logic: Logic, bounds: Floats) -> Ints:
        """(rules, parts, C): the rows that each rule covers."""
        premises = self.premises(logic, bounds)
        self.count_premises(premises)
        shape = (len(premises), len(Part), len(self.rows_of.classes))
        return np.array([self._counts[premise] for premise in premises], np.int64).reshape(shape)

    def count_unique(self, logic: Logic, bounds: Floats, labels: Sequence[int]) -> Ints:
        """(rules): the training rows that no other of these rules, for these classes, covers."""
        return self.overlaps(self.premises(logic, bounds), labels).unique

    def premises(self, logic: Logic, bounds: Floats) -> list[Premise]:
        """Return the conditions of rules."""
        return [
            conditions_of(self.features, literals[literals != NO_LITERAL].tolist(), thresholds.tolist())
            for literals, thresholds in zip(logic, bounds, strict=True)
        ]

    def count_premises(self, premises: Iterable[Premise]) -> None:
        """Count those of the rules that are not counted yet, in one pass."""
        self._counts[()] = self.totals
        wanted = [each for each in dict.fromkeys(premises) if each not in self._counts]
        if not wanted:
            return
        conditions, rules = _index(wanted)
        total = np.zeros((len(wanted), len(Part) * len(self.rows_of.classes)), np.int64)
        for counts in self._map(lambda piece: _count_piece(self.rows_of, conditions, rules, piece)):
            total += counts
        for premise, counts in zip(wanted, total, strict=True):
            self._counts[premise] = counts.reshape(self.totals.shape)

    def counts_of(self, premise: Premise) -> Ints:
        """(parts, C): the rows of a rule that is counted."""
        return self._counts[premise]

    def overlaps(self, premises: Sequence[Premise], labels: Sequence[int]) -> Overlaps:
        """Count what rules for these classes cover together, in one pass."""
        key = tuple(zip(premises, labels, strict=True))
        if key in self._overlaps:
            return self._overlaps[key]
        if not key:
            return Overlaps(np.zeros(0, np.int64), np.zeros(len(self.rows_of.classes), np.int64), {})
        conditions, rules = _index(premises)
        predicted = np.array(labels, np.int64)
        found = list(self._map(lambda piece: _overlap_piece(self.rows_of, conditions, rules, predicted, piece)))
        combinations: dict[int, Ints] = {}
        for part in found:
            for code, counts in part.combinations.items():
                combinations[code] = combinations.get(code, 0) + counts
        unique, explained = (sum(column) for column in zip(*(each[:2] for each in found), strict=True))
        self._overlaps[key] = Overlaps(np.asarray(unique), np.asarray(explained), combinations)
        return self._overlaps[key]

    def _map(self, count_piece: Callable[[Piece], Any]) -> Iterable[Any]:
        """Yield a result for each piece; the files are checked before and after."""
        table, done = self.rows_of.table, 0
        table.check_unchanged()
        with ThreadPoolExecutor(self.threads) as pool:
            for piece, result in zip(table.pieces, pool.map(count_piece, table.pieces), strict=True):
                yield result
                done += piece.rows
                self.progress(done, table.rows)
        table.check_unchanged()


def _index(premises: Sequence[Premise]) -> tuple[list[Condition], npt.NDArray[np.int32]]:
    """Return the distinct conditions, and for each rule the indices of its own; −1 fills the rows."""
    distinct = {each: index for index, each in enumerate(dict.fromkeys(each for rule in premises for each in rule))}
    rules = np.full((len(premises), max([1, *map(len, premises)])), -1, np.int32)
    for number, premise in enumerate(premises):
        rules[number, : len(premise)] = [distinct[each] for each in premise]
    return list(distinct), rules


def _chunks(rows: DatasetRows, conditions: Sequence[Condition], piece: Piece) -> Iterable[tuple[Bits, Bits]]:
    """Yield the bits of conditions, and of the rows of each part and class, for some rows at a time."""
    matcher, classes = BatchMatcher(conditions, rows.encoder, rows.na_values), len(rows.classes)
    for batch in rows.table.batches(matcher.columns, pieces=[piece]):
        matched = matcher.match(batch.cells)
        for start in range(0, matched.rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, matched.rows)
            own = slice(batch.start + start, batch.start + stop)
            labels = rows.labels[own]
            cells = np.where(labels == NO_CLASS, -1, rows.parts[own].astype(np.int16) * classes + labels)
            yield matched.bits(start, stop), _cell_bits(cells, len(Part) * classes)


def _cell_bits(cells: npt.NDArray[np.int16], count: int) -> Bits:
    packed = np.zeros((count, -(-len(cells) // 64) * 8), np.uint8)
    for cell in range(count):
        content = np.packbits(cells == cell, bitorder="little")
        packed[cell, : len(content)] = content
    words: Bits = packed.view(np.uint64)
    return words


def _count_piece(
    rows: DatasetRows, conditions: Sequence[Condition], rules: npt.NDArray[np.int32], piece: Piece
) -> Ints:
    """(rules, parts · C): the rows of a piece."""
    counts = np.zeros((len(rules), len(Part) * len(rows.classes)), np.int64)
    for bits, cells in _chunks(rows, conditions, piece):
        _count_rules(bits, rules, cells, counts)
    return counts


def _overlap_piece(
    rows: DatasetRows, conditions: Sequence[Condition], rules: npt.NDArray[np.int32], labels: Ints, piece: Piece
) -> Overlaps:
    classes = len(rows.classes)
    unique, explained = np.zeros(len(rules), np.int64), np.zeros(classes, np.int64)
    combinations: dict[int, Ints] = {}
    for bits, cells in _chunks(rows, conditions, piece):
        covered = np.zeros((len(rules), bits.shape[1]), np.uint64)
        of_class = np.bitwise_or.reduce(cells.reshape(len(Part), classes, -1), axis=0)
        train = np.bitwise_or.reduce(cells[:classes], axis=0)
        _cover_chunk(bits, rules, covered)
        once, twice = np.zeros(bits.shape[1], np.uint64), np.zeros(bits.shape[1], np.uint64)
        for mask in covered:
            twice |= once & mask
            once |= mask
        unique += np.bitwise_count(covered & once & ~twice & train).sum(axis=1, dtype=np.int64)
        for label in np.unique(labels).tolist():
            either = np.bitwise_or.reduce(covered[labels == label], axis=0)
            explained[label] += int(np.bitwise_count(either & of_class[label]).sum(dtype=np.int64))
        _add_combinations(covered[:MAX_COMPARED], of_class, combinations)
    return Overlaps(unique, explained, combinations)


def _add_combinations(covered: Bits, of_class: Bits, combinations: dict[int, Ints]) -> None:
    """Count the rows of each class by the rules that cover them."""
    masks, classes = (
        np.unpackbits(np.ascontiguousarray(each).view(np.uint8), axis=1, bitorder="little").astype(np.int64)
        for each in (covered, of_class)
    )
    count = len(classes)
    present = np.flatnonzero(classes.any(axis=0))
    codes = (masks[:, present] << np.arange(len(masks))[:, None]).sum(axis=0)
    keys, rows = np.unique(codes * count + classes[:, present].argmax(axis=0), return_counts=True)
    for key, number in zip(keys.tolist(), rows.tolist(), strict=True):
        combinations.setdefault(key // count, np.zeros(count, np.int64))[key % count] += number


@kernel
def _count_rules(bits: Any, rules: Any, cells: Any, counts: Any) -> None:
    """Add the rows of each rule and cell. A rule without conditions covers all rows that are in a cell."""
    words = bits.shape[1] if len(bits) else cells.shape[1]
    common = np.empty(words, np.uint64)
    for rule in range(len(rules)):
        common[:] = ~np.uint64(0)
        for k in range(rules.shape[1]):
            if rules[rule, k] >= 0:
                own = bits[rules[rule, k]]
                for word in range(words):
                    common[word] &= own[word]
        for cell in range(len(cells)):
            total = np.int64(0)
            for word in range(words):
                total += np.int64(popcount(common[word] & cells[cell, word]))
            counts[rule, cell] += total


@kernel
def _cover_chunk(bits: Any, rules: Any, covered: Any) -> None:
    for rule in range(len(rules)):
        covered[rule] = ~np.uint64(0)
        for k in range(rules.shape[1]):
            if rules[rule, k] >= 0:
                covered[rule] &= bits[rules[rule, k]]
