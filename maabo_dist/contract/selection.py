"""The selection of rules in a result document: how many leaves passed each filter, and what was tested."""

from typing import Annotated

from pydantic import Field

from maabo_dist.contract.document import Count, Record, Share
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
        Greatest adjusted p-value of a certified rule.
    shuffles : int
        Searches on shuffled labels; 0 where the bound on the number of possible rules was enough or had to be.
    planned : int
        Searches that were planned. With `--certify auto` they end as soon as they can certify no further rule.
    seconds : float
        Time that they took on one core.
    stopped : bool
        True if they were stopped, for example by Ctrl-C; then none counts.
    """

    level: Share
    shuffles: Count
    planned: Count
    seconds: Annotated[float, Field(strict=True, ge=0)]
    stopped: bool


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
    """The rule that came nearest to being published, where none was.

    Attributes
    ----------
    text : str
        The rule as a sentence, for people only.
    label : str
        The class it predicts.
    n : int
        Mined rows that it covers.
    precision : float
        Share of these that has the class.
    p : float
        Its adjusted p-value.
    rows_needed : int
        Rows of a table from which on a rule of this kind would be published.
    """

    text: str
    label: ClassName
    n: Count
    precision: Share
    p: Share
    rows_needed: Count
