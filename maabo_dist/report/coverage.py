"""What the rules of a document explain together, counted on the rows of the table that it was mined from."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.coverage import MAX_COMPARED, ClassCoverage, CoverageInfo, OverlapRecord
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.columns import Columns
from maabo_dist.report.summary import split_failed
from maabo_dist.rules.column_matching import match_columns

if TYPE_CHECKING:
    from maabo_dist.rules.passes import PassCounter

MAX_OVERLAPS = 30


def with_coverage(document: ResultDocument, columns: Columns) -> ResultDocument:
    """Return the document with what its rules explain; unchanged while the search is running, for speed."""
    return document if document.running else document.model_copy(update={"coverage": _coverage(document, columns)})


def with_counted_coverage(document: ResultDocument, counter: "PassCounter") -> ResultDocument:
    """Return the document of a dataset with what its rules explain, counted on all rows."""
    classes, rules = counter.classes, split_failed(document)[0]
    overlaps = counter.overlaps([tuple(rule.premise) for rule in rules], [classes.index(rule.label) for rule in rules])
    totals, ids = counter.totals.sum(axis=0).tolist(), [rule.id for rule in rules[:MAX_COMPARED]]
    most = sorted(overlaps.combinations.items(), key=lambda item: (-int(item[1].sum()), item[0]))[:MAX_OVERLAPS]
    coverage = CoverageInfo(
        classes=tuple(
            ClassCoverage(label=name, rows=total, explained=explained)
            for name, total, explained in zip(classes, totals, overlaps.explained.tolist(), strict=True)
        ),
        compared=tuple(ids),
        overlaps=tuple(
            OverlapRecord(
                rules=tuple(name for number, name in enumerate(ids) if code >> number & 1),
                rows=int(counts.sum()),
                counts=dict(zip(classes, counts.tolist(), strict=True)),
            )
            for code, counts in most
        ),
    )
    return document.model_copy(update={"coverage": coverage})


def _coverage(document: ResultDocument, columns: Columns) -> CoverageInfo:
    classes, rules = columns.classes, split_failed(document)[0]
    explained = np.zeros((len(classes), columns.rows), np.bool_)
    # The bit 2^k of a row's combination is set if the k-th rule covers it.
    combination = np.zeros(columns.rows, np.int64)
    for number, rule in enumerate(rules):
        covered = match_columns([rule.premise], columns)[0]  # rule by rule: all masks at once may not fit in memory
        explained[classes.index(rule.label)] |= covered
        if number < MAX_COMPARED:
            combination |= covered.astype(np.int64) << number
    compared = [rule.id for rule in rules[:MAX_COMPARED]]
    return CoverageInfo(
        classes=tuple(
            ClassCoverage(
                label=name,
                rows=int((columns.labels == number).sum()),
                explained=int(explained[number][columns.labels == number].sum()),
            )
            for number, name in enumerate(classes)
        ),
        compared=tuple(compared),
        overlaps=_overlaps(combination, columns, compared),
    )


def _overlaps(combination: npt.NDArray[np.int64], columns: Columns, ids: list[str]) -> tuple[OverlapRecord, ...]:
    distinct, index, rows = np.unique(combination, return_inverse=True, return_counts=True)
    most = np.argsort(-rows, kind="stable")[:MAX_OVERLAPS]
    counts = np.zeros((len(distinct), len(columns.classes)), np.int64)
    np.add.at(counts, (index, columns.labels), 1)
    return tuple(
        OverlapRecord(
            rules=tuple(name for number, name in enumerate(ids) if distinct[each] >> number & 1),
            rows=int(rows[each]),
            counts=dict(zip(columns.classes, counts[each].tolist(), strict=True)),
        )
        for each in most
    )
