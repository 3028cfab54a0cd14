"""Evidence that is counted on all rows of a dataset, for rules that were found in a sample of it."""

from dataclasses import replace

import numpy as np

from maabo_dist.data.split import Part
from maabo_dist.data.weights import UNIT
from maabo_dist.findings import certificate
from maabo_dist.findings.candidates import CandidateRules
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.evidence import log_p_values
from maabo_dist.findings.findings import CountedRows, Evidence, literals_of
from maabo_dist.findings.rowbits import Ints, MinedRows
from maabo_dist.findings.thresholds import readable_bounds
from maabo_dist.rules.counting import RowCounter
from maabo_dist.study import Study
from maabo_dist.trees.training import class_weights

# Rules that are counted, at most; the strongest of each class in the sample.
MAX_COUNTED = 5_000


def count_evidence(evidence: Evidence, study: Study, counter: RowCounter) -> Evidence:
    """Count the supported rules of a search on all rows, with the thresholds that are published, and test them there.

    The bound of the certificate then holds for all rows: the rules that the sample allows were fixed without regard to
    the labels of the others.
    """
    rules = evidence.rules.take(_choose(evidence))
    totals = counter.totals[[Part.TRAIN, Part.VALIDATION]].sum(axis=0)
    counted = CountedRows(totals, _weigh(evidence.table, study, totals))
    if not len(rules):
        return replace(evidence, rules=rules, counted=counted)
    logic, bounds = literals_of(rules.conditions, evidence.table)
    counts = counter.count(logic, readable_bounds(logic, bounds, study.columns))
    rules = _test(rules, counts[:, [Part.TRAIN, Part.VALIDATION]].sum(axis=1), totals, evidence.table)
    return replace(
        evidence,
        rules=rules,
        statistics=certificate.statistics(rules, evidence.table),
        bound_holds=True,
        counted=counted,
    )


def with_class_weights(study: Study, counter: RowCounter) -> Study:
    """Return the study with class weights by all training rows, for the Gini indices of rules."""
    weights, _ = class_weights(counter.totals[Part.TRAIN], study.settings.class_weight, weighted=False)
    return replace(study, table=study.table._replace(weights=weights))


def _choose(evidence: Evidence) -> Ints:
    """Return the rules to count: all, or the strongest of each class in turn."""
    if len(evidence.rules) <= MAX_COUNTED:
        return np.arange(len(evidence.rules))
    rank = np.empty(len(evidence.rules), np.int64)
    for label in np.unique(evidence.rules.labels).tolist():
        own = np.flatnonzero(evidence.rules.labels == label)
        rank[own[np.argsort(evidence.statistics[own], kind="stable")]] = np.arange(len(own))
    strongest: Ints = np.sort(np.lexsort([evidence.statistics, rank])[:MAX_COUNTED])
    return strongest


def _test(rules: CandidateRules, counts: Ints, totals: Ints, table: ConditionTable) -> CandidateRules:
    hits, everything = counts[np.arange(len(rules)), rules.labels], np.full(len(rules), totals.sum())
    log_p = log_p_values(hits, counts.sum(axis=1), totals[rules.labels], everything, table.factorials)
    return replace(rules, counts=counts, log_p=log_p)


def _weigh(table: ConditionTable, study: Study, totals: Ints) -> ConditionTable:
    """Give the rows of the sample the weights of their classes; none if all classes were sampled about alike."""
    columns, mined = study.columns, study.mined_rows
    drawn = np.maximum(1, np.bincount(columns.labels[mined], minlength=len(columns.classes)))
    weights = totals / drawn
    least, most = weights[totals > 0].min(), weights.max()
    if most <= 1.5 * least:
        return table
    units = np.maximum(1, np.floor(weights / least * UNIT + 0.5)).astype(np.int64)
    rows = MinedRows.build(columns.labels, mined, len(columns.classes), units[columns.labels])
    return replace(table, mined=rows)
