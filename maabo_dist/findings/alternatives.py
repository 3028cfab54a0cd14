"""What stands beside a finding: other wordings of it, columns that stand in for each other, and what came nearest."""

import numpy as np

from maabo_dist.contract.rules import StandInRecord
from maabo_dist.contract.selection import NearestRecord
from maabo_dist.contract.wording import class_text, statement_text
from maabo_dist.findings.evidence import NO_CONDITION
from maabo_dist.findings.findings import Evidence, Findings
from maabo_dist.findings.selection import Group
from maabo_dist.rules.rule import conditions_of
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


def nearest(evidence: Evidence, findings: Findings, study: Study) -> NearestRecord | None:
    """Return the supported rule that came nearest to being published; None if there is none."""
    if not len(evidence.rules):
        return None
    rule = int(np.argmax(findings.certification.margins))
    rules, table, columns = evidence.rules, evidence.table, study.columns
    conditions = rules.conditions[rule]
    indices = conditions[conditions != NO_CONDITION]
    order = np.argsort(table.literals[indices])
    literals, bounds = table.literals[indices][order].tolist(), table.bounds[indices][order].tolist()
    label = columns.classes[rules.labels[rule]]
    statement = statement_text(
        conditions_of(columns.features, literals, bounds), class_text(label, columns.classes, columns.target)
    )
    evidence_needed = -rules.log_p[rule] + max(0.0, -findings.certification.margins[rule] + findings.margin)
    rows = int(rules.rows[rule])
    return NearestRecord(
        text=statement,
        label=label,
        n=rows,
        precision=int(rules.hits[rule]) / rows,
        p=float(np.exp(findings.certification.log_p[rule])),
        # Evidence grows with the number of rows.
        rows_needed=int(np.ceil(len(table.mined.rows) * evidence_needed / -rules.log_p[rule])),
    )


def _rank_correlation(study: Study, a: int, b: int) -> float:
    """Spearman's correlation of two columns, by the ranks of their distinct values."""
    first, second = (study.columns.codes[feature] - study.columns.codes[feature].mean() for feature in (a, b))
    return float((first * second).sum() / np.sqrt((first * first).sum() * (second * second).sum()))
