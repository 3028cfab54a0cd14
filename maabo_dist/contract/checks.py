"""The result of `maabo check`: how the rules of a document perform on a new labelled table."""

import json
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from maabo_dist.contract.document import Count, Counts, Record, Sha256, Share
from maabo_dist.contract.rules import ClassName

# Name and version of the format.
CHECK_FORMAT: Final = "maabo-check/1"


class CheckStatus(StrEnum):
    """What a new table says of a rule.

    `holds`: its class is more frequent among the rows that it covers than among all, beyond chance, and its precision
    is not below the documented one, beyond chance. `drifted`: it is still better than chance, but less precise than
    documented. `failed`: its class is no more frequent, although the table has rows enough to tell. `untested`: the
    table has too few rows to tell.
    """

    HOLDS = "holds"
    DRIFTED = "drifted"
    FAILED = "failed"
    UNTESTED = "untested"


class DocumentedPrecision(Record):
    """The evidence for a rule in its document, with which the new table is compared.

    Attributes
    ----------
    rows : 'holdout' or 'mined'
        Held-out rows, if the rule covers any; else training and validation rows.
    n : int
        Rows that the rule covers.
    hits : int
        Of these, the rows of its class.
    precision : float or None
        Share of n that has the rule's class; null if n is 0.
    """

    rows: Literal["holdout", "mined"]
    n: Count
    hits: Count
    precision: Share | None


class RuleCheck(Record):
    """One rule on the new table.

    Attributes
    ----------
    id : str
        The rule's id in its document.
    text : str
        The rule as a human-readable sentence.
    label : str
        The class it predicts.
    status : CheckStatus
        The outcome.
    n : int
        Rows of the new table that the rule covers.
    counts : dict of str to int
        Of these, the rows of each class.
    coverage : float
        Share of all rows that the rule covers.
    base_rate : float
        Share of the rule's class among all rows.
    precision : float or None
        Share of n that has the rule's class; null if n is 0.
    precision_low : float or None
        Lower end of the 95 % Wilson interval of the precision.
    precision_high : float or None
        Upper end of the interval.
    recall : float or None
        Share of the class that the rule covers; null if the class has no rows.
    lift : float or None
        Precision divided by the base rate; null if n is 0 or the class has no rows.
    documented : DocumentedPrecision
        The evidence in the document.
    p : float or None
        One-sided hypergeometric test: the chance of at least as many rows of the class, if the rule did not matter.
    p_adjusted : float or None
        p after Holm's correction for all rules.
    drift_p : float or None
        One-sided Fisher's exact test of the documented against the new precision.
    drift_p_adjusted : float or None
        drift_p after Holm's correction for all rules.
    """

    id: str
    text: str
    label: ClassName
    status: CheckStatus
    n: Count
    counts: Counts
    coverage: Share
    base_rate: Share
    precision: Share | None
    precision_low: Share | None
    precision_high: Share | None
    recall: Share | None
    lift: Annotated[float, Field(strict=True, ge=0)] | None
    documented: DocumentedPrecision
    p: Share | None
    p_adjusted: Share | None
    drift_p: Share | None
    drift_p_adjusted: Share | None

    @property
    def hits(self) -> int:
        """Rows of the new table that the rule covers and that have its class."""
        return self.counts[self.label]


class CheckReport(Record):
    """What `maabo check --json` prints.

    Attributes
    ----------
    format : 'maabo-check/1'
        Name and version of this format.
    version : str
        Version of the program that wrote it.
    digest : str
        Digest of the rules.
    table : str
        Name of the new table.
    target : str
        Its column that holds the classes.
    rows : int
        Rows that were counted.
    unlabelled : int
        Rows without a class, which were left out.
    significance : float
        Level of the corrected tests.
    class_rows : dict of str to int
        Rows of each class.
    statuses : dict of str to int
        Number of rules with each status.
    notes : tuple of str
        Remarks for the reader.
    rules : tuple of RuleCheck
        In the order of the document.
    """

    format: Literal["maabo-check/1"] = CHECK_FORMAT
    version: str
    digest: Sha256
    table: str
    target: str
    rows: Count
    unlabelled: Count
    significance: Share
    class_rows: Counts
    statuses: dict[CheckStatus, Count]
    notes: tuple[str, ...]
    rules: tuple[RuleCheck, ...]

    def having(self, *statuses: CheckStatus) -> list[RuleCheck]:
        """Return the rules with one of these statuses."""
        return [rule for rule in self.rules if rule.status in statuses]

    def to_text(self) -> str:
        """Return the report as JSON text that ends with a line break."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
