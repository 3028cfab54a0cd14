"""What a set of rules is like, whoever mined it: precise, large, covering, redundant; and whether it comes back.

A rule is its class and the rows that its conditions hold for. Every rule counts alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.quality.experiment import Record
from bench.quality.paper_tables import TARGET
from bench.quality.stability import GAP
from bench.quality.statistics import mean
from maabo_dist.research.synthetic.scoring import MinedRule
from maabo_dist.research.synthetic.truth import covered
from maabo_dist.settings import MiningSettings

SAME_ROWS = 0.8
"""Jaccard similarity from which two rules are one, as where planted rules are looked for."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules on the rows of a table."""

    masks: np.ndarray
    """(rules, rows): whether the conditions hold."""
    labels: np.ndarray
    """(rules): the name of each rule's class."""
    classes: np.ndarray
    """(rows): the name of each row's."""

    @classmethod
    def on(cls, rules: Sequence[MinedRule], frame: pd.DataFrame) -> "RuleSet":
        masks = np.array([covered(frame, rule.conditions) for rule in rules], bool).reshape(len(rules), len(frame))
        return cls(masks, np.array([rule.label for rule in rules], str), frame[TARGET].to_numpy(str))

    def precisions(self) -> list[float | None]:
        """Of each rule; None where it covers no row."""
        pairs = zip(self.masks, self.labels, strict=True)
        return [float(np.mean(self.classes[mask] == label)) if mask.any() else None for mask, label in pairs]

    def lifts(self) -> list[float | None]:
        """Of each rule its precision over the share of its class; None where it covers no row."""
        shares = [float(np.mean(self.classes == label)) for label in self.labels]
        pairs = zip(self.precisions(), shares, strict=True)
        return [None if precision is None else precision / share for precision, share in pairs]

    def coverage(self) -> float:
        """The share of rows that any rule covers."""
        return float(np.mean(self.masks.any(axis=0)))

    def likeness(self, other: "RuleSet") -> np.ndarray:
        """(rules, the other's rules): Jaccard similarity of the rows they cover; NaN between classes."""
        both = self.masks.astype(np.float32) @ other.masks.T.astype(np.float32)
        either = self.masks.sum(axis=1)[:, None] + other.masks.sum(axis=1) - both
        found = np.divide(both, either, out=np.ones_like(both), where=either > 0)
        return np.where(self.labels[:, None] == other.labels, found, np.nan)

    def reliable(self) -> int:
        """How many have the rows and the purity that the paper asks of a rule, each class weighing the same."""
        wanted, (names, sizes) = MiningSettings(preset="paper"), np.unique(self.classes, return_counts=True)
        impurest = wanted.gini * (1 - 1 / len(names))
        large = [mask for mask in self.masks if mask.sum() >= wanted.min_samples]
        return sum(_gini(self.classes[mask], names, sizes) <= impurest for mask in large)

    def returning(self, before: "RuleSet") -> float | None:
        """The share of rules that another draw had too: a rule for the same class on nearly the same rows."""
        if not len(self.masks):
            return None
        return float(np.mean((self.likeness(before) >= SAME_ROWS).any(axis=1)))


def figures(rules: Sequence[MinedRule], train: pd.DataFrame, held: pd.DataFrame) -> Record:
    """All that is said of a set of rules by itself."""
    trained, unseen = RuleSet.on(rules, train), RuleSet.on(rules, held)
    overlaps = trained.likeness(trained)
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
    places = {name: place for place, name in enumerate(frame.columns)}
    used = {tuple(sorted({places[each.feature] for each in rule.conditions})) for rule in rules}
    return ["+".join(map(str, features)) for features in sorted(used)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known).value if known else None


def _gini(covered_classes: np.ndarray, names: np.ndarray, sizes: np.ndarray) -> float:
    shares = np.array([np.count_nonzero(covered_classes == name) for name in names]) / sizes
    shares /= shares.sum()
    return float(1 - shares @ shares)
