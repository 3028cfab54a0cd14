"""`Study`: a table made ready for mining, with the settings and the plan of its search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.text import format_names
from maabo_dist.contract.messages import TableSplit
from maabo_dist.data.columns import Columns, add_probes, probe_mask, remove_probes
from maabo_dist.data.groups import design_effect, effective_counts, exchange
from maabo_dist.data.recoding import order_sets, recode, set_features
from maabo_dist.data.split import Split, sample_tree_rows, split_table
from maabo_dist.data.weights import class_decides, kish_effect
from maabo_dist.errors import SettingsError
from maabo_dist.search.explanation import explain_plan
from maabo_dist.search.plan import SearchPlan, planned_shuffles
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import TrainingTable

# The purpose of the draws that shuffle labels; the search and the probes have others.
SHUFFLE = 200
MIN_LEAF_ROWS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The inputs that a search and the selection of its rules share."""

    # The table's columns, followed by the probes; recoded if findings are published.
    columns: Columns
    split: Split
    table: TrainingTable
    settings: MiningSettings
    plan: SearchPlan
    # The table's columns as they were prepared.
    prepared: Columns
    # The number of rows that are worth one independent row in tests and intervals; 0 if it is to be computed.
    design_effect: float = 0.0

    def __post_init__(self) -> None:
        if self.design_effect:
            return
        mined, columns, effect = self.mined_rows, self.columns, 1.0
        if columns.weights is not None:
            effect *= kish_effect(columns.weights[mined])
        if columns.groups is not None:
            effect *= design_effect(columns.groups[mined], columns.labels[mined], len(columns.classes))
        object.__setattr__(self, "design_effect", effect)

    @classmethod
    def build(cls, columns: Columns, settings: MiningSettings) -> "Study":
        """Add the probes, split the rows, lay out the training table and settle the plan."""
        check_classes(columns.classes, settings)
        prepared, columns = columns, add_probes(columns, settings.probes, settings.seed)
        plan = SearchPlan.settle(settings, columns.count, columns.column_names, **columns.plan_inputs)
        split = split_for(columns, settings)
        if settings.publishes_findings:
            columns = recode(columns, split.train)
        table = TrainingTable.build(
            columns,
            tree_split(split, TableSplit.of(settings)),
            class_weight=settings.class_weight,
            min_samples_leaf=settings.min_samples_leaf,
        )
        return cls(columns, split, table, settings, plan, prepared)

    @property
    def planned_shuffles(self) -> int:
        """The number of searches on shuffled labels that certify rules, unless none of them has to."""
        columns = self.columns
        size = {"rows": columns.rows, "classes": len(columns.classes)}
        return planned_shuffles(self.plan, self.settings, **size, independent=columns.independent_rows)

    @property
    def tree_split(self) -> Split:
        """The split whose rows trees are grown on and screens count."""
        return tree_split(self.split, TableSplit.of(self.settings))

    @property
    def mined_rows(self) -> npt.NDArray[np.int64]:
        """The rows that the search sees: training and validation."""
        return np.concatenate([self.split.train, self.split.validation])

    @property
    def min_leaf_rows(self) -> int:
        """The fewest training rows of a leaf that may become a finding."""
        choices, effect = 2 * int(np.maximum(1, np.diff(self.columns.offsets) - 1).sum()), self.design_effect
        totals = effective_counts(self.columns.count_classes(self.mined_rows), effect)
        fewest = effect * fewest_certifiable_rows(totals[totals > 0].tolist(), choices)
        return max(MIN_LEAF_ROWS, round(fewest * (1 - self.settings.test_size)))

    def explain(self) -> tuple[str, ...]:
        """Return one line for each choice that was made for this table."""
        min_rows = self.min_leaf_rows if self.settings.publishes_findings else None
        classes = len(self.columns.classes)
        return explain_plan(
            self.plan,
            self.settings,
            rows=self.columns.rows,
            classes=classes,
            min_rows=min_rows,
            independent=self.columns.independent_rows,
        )

    def with_shuffled_labels(self, number: int) -> "Study":
        """Return the study with the labels of the mined rows in another order, which depends on the seed and `number`.

        Training and validation labels are shuffled separately, so that both keep their classes. Where rows come in
        groups, whole groups exchange their labels. Weights stay where they are, unless they follow from the labels.
        """
        labels, groups, weights = self.columns.labels.copy(), self.columns.groups, self.columns.weights
        moved = None
        if weights is not None and class_decides(labels[self.mined_rows], weights[self.mined_rows]):
            moved = weights = weights.copy()
        for part, rows in enumerate((self.split.train, self.split.validation)):
            stream = draws.stream(self.settings.seed, number, SHUFFLE + part)
            if groups is not None:
                source = exchange(groups[rows], stream)
            else:
                source = np.argsort(draws.keys(stream, len(rows)), kind="stable")
            labels[rows] = labels[rows][source]
            if moved is not None:
                moved[rows] = moved[rows][source]
        columns = order_sets(replace(self.columns, labels=labels, weights=weights), self.split.train)
        table = self.table.with_labels(columns, self.tree_split, self.settings.class_weight, set_features(columns))
        return replace(self, columns=columns, table=table, design_effect=0.0)

    @property
    def table_columns(self) -> Columns:
        """The columns without the probes."""
        return remove_probes(self.columns)

    @property
    def probe_mask(self) -> npt.NDArray[np.bool_]:
        """(D): True for features that are probes."""
        return probe_mask(self.columns)


def fewest_certifiable_rows(totals: Sequence[int], choices: int) -> int:
    """Return the number of rows from which on a rule without exceptions can be certified.

    `totals` are the rows of each class, `choices` the possible conditions. The probability that so many rows are all
    of one class by chance, times the choices, must be at most 1 %. All of it is in whole numbers.
    """
    rows, fewest = sum(totals), sum(totals)
    for total in sorted(totals):  # a rare class needs few rows, and then the frequent ones need not be tried
        enough = (n for n in range(1, min(total + 1, fewest)) if 100 * choices * comb(total, n) <= comb(rows, n))
        fewest = next(enough, fewest)
    return fewest


def check_classes(classes: Sequence[str], settings: MiningSettings) -> None:
    """Check that findings are asked for of classes that the table has."""
    for name in settings.for_class:
        if name not in classes:
            raise SettingsError(
                f"--for-class {name!r}: this table has no such class; it has {format_names(classes)}.",
                field="settings.for_class",
                remedy="Name classes of the target as the table writes them.",
            )


def split_for(columns: Columns, settings: MiningSettings) -> Split:
    """Split the rows into training, validation and holdout as the settings ask."""
    return make_split(columns, TableSplit.of(settings))


def tree_split(split: Split, layout: TableSplit) -> Split:
    """Return the rows that trees are grown on: all of the split, or a sample if findings are counted on all rows."""
    return sample_tree_rows(split, layout.seed) if layout.recoded else split


def make_split(columns: Columns, split: TableSplit) -> Split:
    """Return the rows of each part of the split."""
    options = split.model_dump(include={"test_size", "seed", "holdout", "stratify"})
    return split_table(columns, **options, holdout_by=split.holdout_by)
