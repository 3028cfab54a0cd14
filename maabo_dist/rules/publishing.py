"""From distinct reliable leaves to published rules: GS-MRM, then what the rows say of each rule kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist._util.arrayfile import canonical_json
from maabo_dist._util.subset_rows import members
from maabo_dist.contract.conditions import Condition
from maabo_dist.data.columns import Columns
from maabo_dist.rules.leaves import NO_LITERAL, Leaves
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import Displaced, HeldOut, Rule, Source, Support, conditions_of
from maabo_dist.rules.selection import Selection, by_logic, by_rows, select_by_logic, select_rules
from maabo_dist.rules.statistics import held_out, support
from maabo_dist.study import Study

DISPLACED_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TreeRecords:
    """Of every tree, in the order of proposal: its subset, its best depth and its macro F1 there (NaN: none)."""

    subsets: npt.NDArray[np.int32]
    depths: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


def choose(leaves: Leaves, study: Study) -> Selection:
    """GS-MRM over distinct leaves, by the similarity that the settings name."""
    settings = study.settings
    if settings.similarity_by == "logic":
        return select_by_logic(leaves.gini, leaves.logic, settings.similarity)
    similarity = by_rows(covered_rows(study.columns, study.split.train, leaves.logic, leaves.bounds))
    return select_rules(leaves.gini, similarity, settings.similarity)


def publish(leaves: Leaves, selection: Selection, study: Study, records: TreeRecords) -> tuple[Rule, ...]:
    """Make rules of the chosen leaves, with the evidence for each. The leaves use no probe."""
    columns, split, shares = study.table_columns, study.split, study.table.shares
    kept = leaves.take(selection.chosen)
    classes = len(columns.classes)
    labels = [_heaviest(counts, shares) for counts in kept.counts]
    covered = covered_rows(columns, split.train, kept.logic, kept.bounds)
    alone = covered & (covered.sum(axis=0) == 1)
    train = _supports(columns, split.train, kept, labels)
    validation = _supports(columns, split.validation, kept, labels)
    tested: Sequence[HeldOut | None] = [None] * len(kept)
    if len(split.holdout):
        of_class = np.bincount(columns.labels[split.holdout], minlength=classes)
        tested = held_out(_supports(columns, split.holdout, kept, labels), labels, of_class)
    neighbours = _neighbours(kept)
    return tuple(
        Rule(
            id=f"R{number + 1}",
            conditions=_conditions(columns, kept, number),
            label=labels[number],
            n=int(kept.sizes[number]),
            counts=tuple(kept.counts[number].tolist()),
            gini=float(kept.gini[number]),
            logic=tuple((literal // 2, literal % 2 == 1) for literal in _literals(kept, number)),
            bounds=tuple(kept.bounds[number, : len(_literals(kept, number))].tolist()),
            train=train[number],
            validation=validation[number],
            holdout=tested[number],
            unique=int(alone[number].sum()),
            most_similar=neighbours[number][0],
            most_similar_by=neighbours[number][1],
            source=_source(columns, records, kept, number),
            displaced=_displaced(columns, leaves, selection, number, shares),
            displaced_total=int((selection.displaced_by == number).sum()),
        )
        for number in range(len(kept))
    )


def rules_digest(rules: Sequence[Rule], classes: Sequence[str]) -> str:
    """SHA-256 over what a rule says and the rows it was made from, in the order of selection."""
    canonical = [
        {
            "conditions": [[c.feature, c.op.value, c.value, c.or_missing] for c in rule.conditions],
            "class": classes[rule.label],
            "counts": rule.counts,
        }
        for rule in rules
    ]
    return hashlib.sha256(canonical_json(canonical)).hexdigest()


def _heaviest(counts: npt.NDArray[np.int32], shares: npt.NDArray[np.int64]) -> int:
    """The class of greatest weighted count, exactly; ties to the first."""
    best = 0
    for c in range(1, len(counts)):
        if int(counts[c]) * int(shares[best]) > int(counts[best]) * int(shares[c]):
            best = c
    return best


def _supports(columns: Columns, rows: npt.NDArray[np.int64], kept: Leaves, labels: Sequence[int]) -> list[Support]:
    covered = covered_rows(columns, rows, kept.logic, kept.bounds)
    part = columns.labels[rows]
    return [support(mask, part, label, len(columns.classes)) for mask, label in zip(covered, labels, strict=True)]


def _literals(leaves: Leaves, place: int) -> list[int]:
    row = leaves.logic[place]
    return [int(literal) for literal in row[row != NO_LITERAL]]


def _conditions(columns: Columns, leaves: Leaves, place: int) -> tuple[Condition, ...]:
    literals = _literals(leaves, place)
    return conditions_of(columns.features, literals, leaves.bounds[place, : len(literals)].tolist())


def _source(columns: Columns, records: TreeRecords, kept: Leaves, number: int) -> Source:
    tree = int(kept.tree[number])
    return Source(
        tree=tree,
        # What lies beyond the table's columns is a probe.
        subset=tuple(columns.features[f].name for f in members(records.subsets[tree]) if f < columns.count),
        depth=int(records.depths[tree]),
        score=float(kept.score[number]),
    )


def _neighbours(kept: Leaves) -> list[tuple[str | None, float]]:
    """For each rule the other one most similar to it by logic, the first of equals; (None, 0) where it stands alone."""
    similarity, everyone = by_logic(kept.logic), np.arange(len(kept))
    result: list[tuple[str | None, float]] = []
    for number in range(len(kept)):
        values = similarity(number, everyone)
        values[number] = -1.0
        nearest = int(np.argmax(values))
        result.append((f"R{nearest + 1}", float(values[nearest])) if values[nearest] > 0 else (None, 0.0))
    return result


def _displaced(
    columns: Columns, leaves: Leaves, selection: Selection, number: int, shares: npt.NDArray[np.int64]
) -> tuple[Displaced, ...]:
    """The purest of the leaves that rule `number` displaced; of equals the larger ones first."""
    places = np.flatnonzero(selection.displaced_by == number)
    places = places[np.argsort(leaves.gini[places], kind="stable")][:DISPLACED_SHOWN]
    return tuple(
        Displaced(
            conditions=_conditions(columns, leaves, place),
            label=_heaviest(leaves.counts[place], shares),
            n=int(leaves.sizes[place]),
            gini=float(leaves.gini[place]),
            similarity=float(selection.similarity[place]),
        )
        for place in places.tolist()
    )
