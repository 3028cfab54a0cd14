"""`Study`: a table made ready for mining, with the settings and the plan of its search."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.data.columns import Columns, add_probes, probe_mask, remove_probes
from maabo_dist.data.split import Split, split_rows
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import TrainingTable

# The purpose of the draws that shuffle labels; the search and the probes have others.
SHUFFLE = 200


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The inputs that a search and the selection of its rules share."""

    # The table's columns, followed by the probes.
    columns: Columns
    split: Split
    table: TrainingTable
    settings: MiningSettings
    plan: SearchPlan

    @classmethod
    def build(cls, columns: Columns, settings: MiningSettings) -> "Study":
        """Add the probes, split the rows, lay out the training table and settle the plan."""
        columns = add_probes(columns, settings.probes, settings.seed)
        plan = SearchPlan.settle(settings, columns.count)
        split = split_for(columns, settings)
        table = TrainingTable.build(
            columns, split, class_weight=settings.class_weight, min_samples_leaf=settings.min_samples_leaf
        )
        return cls(columns, split, table, settings, plan)

    def with_shuffled_labels(self, number: int) -> "Study":
        """Return the study with the labels of the mined rows in another order, which depends on the seed and `number`.

        Training and validation labels are shuffled separately, so that both keep their classes.
        """
        labels = self.columns.labels.copy()
        for part, rows in enumerate((self.split.train, self.split.validation)):
            keys = draws.keys(draws.stream(self.settings.seed, number, SHUFFLE + part), len(rows))
            labels[rows] = labels[rows][np.argsort(keys, kind="stable")]
        table = self.table.with_labels(labels[self.split.train], labels[self.split.validation])
        return replace(self, columns=replace(self.columns, labels=labels), table=table)

    @property
    def table_columns(self) -> Columns:
        """The columns without the probes."""
        return remove_probes(self.columns)

    @property
    def probe_mask(self) -> npt.NDArray[np.bool_]:
        """(D): True for features that are probes."""
        return probe_mask(self.columns)


def split_for(columns: Columns, settings: MiningSettings) -> Split:
    """Split the rows into training, validation and holdout as the settings ask."""
    return split_rows(
        columns.labels,
        test_size=settings.test_size,
        seed=settings.seed if settings.split_seed is None else settings.split_seed,
        holdout=settings.holdout,
        stratify=settings.stratify,
        classes=columns.classes,
    )
