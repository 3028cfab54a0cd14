"""From distinct reliable leaves to published rules: GS-MRM, then the evidence for each rule it keeps."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist._util.arrayfile import canonical_json
from maabo_dist._util.subset_rows import members
from maabo_dist.contract.conditions import condition_records
from maabo_dist.contract.rules import DisplacedRecord, HoldoutRecord, SourceRecord, SupportRecord
from maabo_dist.contract.wording import conditions_text
from maabo_dist.data.columns import Columns
from maabo_dist.rules.leaves import Leaves, heaviest_classes
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import Rule, conditions_of
from maabo_dist.rules.selection import Selection, by_logic, by_rows, select_by_logic, select_rules
from maabo_dist.rules.statistics import benjamini_hochberg, fisher_test, wilson
from maabo_dist.study import Study

# Displaced leaves that a rule lists.
MAX_DISPLACED = 5


@dataclass(frozen=True, slots=True)
class TreeRecords:
    """Every tree, in the order of proposal: its subset, its best depth and its macro F1 there (NaN if it failed)."""

    subsets: npt.NDArray[np.int32]
    depths: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


def select_leaves(leaves: Leaves, study: Study) -> Selection:
    """Run GS-MRM over distinct leaves, by the similarity that the settings name."""
    settings = study.settings
    if settings.similarity_by == "logic":
        return select_by_logic(leaves.gini, leaves.logic, settings.similarity)
    similarity = by_rows(covered_rows(study.columns, study.split.train, leaves.logic, leaves.bounds))
    return select_rules(leaves.gini, similarity, settings.similarity)


def publish(leaves: Leaves, selection: Selection, study: Study, records: TreeRecords) -> tuple[Rule, ...]:
    """Make rules of the selected leaves, with the evidence for each. The leaves use no probe."""
    columns, split, shares = study.table_columns, study.split, study.table.shares
    kept = leaves.take(selection.chosen)
    labels = heaviest_classes(kept.counts, shares).tolist()
    covered = covered_rows(columns, split.train, kept.logic, kept.bounds)
    alone = covered & (covered.sum(axis=0) == 1)
    train = _supports(columns, split.train, kept, labels)
    validation = _supports(columns, split.validation, kept, labels)
    holdout: Sequence[HoldoutRecord | None] = [None] * len(kept)
    if len(split.holdout):
        of_class = np.bincount(columns.labels[split.holdout], minlength=len(columns.classes))
        names = [columns.classes[label] for label in labels]
        holdout = add_holdout_tests(_supports(columns, split.holdout, kept, labels), names, of_class[labels])
    neighbours = _neighbours(kept)
    rules = []
    for number in range(len(kept)):
        literals, bounds = kept.conditions(number)
        displaced = np.flatnonzero(selection.displaced_by == number)
        rules.append(
            Rule(
                id=f"R{number + 1}",
                conditions=conditions_of(columns.features, literals, bounds),
                label=labels[number],
                n=int(kept.sizes[number]),
                counts=tuple(kept.counts[number].tolist()),
                gini=float(kept.gini[number]),
                logic=tuple((literal // 2, literal % 2 == 1) for literal in literals),
                bounds=tuple(bounds),
                train=train[number],
                validation=validation[number],
                holdout=holdout[number],
                unique=int(alone[number].sum()),
                most_similar=neighbours[number][0],
                most_similar_by=neighbours[number][1],
                source=_source(columns, records, kept, number),
                displaced=_displaced(columns, leaves, selection.similarity, displaced, shares),
                displaced_total=len(displaced),
            )
        )
    return tuple(rules)


def rules_digest(rules: Sequence[Rule], classes: Sequence[str]) -> str:
    """SHA-256 over the conditions, classes and training counts of the rules, in the order of selection."""
    canonical = [
        {
            "conditions": [[c.feature, c.op.value, c.value, c.or_missing] for c in rule.conditions],
            "class": classes[rule.label],
            "counts": rule.counts,
        }
        for rule in rules
    ]
    return hashlib.sha256(canonical_json(canonical)).hexdigest()


def measure_support(
    covered: npt.NDArray[np.bool_], labels: npt.NDArray[np.int32], label: int, classes: Sequence[str]
) -> SupportRecord:
    """The support of a rule that predicts `label` and covers these of the rows with these labels."""
    counts = np.bincount(labels[covered], minlength=len(classes)).tolist()
    n, of_class = sum(counts), int((labels == label).sum())
    precision = counts[label] / n if n else None
    return SupportRecord(
        rows=len(labels),
        n=n,
        counts=dict(zip(classes, counts, strict=True)),
        precision=precision,
        recall=counts[label] / of_class if of_class else None,
        lift=precision * len(labels) / of_class if precision is not None and of_class else None,
    )


def add_holdout_tests(
    supports: Sequence[SupportRecord], names: Sequence[str], of_class: npt.NDArray[np.int64]
) -> list[HoldoutRecord]:
    """Add intervals and tests to the supports of all published rules on the held-out rows.

    `names` has the class of each rule, and `of_class` the number of held-out rows of that class. The q-values correct
    for as many tests as there are rules.
    """
    hits = np.array([part.counts[name] for part, name in zip(supports, names, strict=True)], np.int64)
    rows, covered = (np.array([getattr(part, name) for part in supports], np.int64) for name in ("rows", "n"))
    p_values = fisher_test(hits, covered, of_class - hits, rows - covered)
    tested = zip(supports, hits.tolist(), p_values.tolist(), benjamini_hochberg(p_values).tolist(), strict=True)
    results = []
    for part, hit, p, q in tested:
        low, high = wilson(hit, part.n)
        results.append(HoldoutRecord(**dict(part), precision_low=low, precision_high=high, p=p, q=q))
    return results


def _supports(
    columns: Columns, rows: npt.NDArray[np.int64], kept: Leaves, labels: Sequence[int]
) -> list[SupportRecord]:
    covered, part = covered_rows(columns, rows, kept.logic, kept.bounds), columns.labels[rows]
    return [measure_support(mask, part, label, columns.classes) for mask, label in zip(covered, labels, strict=True)]


def _source(columns: Columns, records: TreeRecords, kept: Leaves, number: int) -> SourceRecord:
    tree = int(kept.tree[number])
    return SourceRecord(
        tree=tree,
        # Features beyond the table's columns are probes.
        subset=tuple(columns.features[f].name for f in members(records.subsets[tree]) if f < columns.count),
        depth=int(records.depths[tree]),
        score=float(kept.score[number]),
    )


def _neighbours(kept: Leaves) -> list[tuple[str | None, float]]:
    """For each rule the other one most similar to it by logic, the first of equals; (None, 0) if none is similar."""
    similarity, everyone = by_logic(kept.logic), np.arange(len(kept))
    result: list[tuple[str | None, float]] = []
    for number in range(len(kept)):
        values = similarity(number, everyone)
        values[number] = -1.0
        nearest = int(np.argmax(values))
        result.append((f"R{nearest + 1}", float(values[nearest])) if values[nearest] > 0 else (None, 0.0))
    return result


def _displaced(
    columns: Columns,
    leaves: Leaves,
    similarity: npt.NDArray[np.float64],
    displaced: npt.NDArray[np.int64],
    shares: npt.NDArray[np.int64],
) -> tuple[DisplacedRecord, ...]:
    """The purest of the leaves that a rule displaced; of equals the larger ones first."""
    purest = displaced[np.argsort(leaves.gini[displaced], kind="stable")][:MAX_DISPLACED]
    labels = heaviest_classes(leaves.counts[purest], shares).tolist()
    records = []
    for index, label in zip(purest.tolist(), labels, strict=True):
        conditions = conditions_of(columns.features, *leaves.conditions(index))
        records.append(
            DisplacedRecord(
                text=conditions_text(conditions),
                conditions=condition_records(conditions),
                label=columns.classes[label],
                n=int(leaves.sizes[index]),
                gini=float(leaves.gini[index]),
                similarity=float(similarity[index]),
            )
        )
    return tuple(records)
