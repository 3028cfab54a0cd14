"""Measures of a set of rules from any method: precision, size, coverage, redundancy, and stability between draws.

A rule is its class and the rows that satisfy its conditions. Every rule has the same weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.quality.estimates import mean
from bench.quality.experiment import Record
from bench.quality.paper_tables import TARGET
from bench.quality.stability import GAP
from maabo_dist.research.synthetic.generation import match_frame
from maabo_dist.research.synthetic.scoring import MinedRule
from maabo_dist.settings import MiningSettings

SAME_ROWS = 0.8
"""Jaccard similarity from which two rules are the same, as in the score of planted rules."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules on the rows of a table."""

    masks: np.ndarray
    """(rules, rows): True where the conditions hold."""
    labels: np.ndarray
    """(rules): the name of each rule's class."""
    classes: np.ndarray
    """(rows): the name of each row's class."""

    @classmethod
    def on(cls, rules: Sequence[MinedRule], frame: pd.DataFrame) -> "RuleSet":
        masks = np.array([match_frame(frame, rule.conditions) for rule in rules], bool).reshape(len(rules), len(frame))
        return cls(masks, np.array([rule.label for rule in rules], str), frame[TARGET].to_numpy(str))

    def precisions(self) -> list[float | None]:
        """The precision of each rule; None if it covers no row."""
        pairs = zip(self.masks, self.labels, strict=True)
        return [float(np.mean(self.classes[mask] == label)) if mask.any() else None for mask, label in pairs]

    def lifts(self) -> list[float | None]:
        """The precision of each rule over the share of its class; None if it covers no row."""
        shares = [float(np.mean(self.classes == label)) for label in self.labels]
        pairs = zip(self.precisions(), shares, strict=True)
        return [None if precision is None else precision / share for precision, share in pairs]

    def coverage(self) -> float:
        """The share of rows that any rule covers."""
        return float(np.mean(self.masks.any(axis=0)))

    def similarity(self, other: "RuleSet") -> np.ndarray:
        """(rules, the other's rules): Jaccard similarity of the rows they cover; NaN between classes."""
        both = self.masks.astype(np.float32) @ other.masks.T.astype(np.float32)
        either = self.masks.sum(axis=1)[:, None] + other.masks.sum(axis=1) - both
        jaccard = np.divide(both, either, out=np.ones_like(both), where=either > 0)
        return np.where(self.labels[:, None] == other.labels, jaccard, np.nan)

    def reliable(self) -> int:
        """The number of rules with the rows and the purity that the paper requires, with equal class weights."""
        settings, (names, sizes) = MiningSettings(preset="paper"), np.unique(self.classes, return_counts=True)
        max_gini = settings.gini * (1 - 1 / len(names))
        large = [mask for mask in self.masks if mask.sum() >= settings.min_samples]
        return sum(_gini(self.classes[mask], names, sizes) <= max_gini for mask in large)

    def returning(self, before: "RuleSet") -> float | None:
        """The share of rules that another draw has too: a rule for the same class on nearly the same rows."""
        if not len(self.masks):
            return None
        return float(np.mean((self.similarity(before) >= SAME_ROWS).any(axis=1)))


def figures(rules: Sequence[MinedRule], train: pd.DataFrame, holdout: pd.DataFrame) -> Record:
    """All measures of a single set of rules."""
    trained, unseen = RuleSet.on(rules, train), RuleSet.on(rules, holdout)
    overlaps = trained.similarity(trained)
    np.fill_diagonal(overlaps, np.nan)
    paired = overlaps[~np.isnan(overlaps).all(axis=1)]
    return {
        "rules": len(rules),
        "reliable": trained.reliable(),
        "width": _mean([len({each.feature for each in rule.conditions}) for rule in rules]),
        "rows": _mean([int(mask.sum()) for mask in trained.masks]),
        "train_precision": _mean(trained.precisions()),
        "held_precision": _mean(unseen.precisions()),
        "held_lift": _mean(unseen.lifts()),
        "empty_held": sum(not mask.any() for mask in unseen.masks),
        "train_coverage": trained.coverage(),
        "held_coverage": unseen.coverage(),
        "overlap": float(np.nanmean(paired)) if len(paired) else None,
        "nearest": float(np.nanmax(paired, axis=1).mean()) if len(paired) else None,
        "features": GAP.join(feature_sets(rules, train)),
    }


def feature_sets(rules: Sequence[MinedRule], frame: pd.DataFrame) -> list[str]:
    """The distinct sets of features that rules use, by the numbers of their columns."""
    indices = {name: index for index, name in enumerate(frame.columns)}
    used = {tuple(sorted({indices[each.feature] for each in rule.conditions})) for rule in rules}
    return ["+".join(map(str, features)) for features in sorted(used)]


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return mean(present).value if present else None


def _gini(covered_classes: np.ndarray, names: np.ndarray, sizes: np.ndarray) -> float:
    shares = np.array([np.count_nonzero(covered_classes == name) for name in names]) / sizes
    shares /= shares.sum()
    return float(1 - shares @ shares)
