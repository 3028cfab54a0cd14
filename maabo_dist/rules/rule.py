"""`Rule`: conditions on features, a class, and the evidence for it. Reports turn it into text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from maabo_dist.contract.conditions import Condition, ConditionTest
from maabo_dist.contract.rules import (
    CertificateRecord,
    DisplacedRecord,
    HoldoutRecord,
    SourceRecord,
    StandInRecord,
    SupportRecord,
    Verdict,
)
from maabo_dist.contract.wording import class_text, statement_text

# The smallest unit of logic: a feature index, and True if its value is large (above a threshold).
Literal = tuple[int, bool]
# Fills the end of a row of literal codes (2 · feature + large); sorts behind every literal.
NO_LITERAL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """A published rule.

    Attributes
    ----------
    id : str
        R1, R2, … in the order of selection.
    conditions : tuple of Condition
        The conditions that a row must satisfy, in the order of the features.
    label : int
        Index of the class it predicts: the one of greatest weight among its training rows.
    n : int
        Training rows that it covers.
    counts : tuple of int
        Training rows of each class.
    gini : float
        Weighted Gini index of the training rows.
    logic : tuple of (int, bool)
        The logic set, ascending: for each condition the feature, and True if its value is large.
    bounds : tuple of float
        The threshold of each element of `logic`.
    train, validation : SupportRecord
        Its performance on the training and validation rows.
    holdout : HoldoutRecord or None
        Its performance on the held-out rows; None if there are none.
    unique : int
        Training rows that no other published rule covers.
    most_similar : str or None
        Id of the published rule most similar to it.
    most_similar_by : float
        The similarity of that rule.
    source : SourceRecord
        The tree that it was read from.
    displaced : tuple of DisplacedRecord
        The purest of the leaves that it displaced.
    displaced_total : int
        Number of distinct leaves that it displaced.
    dropped : tuple of Condition
        Conditions of its leaf that the rows did not support.
    tests : tuple of ConditionTest
        P-values of `conditions`; empty if conditions stay without support, as in the paper.
    dropped_tests : tuple of ConditionTest
        P-values of `dropped`, each as one more condition.
    verdict : Verdict
        The result of testing it on the held-out rows.
    certificate : CertificateRecord or None
        Its p-value, adjusted for the whole search; None if it was not certified, as in the paper.
    stand_ins : tuple of StandInRecord
        Columns that stand in for columns of this rule in others on nearly the same rows.

    Examples
    --------
    >>> from maabo_dist import MiningSettings, mine
    >>> from maabo_dist.data.bundled import load_bundled
    >>> from maabo_dist.data.preparation import prepare
    >>> result = mine(prepare(*load_bundled("wine")).columns, MiningSettings(trees=50, min_samples=20))
    >>> rule = result.rules[0]
    >>> rule.id, result.classes[rule.label], rule.train.n, round(rule.train.precision, 2)
    ('R1', 'class_1', 40, 1.0)
    """

    id: str
    conditions: tuple[Condition, ...]
    label: int
    n: int
    counts: tuple[int, ...]
    gini: float
    logic: tuple[Literal, ...]
    bounds: tuple[float, ...]
    # Their counts are dictionaries, which have no hash.
    train: SupportRecord = field(hash=False)
    validation: SupportRecord = field(hash=False)
    holdout: HoldoutRecord | None = field(hash=False)
    unique: int
    most_similar: str | None
    most_similar_by: float
    source: SourceRecord
    displaced: tuple[DisplacedRecord, ...]
    displaced_total: int
    dropped: tuple[Condition, ...] = ()
    tests: tuple[ConditionTest, ...] = ()
    dropped_tests: tuple[ConditionTest, ...] = ()
    verdict: Verdict = Verdict.NOT_TESTED
    certificate: CertificateRecord | None = None
    stand_ins: tuple[StandInRecord, ...] = ()


def rule_text(rule: Rule, classes: Sequence[str], target: str) -> str:
    """The rule as a sentence: `IF sex = female AND fare > 48.2 THEN survived = 1`."""
    return statement_text(rule.conditions, class_text(classes[rule.label], classes, target))
