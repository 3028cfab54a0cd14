"""The selection of rules in a result document: how many leaves passed each filter, and what was tested."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from maabo_dist.contract.document import Count, Record, SettingValue, Share, is_false
from maabo_dist.contract.rules import ClassName


class FunnelCounts(Record):
    """The number of leaves that passed each filter.

    Attributes
    ----------
    leaves : int
        Leaves of all trees.
    large : int
        Of these, those with at least `min_samples` training rows (β).
    pure : int
        Of these, those with a low enough Gini index (γ).
    distinct : int
        Of these, distinct sets of conditions.
    supported : int
        Of these, those still distinct and reliable without the conditions that the rows do not support.
    certified : int or None
        Of these, those that chance does not explain, given everything that the search tried, with a margin; null with
        `--preset paper`.
    rules : int
        Of these, dissimilar ones (δ) without a probe: the rules.
    """

    leaves: Count
    large: Count
    pure: Count
    distinct: Count
    supported: Count
    certified: Count | None
    rules: Count


class CertificateInfo(Record):
    """How rules were certified.

    Attributes
    ----------
    level : float
        Largest adjusted p-value of a certified rule.
    shuffles : int
        Searches on shuffled labels; 0 where the bound on the number of possible rules was enough or had to be.
    planned : int
        Searches that were planned. With `--certify auto` they end as soon as they can certify no further rule.
    seconds : float
        Time that they took on one core.
    stopped : bool
        True if they were stopped, for example by Ctrl-C; then none counts.
    approximate_bound : bool
        True if rows come in groups or have sampling weights: then the bound is an approximation, which is used only
        where no searches were run. Left out otherwise.
    """

    level: Share
    shuffles: Count
    planned: Count
    seconds: Annotated[float, Field(strict=True, ge=0)]
    stopped: bool
    approximate_bound: bool = Field(False, exclude_if=is_false)


class DroppingInfo(Record):
    """Counts of dropped conditions and leaves; null where all conditions are kept (`--literals paper`).

    Attributes
    ----------
    conditions : int
        Conditions dropped from leaves that are reliable without them.
    leaves : int
        Leaves dropped because they are not.
    """

    conditions: Count
    leaves: Count


class NoiseInfo(Record):
    """An estimate of how many rules are due to chance, from permuted copies of columns that took part in the search.

    It is conservative: every feature counts as one that may be irrelevant.

    Attributes
    ----------
    probes : int
        Permuted copies of columns.
    rules : int
        Rules there would be if those that use a probe were published.
    with_probe : int
        Of these, the rules that use one.
    share : float or None
        Estimated share of the published rules that use an irrelevant feature; null without rules.
    low : float or None
        Lower end of its 95 % interval.
    high : float or None
        Upper end of the interval.
    """

    probes: Count
    rules: Count
    with_probe: Count
    share: Share | None
    low: Share | None
    high: Share | None


class NearestRecord(Record):
    """The rule of a class that came nearest to being published, where none was.

    Attributes
    ----------
    text : str
        The rule as a sentence, for people only.
    n : int
        Mined rows that it covers.
    precision : float
        Share of these that has the class.
    base_rate : float
        Share of the class among all mined rows.
    p : float
        Its adjusted p-value.
    lacks_margin : bool
        True if this p-value is low enough, but not by the margin that makes it likely to hold on other rows.
    shown_by : dict of str to bool, int or float
        Settings with which this run publishes the rule. They were tried; empty where none of those tried does.
    rows_needed : int or None
        Rows of a table from which on it would be published if it holds at the same rate, an estimate; null where
        evidence is not what it lacks, or no number of rows up to ten million would do.
    """

    text: str
    n: Count
    precision: Share
    base_rate: Share
    p: Share
    lacks_margin: bool
    shown_by: dict[str, SettingValue]
    rows_needed: Count | None


class MissingReason(StrEnum):
    """Why a class has no finding.

    `rare`: it has so few rows that no rule about it could be certified. `unsupported`: the rows support no condition.
    `uncertified`: no supported rule has enough evidence. `excluded`: options exclude all certified rules. `not chosen`:
    the number of findings is limited, or the certified rules are hardly more precise than the base rate.
    """

    RARE = "rare"
    UNSUPPORTED = "unsupported"
    UNCERTIFIED = "uncertified"
    EXCLUDED = "excluded"
    NOT_CHOSEN = "not chosen"


class MissingClassRecord(Record):
    """A class without a finding.

    Attributes
    ----------
    label : str
        The class.
    rows : int
        Its mined rows.
    reason : MissingReason
        Why it has none (see `MissingReason`).
    supported : int
        Supported rules about it.
    certified : int
        Of these, certified ones.
    nearest : NearestRecord or None
        The rule that came nearest; null where there is none.
    text : str
        All of this in a few sentences, for people only.
    """

    label: ClassName
    rows: Count
    reason: MissingReason
    supported: Count
    certified: Count
    nearest: NearestRecord | None
    text: str
