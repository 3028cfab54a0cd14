"""From the trees of a search to published rules: a pool of reliable leaves, GS-MRM, and the evidence for each rule."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist._util.arrayfile import canonical_json
from maabo_dist._util.subset_rows import members
from maabo_dist.contract.conditions import condition_records
from maabo_dist.contract.rules import DisplacedRecord, HoldoutRecord, SourceRecord, SupportRecord, Verdict
from maabo_dist.contract.wording import conditions_text
from maabo_dist.data.columns import Columns
from maabo_dist.data.groups import effective_counts
from maabo_dist.data.split import Part
from maabo_dist.data.weights import UNIT, count_units, round_units
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.counting import RowCounter, SplitCounter
from maabo_dist.rules.leaves import LeafFilter, Leaves, heaviest_classes, literal_width, no_leaves, reliable_leaves
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import Selection, by_logic, by_rows, distinct_leaves, select_by_logic, select_rules
from maabo_dist.rules.statistics import benjamini_hochberg, fisher_test, wilson
from maabo_dist.search.space import SubsetIndex
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest

# Displaced leaves that a rule lists.
MAX_DISPLACED = 5
# Leaves that may be added before those that can no longer be selected are removed.
SLACK = 100_000


@dataclass(frozen=True, slots=True)
class TreeRecords:
    """Every tree, in the order of proposal: its subset, its best depth and its macro F1 there (NaN if it failed)."""

    subsets: npt.NDArray[np.int32]
    depths: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


class TreePool:
    """The reliable leaves of all trees, and a record of each tree. Trees are added in the order of the search."""

    def __init__(self, study: Study) -> None:
        settings, subset_size = study.settings, study.plan.subset_size
        self._filter = LeafFilter.of(study)
        width = literal_width(subset_size, settings.max_depth)
        self.leaves = LeafPool(width, len(study.columns.classes), by_bounds=settings.by_bounds)
        self._subsets = [np.empty((0, subset_size), np.int32)]
        self._depths = [np.empty(0, np.int32)]
        self._scores = [np.empty(0)]
        # Trees so far.
        self.count = 0

    @property
    def records(self) -> TreeRecords:
        """Subset, depth and score of every tree."""
        subsets, depths = np.concatenate(self._subsets), np.concatenate(self._depths)
        return TreeRecords(subsets, depths, np.concatenate(self._scores))

    def add(self, forest: Forest) -> int:
        """Add trees, and return the number of their reliable leaves."""
        leaves = reliable_leaves(forest, self._filter, first_tree=self.count)
        # In this order: an interrupt in between never leaves a leaf whose tree is unknown.
        self._subsets.append(forest.subsets)
        self._depths.append(forest.depths)
        self._scores.append(forest.best_scores)
        self.leaves.add(leaves)
        self.count += len(forest)
        return len(leaves)


def max_score(best: float | None, scores: npt.NDArray[np.float64]) -> float | None:
    """The greatest of the best score so far and of further scores; those of failed trees (NaN) do not count."""
    finite = scores[~np.isnan(scores)]
    return max([*([] if best is None else [best]), *([float(finite.max())] if len(finite) else [])], default=None)


class LeafPool:
    """Collects leaves, and removes those that can no longer be selected."""

    def __init__(self, width: int, classes: int, *, by_bounds: bool) -> None:
        self._by_bounds = by_bounds
        self._parts = [no_leaves(width, classes)]
        self._size = self._compact_size = 0
        self._logics = SubsetIndex(width)
        # Leaves of all trees so far; of these large enough; of these pure enough. Repetitions count.
        self.seen = self.large = self.pure = 0

    @property
    def logic_sets(self) -> int:
        """Distinct logic sets so far."""
        return len(self._logics)

    def add(self, leaves: Leaves) -> int:
        """Add the leaves of more trees, and return the number of new logic sets."""
        self._parts.append(leaves)
        self.seen, self.large, self.pure = self.seen + leaves.seen, self.large + leaves.large, self.pure + len(leaves)
        self._size += len(leaves)
        if self._size > 2 * self._compact_size + SLACK:
            self.distinct()
        return len(self._logics.add_new(leaves.logic))

    def distinct(self) -> Leaves:
        """The best leaf of each logic set (with its thresholds, if `by_bounds`), in canonical order."""
        compact = distinct_leaves(Leaves.concatenate(self._parts), by_bounds=self._by_bounds)
        self._parts, self._size, self._compact_size = [compact], len(compact), len(compact)
        return compact


def select_leaves(leaves: Leaves, study: Study) -> Selection:
    """Run GS-MRM over distinct leaves, by the similarity that the settings name."""
    settings = study.settings
    if settings.similarity_by == "logic":
        return select_by_logic(leaves.gini, leaves.logic, settings.similarity)
    similarity = by_rows(covered_rows(study.columns, study.split.train, leaves.logic, leaves.bounds))
    return select_rules(leaves.gini, similarity, settings.similarity)


def publish(
    leaves: Leaves,
    selection: Selection,
    study: Study,
    records: TreeRecords,
    classes: npt.NDArray[np.int64] | None = None,
    counter: RowCounter | None = None,
) -> tuple[Rule, ...]:
    """Make rules of the selected leaves, with the evidence for each. The leaves use no probe.

    `classes` are those that the leaves predict: by default the ones of greatest weight among their training rows.
    `counter` counts the rows of rules, by default those of the study.
    """
    counter = counter or SplitCounter.of(study)
    columns, effect = study.table_columns, counter.effect
    most_similar_first = classes is not None
    classes = heaviest_classes(leaves.counts, study.table.shares) if classes is None else classes
    selected = leaves.take(selection.chosen)
    labels = classes[selection.chosen].tolist()
    unique = counter.count_unique(selected.logic, selected.bounds, labels).tolist()
    counts = counter.count(selected.logic, selected.bounds)
    train, validation, supports = (
        [
            support_record(inside, counter.totals[part], label, columns.classes, counter.unit)
            for inside, label in zip(counts[:, part], labels, strict=True)
        ]
        for part in Part
    )
    holdout: Sequence[HoldoutRecord | None] = [None] * len(selected)
    if counter.totals[Part.HOLDOUT].any():
        of_class = round_units(counter.totals[Part.HOLDOUT], counter.unit)
        names = [columns.classes[label] for label in labels]
        holdout = add_holdout_tests(supports, names, of_class[labels], effect)
    neighbours = _neighbours(selected)
    rules = []
    for number in range(len(selected)):
        literals, bounds = selected.conditions(number)
        displaced = np.flatnonzero(selection.displaced_by == number)
        order = -selection.similarity if most_similar_first else leaves.gini
        displaced = displaced[np.argsort(order[displaced], kind="stable")]
        rules.append(
            Rule(
                id=f"R{number + 1}",
                conditions=conditions_of(columns.features, literals, bounds),
                label=labels[number],
                n=int(selected.sizes[number]),
                counts=tuple(selected.counts[number].tolist()),
                gini=float(selected.gini[number]),
                logic=tuple((literal // 2, literal % 2 == 1) for literal in literals),
                bounds=tuple(bounds),
                train=train[number],
                validation=validation[number],
                holdout=holdout[number],
                unique=unique[number],
                most_similar=neighbours[number][0],
                most_similar_by=neighbours[number][1],
                source=_source(columns, records, selected, number),
                displaced=_displaced(columns, leaves, selection.similarity, displaced, classes),
                displaced_total=len(displaced),
                verdict=judge(
                    holdout[number], train[number], validation[number], columns.classes[labels[number]], effect
                ),
            )
        )
    return tuple(rules)


def rules_digest(rules: Sequence[Rule], classes: Sequence[str]) -> str:
    """SHA-256 over the conditions, classes and training counts of the rules, in the order of selection."""
    canonical = [
        {
            "conditions": [[c.name, c.op.value, c.value, c.or_missing] for c in rule.conditions],
            "class": classes[rule.label],
            "counts": rule.counts,
        }
        for rule in rules
    ]
    return hashlib.sha256(canonical_json(canonical)).hexdigest()


def measure_support(
    covered: npt.NDArray[np.bool_],
    labels: npt.NDArray[np.int32],
    label: int,
    classes: Sequence[str],
    units: npt.NDArray[np.int64] | None = None,
) -> SupportRecord:
    """The support of a rule that predicts `label` and covers these of the rows with these labels and weights.

    Shares are exact; numbers of weighted rows are rounded.
    """
    inside = count_units(labels[covered], None if units is None else units[covered], len(classes))
    return support_record(
        inside, count_units(labels, units, len(classes)), label, classes, 1 if units is None else UNIT
    )


def support_record(
    inside: npt.NDArray[np.int64], everything: npt.NDArray[np.int64], label: int, classes: Sequence[str], unit: int = 1
) -> SupportRecord:
    """The support of a rule that predicts `label`, from the rows of each class that it covers, and all rows.

    Both are in units, so many of which are a row.
    """
    counts, totals = round_units(inside, unit), round_units(everything, unit)
    n, all_rows, hits, of_class = (
        int(part) for part in (inside.sum(), everything.sum(), inside[label], everything[label])
    )
    return SupportRecord(
        rows=int(totals.sum()),
        n=int(counts.sum()),
        counts=dict(zip(classes, counts.tolist(), strict=True)),
        precision=hits / n if n else None,
        recall=hits / of_class if of_class else None,
        lift=hits / n * all_rows / of_class if n and of_class else None,
    )


def add_holdout_tests(
    supports: Sequence[SupportRecord], names: Sequence[str], of_class: npt.NDArray[np.int64], effect: float = 1.0
) -> list[HoldoutRecord]:
    """Add intervals and tests to the supports of all published rules on the held-out rows.

    `names` has the class of each rule, and `of_class` the number of held-out rows of that class. The q-values correct
    for as many tests as there are rules. In intervals and tests, `effect` rows are worth one.
    """
    hits = np.array([part.counts[name] for part, name in zip(supports, names, strict=True)], np.int64)
    rows, covered = (np.array([getattr(part, name) for part in supports], np.int64) for name in ("rows", "n"))
    (in_hits, in_misses, out_hits, out_misses) = (
        effective_counts(counts, effect)
        for counts in (hits, covered - hits, of_class - hits, rows - covered - of_class + hits)
    )
    p_values = fisher_test(in_hits, in_hits + in_misses, out_hits, out_hits + out_misses)
    tested = zip(supports, hits.tolist(), p_values.tolist(), benjamini_hochberg(p_values).tolist(), strict=True)
    results = []
    for part, hit, p, q in tested:
        low, high = wilson(hit, part.n, effect)
        results.append(HoldoutRecord(**dict(part), precision_low=low, precision_high=high, p=p, q=q))
    return results


def judge(
    holdout: HoldoutRecord | None, train: SupportRecord, validation: SupportRecord, label: str, effect: float = 1.0
) -> Verdict:
    """Compare a rule's precision on the held-out rows with the share of its class there, and with the mined rows."""
    if holdout is None or holdout.precision is None or not holdout.lift:
        return Verdict.NOT_TESTED if holdout is None or not holdout.n else Verdict.FAILED
    base = holdout.precision / holdout.lift
    mined = (train.counts[label] + validation.counts[label]) / max(1, train.n + validation.n)
    if holdout.precision <= base:
        return Verdict.FAILED
    low, high = wilson(holdout.counts[label], holdout.n, effect)
    if low is not None and high is not None and low > base and high >= mined:
        return Verdict.HELD_UP
    return Verdict.WEAKER if holdout.precision < mined else Verdict.NOT_TESTED  # so few rows, all of its class


def _source(columns: Columns, records: TreeRecords, selected: Leaves, number: int) -> SourceRecord:
    tree = int(selected.tree[number])
    return SourceRecord(
        tree=tree,
        # Features beyond the table's columns are probes.
        subset=tuple(columns.features[f].name for f in members(records.subsets[tree]) if f < columns.count),
        depth=int(records.depths[tree]),
        score=float(selected.score[number]),
    )


def _neighbours(selected: Leaves) -> list[tuple[str | None, float]]:
    """For each rule the other one most similar to it by logic, the first among ties; (None, 0) if none is similar."""
    similarity, everyone = by_logic(selected.logic), np.arange(len(selected))
    result: list[tuple[str | None, float]] = []
    for number in range(len(selected)):
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
    classes: npt.NDArray[np.int64],
) -> tuple[DisplacedRecord, ...]:
    """The first of the leaves that a rule displaced."""
    first = displaced[:MAX_DISPLACED]
    labels = classes[first].tolist()
    records = []
    for index, label in zip(first.tolist(), labels, strict=True):
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
