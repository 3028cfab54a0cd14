"""Classes as pictures count them: each by itself, or of very many the rarest taken together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_CLASSES = 24
"""Class counts that one picture holds."""


@dataclass(frozen=True, slots=True)
class ClassGroups:
    """Which classes are counted together."""

    group: npt.NDArray[np.int64]
    """(C): where each class is counted."""
    count: int

    @classmethod
    def of(cls, totals: npt.NDArray[np.int64]) -> "ClassGroups":
        """From the training rows of each class: the most frequent stay, in their order; the last group has the rest."""
        classes = len(totals)
        if classes <= MOST_CLASSES:
            return cls(np.arange(classes), classes)
        kept = np.sort(np.argsort(-totals, kind="stable")[: MOST_CLASSES - 1])
        group = np.full(classes, MOST_CLASSES - 1)
        group[kept] = np.arange(len(kept))
        return cls(group, MOST_CLASSES)

    def named(self, classes: Sequence[str]) -> list[str | None]:
        """The class of each group; None is the rest."""
        if self.count == len(classes):
            return list(classes)
        return [*(name for name, group in zip(classes, self.group, strict=True) if group < self.count - 1), None]

    def counts(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """(…, groups): class counts (…, C) by group."""
        member = np.zeros((len(self.group), self.count), np.int64)
        member[np.arange(len(self.group)), self.group] = 1
        result: npt.NDArray[np.int64] = counts.astype(np.int64) @ member
        return result
