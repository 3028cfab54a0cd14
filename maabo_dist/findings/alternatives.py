"""Columns that stand in for each other in rules on nearly the same rows."""

import numpy as np

from maabo_dist.contract.rules import StandInRecord
from maabo_dist.findings.findings import Findings
from maabo_dist.findings.selection import Group
from maabo_dist.study import Study

# Columns whose ranks correlate less than this do not stand in for each other.
MIN_CORRELATION = 0.5
MAX_STAND_INS = 5


def stand_ins(group: Group, findings: Findings, study: Study) -> tuple[StandInRecord, ...]:
    """Return the columns that other rules of the group have in place of one of the head, most correlated first."""
    logic, features = findings.evidence.logic, study.columns.features
    head = {literal >> 1 for literal in logic[group.head]}
    best: dict[tuple[str, str], float] = {}
    for index in group.others:
        other = {literal >> 1 for literal in logic[index]}
        if len(head - other) == len(other - head) == 1:
            (column,), (instead_of,) = other - head, head - other
            names = features[column].column, features[instead_of].column
            if names[0] != names[1] and names not in best:
                best[names] = _rank_correlation(study, column, instead_of)
    ranked = sorted(best.items(), key=lambda item: (-abs(item[1]), item[0]))
    return tuple(
        StandInRecord(column=column, instead_of=instead_of, correlation=round(correlation, 4))
        for (column, instead_of), correlation in ranked[:MAX_STAND_INS]
        if abs(correlation) >= MIN_CORRELATION
    )


def _rank_correlation(study: Study, a: int, b: int) -> float:
    """Spearman's correlation of two columns, by the ranks of their distinct values."""
    first, second = (study.columns.codes[feature] - study.columns.codes[feature].mean() for feature in (a, b))
    return float((first * second).sum() / np.sqrt((first * first).sum() * (second * second).sum()))
