"""Rules in a result document: records of plain values, which load neither NumPy nor the numba kernels."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from maabo_dist.contract.conditions import ConditionRecord, Statement
from maabo_dist.contract.document import Count, Counts, Record, Share

# A part of the table's rows.
Part = Literal["train", "validation", "holdout"]


ClassName = Annotated[str, Field(validation_alias="class", serialization_alias="class")]


class SupportRecord(Record):
    """The performance of a rule on one part of the rows.

    Attributes
    ----------
    rows : int
        Rows of the part.
    n : int
        Rows that the rule covers.
    counts : dict of str to int
        Of these, the rows of each class.
    precision : float or None
        Share of n that has the rule's class; null if n is 0.
    recall : float or None
        Share of the class that the rule covers; null if the class has no rows.
    lift : float or None
        Precision divided by the share of the class among the rows of the part.
    """

    rows: Count
    n: Count
    counts: Counts
    precision: Share | None
    recall: Share | None
    lift: Annotated[float, Field(strict=True, ge=0)] | None


class HoldoutRecord(SupportRecord):
    """The performance of a rule on rows that the search never saw.

    Attributes
    ----------
    precision_low : float or None
        Lower end of the 95 % Wilson interval of the precision.
    precision_high : float or None
        Upper end of the interval.
    p : float or None
        Fisher's exact test, one-sided.
    q : float or None
        p after the Benjamini–Hochberg correction over all rules of the document.
    """

    precision_low: Share | None
    precision_high: Share | None
    p: Share | None
    q: Share | None


class SimilarRule(Record):
    """The rule of the document that is most similar to another one.

    Attributes
    ----------
    rule : str
        Its id.
    similarity : float or None
        Simpson coefficient of the two.
    """

    rule: str
    similarity: Share | None


class SourceRecord(Record):
    """The tree that a rule was read from.

    Attributes
    ----------
    tree : int
        Number of the tree in the order of proposal, from 0.
    subset : tuple of str
        Names of its features.
    depth : int
        Its depth.
    score : float or None
        Macro F1 on the validation rows.
    """

    tree: Count
    subset: tuple[str, ...]
    depth: Annotated[int, Field(strict=True, ge=1)]
    score: Share | None


class DisplacedRecord(Statement, Record):
    """A reliable leaf that a rule made redundant.

    Attributes
    ----------
    text : str
        Its conditions, human-readable.
    conditions : tuple of ConditionRecord
        Its conditions.
    label : str
        The class it predicts.
    n : int
        Training rows that it covers.
    gini : float
        Weighted Gini index of these rows.
    similarity : float or None
        Similarity to the rule.
    """

    text: str
    conditions: tuple[ConditionRecord, ...]
    label: ClassName
    n: Count
    gini: Share
    similarity: Share | None


class StabilityRecord(Record):
    """The share of repeats, on other draws of the rows, that find a rule again: the same class on about the same rows.

    Its conditions may differ. null without `--repeats`.

    Attributes
    ----------
    share : float or None
        Share of the repeats that found it; null where no repeat was done.
    returns : int
        Repeats that found it.
    repeats : int
        Repeats that were done.
    precision : float or None
        On rows that a repeat did not search, over all repeats that found the rule, each with its own conditions.
    """

    share: Share | None
    returns: Count
    repeats: Count
    precision: Share | None


class CertificateRecord(Record):
    """How likely it is that chance gives any rule of the search as much evidence.

    Attributes
    ----------
    p : float
        P-value of the rule, adjusted for everything that the search did.
    method : 'bound' or 'shuffles'
        By a bound on the number of possible rules, or by searches on shuffled labels.
    tentative : bool
        True if the rule is certified, but has so little evidence to spare that a smaller sample may not confirm it.
    """

    p: Share
    method: Literal["bound", "shuffles"]
    tentative: bool = False


class StandInRecord(Record):
    """A column that another rule on nearly the same rows has in place of a column of the finding.

    Attributes
    ----------
    column : str
        The column.
    instead_of : str
        The finding's column.
    correlation : float
        Rank correlation of the two.
    """

    column: str
    instead_of: str
    correlation: Annotated[float, Field(strict=True, ge=-1, le=1)]


class Verdict(StrEnum):
    """The result of testing a rule on rows that the search never saw.

    `held up`: its class is more frequent among the rows that it covers than among all, beyond chance. `weaker than in
    training`: more frequent, but less so than among the mined rows. `failed`: no more frequent. `not tested`: it covers
    no row that was held out, or too few to tell.
    """

    HELD_UP = "held up"
    WEAKER = "weaker than in training"
    FAILED = "failed"
    NOT_TESTED = "not tested"


class RuleRecord(Statement, Record):
    """One rule with its evidence.

    Attributes
    ----------
    id : str
        R1, R2, … in the order of selection.
    text : str
        The rule as a human-readable sentence with rounded numbers.
    conditions : tuple of ConditionRecord
        All of them must hold.
    label : str
        The class it predicts.
    n : int
        Training rows that it covers.
    counts : dict of str to int
        Of these, the rows of each class.
    gini : float
        Weighted Gini index of these rows.
    train : SupportRecord
        On the training rows.
    validation : SupportRecord
        On the validation rows.
    holdout : HoldoutRecord or None
        On the held-out rows; null without `--holdout`.
    unique : int
        Training rows that no other rule covers.
    most_similar : SimilarRule or None
        The rule of this document most similar to it; null if it is the only one.
    source : SourceRecord
        The tree it was read from.
    displaced : tuple of DisplacedRecord
        The best of the reliable leaves that this rule made redundant.
    displaced_total : int
        How many of these there were.
    dropped : tuple of ConditionRecord
        Conditions of the rule's leaf that were dropped because the rows do not support them.
    stability : StabilityRecord or None
        How often it is found again; null without `--repeats`.
    verdict : Verdict
        The result of testing it on the held-out rows.
    certificate : CertificateRecord or None
        Its p-value, adjusted for the whole search; null with `--preset paper`.
    stand_ins : tuple of StandInRecord
        Columns that stand in for columns of this rule in others on nearly the same rows.
    """

    id: Annotated[str, Field(pattern=r"^R[1-9][0-9]*$")]
    text: str
    conditions: tuple[ConditionRecord, ...]
    label: ClassName
    n: Count
    counts: Counts
    gini: Share
    train: SupportRecord
    validation: SupportRecord
    holdout: HoldoutRecord | None
    unique: Count
    most_similar: SimilarRule | None
    source: SourceRecord
    displaced: tuple[DisplacedRecord, ...]
    displaced_total: Count
    dropped: tuple[ConditionRecord, ...]
    stability: StabilityRecord | None
    verdict: Verdict
    certificate: CertificateRecord | None
    stand_ins: tuple[StandInRecord, ...]

    @property
    def supports(self) -> dict[Part, SupportRecord]:
        """The parts of the rows on which the rule was evaluated."""
        tested: dict[Part, SupportRecord] = {} if self.holdout is None else {"holdout": self.holdout}
        return {"train": self.train, "validation": self.validation, **tested}

    @property
    def mined_n(self) -> int:
        """Training and validation rows that the rule covers."""
        return self.train.n + self.validation.n

    @property
    def mined_precision(self) -> float | None:
        """Share of these rows that has the rule's class; None if there are none."""
        hits = self.train.counts[self.label] + self.validation.counts[self.label]
        return hits / self.mined_n if self.mined_n else None

    @property
    def best_evidence(self) -> SupportRecord:
        """The support on held-out rows, or on validation rows where none were held out."""
        return self.holdout or self.validation


class ConsensusRecord(Statement, Record):
    """A rule that most repeats found.

    Attributes
    ----------
    rule : str or None
        Its id in `rules`; null where this run did not publish it.
    text : str
        The rule as a human-readable sentence.
    conditions : tuple of ConditionRecord
        Those of the rule in `rules`; where it is not there, those of the most typical rule of the repeats.
    label : str
        The class it predicts.
    rows : int
        Rows of the table that it covers.
    stability : StabilityRecord
        How often it is found again.
    """

    rule: str | None
    text: str
    conditions: tuple[ConditionRecord, ...]
    label: ClassName
    rows: Count
    stability: StabilityRecord


class RepeatsRecord(Record):
    """Further runs on the same table, each on another half of the rows that the search may see.

    Attributes
    ----------
    asked : int
        Repeats that were requested.
    done : int
        Repeats that were done.
    seeds : tuple of int
        Split seeds of these.
    rows : int or None
        Rows that each of them searched, training and validation; null where none was done.
    same_rows : float
        A rule comes back where a repeat has one of its class that shares at least this part of all rows that either
        covers (the Jaccard coefficient, on the whole table).
    threshold : float
        Rules found in at least this share of the repeats are consensus rules.
    consensus : tuple of ConsensusRecord
        Consensus rules, including those not in `rules`: fewest conditions first, then most rows.
    """

    asked: Count
    done: Count
    seeds: tuple[Count, ...]
    rows: Count | None
    same_rows: Share
    threshold: Share
    consensus: tuple[ConsensusRecord, ...]
