"""`AllRows`: exact counts of the rows that rules cover in a dataset, whatever its size.

    batch ──► conditions, each tested once, as bits ──► rules: bits that conditions share ──► rows of parts and classes

Counts are sums over pieces of the dataset, and the same in any order and on any number of threads.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

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
from maabo_dist.rules.passes import CountRequest, Counts, Ints, Overlaps, PassCounter, Premise, add_counts, no_counts


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
    # The row of the dataset that `labels` and `parts` begin with.
    first: int = 0


class AllRows(PassCounter):
    """Counts the rows of rules in a dataset, in threads of this process."""

    def __init__(
        self,
        rows_of: DatasetRows,
        features: Sequence[Feature],
        threads: int = 1,
        progress: Callable[[int, int], None] = lambda _done, _rows: None,
    ) -> None:
        """`progress` is called with the rows that a pass has counted, and all rows."""
        super().__init__(rows_of.classes, rows_of.totals, features)
        self.rows_of, self._threads, self._progress = rows_of, threads, progress

    def run_pass(self, request: CountRequest) -> Counts:
        """Count rules on all rows; the files are checked before and after."""
        table, done = self.rows_of.table, 0
        table.check_unchanged()
        total = no_counts(request.shape(len(self.classes)))
        with ThreadPoolExecutor(self._threads) as pool:
            counted = pool.map(lambda piece: count_pieces(self.rows_of, request, [piece]), table.pieces)
            for piece, counts in zip(table.pieces, counted, strict=True):
                total = add_counts(total, counts)
                done += piece.rows
                self._progress(done, table.rows)
        table.check_unchanged()
        return total


def count_pieces(rows: DatasetRows, request: CountRequest, pieces: Iterable[Piece]) -> Counts:
    """Count rules on the rows of some pieces."""
    conditions, rules = _index(request.premises)
    total = no_counts(request.shape(len(rows.classes)))
    for piece in pieces:
        if request.labels is None:
            total = add_counts(total, _count_piece(rows, conditions, rules, piece))
        else:
            total = add_counts(total, _overlap_piece(rows, conditions, rules, np.array(request.labels), piece))
    return total


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
            own = slice(batch.start + start - rows.first, batch.start + stop - rows.first)
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
