"""An estimate, by probes, of how many published rules are due to chance.

Published rules use no probe. For the estimate, the selection is run once more with the leaves that use probes among the
others. A probe is unrelated to the class, as a useless feature is, so each is as likely to get into a rule. Of P probes
and D features, D₀ of them useless, a useless one is then a probe with probability π = P / (P + D₀). A rule that holds m
useless ones has no probe among them, and can be published, with probability (1 − π)^m; it has exactly one with
probability m π (1 − π)^(m−1). Hence, with r₁ and r₂ for the rules with exactly one and two probes and ρ = D₀ / P,

    ρ r₁ − ρ² r₂  ≤  published rules with a useless feature  ≤  ρ r₁        in expectation.

The estimate takes the upper end, and all D features as useless: it is conservative. To count rules with two probes as
well would make it more so.

The interval is for the count itself, not for its mean: "N of these rules are due to chance". Of rules with one
useless feature, each has drawn a probe with probability π or a feature of the table with 1 − π, so that one count given
both together is binomial; the limits are the greatest and the least count that this distribution does not rule out at
2.5 % each: Nelson's prediction limits for two Poisson counts, by the beta function, as r₁ − ρ r₂ need not be whole. The
upper limit takes all features as useless, the lower one those that no published rule uses: if a table's few features
are all in rules, all of them may be useful.
"""

from collections.abc import Callable
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.selection import NoiseInfo
from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.rule import NO_LITERAL

TAIL = 0.025


def leaves_without_probes(leaves: Leaves, probes: npt.NDArray[np.bool_]) -> Leaves:
    """Return the leaves that use no probe, in their order. `probes` is True for features that are."""
    return leaves.take(np.flatnonzero(probes_used(leaves, probes) == 0)) if probes.any() else leaves


def probes_used(leaves: Leaves, probes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """(leaves): the number of different probes each uses. Literals ascend, so those on one feature are adjacent."""
    features = leaves.logic >> 1
    first = np.ones(features.shape, np.bool_)
    first[:, 1:] = features[:, 1:] != features[:, :-1]
    real = leaves.logic != NO_LITERAL
    used: npt.NDArray[np.int64] = (probes[np.where(real, features, 0)] & real & first).sum(axis=1)
    return used


def estimate_noise(selected: Leaves, published: Leaves, probes: npt.NDArray[np.bool_]) -> NoiseInfo:
    """Estimate from the leaves selected when those with probes take part, and from the leaves published."""
    used = probes_used(selected, probes)
    with_probe, count = int((used > 0).sum()), int(probes.sum())
    if not len(published):
        return NoiseInfo(probes=count, rules=len(selected), with_probe=with_probe, share=None, low=None, high=None)
    ones, twos = int((used == 1).sum()), int((used == 2).sum())
    features = len(probes) - count
    features_used = len(np.unique(published.logic[published.logic != NO_LITERAL] >> 1))
    ratio, unused = features / count, (features - features_used) / count
    numbers = (
        ones * ratio,
        smallest_plausible_count(max(0.0, ones - unused * twos), unused),
        largest_plausible_count(ones, ratio),
    )
    share, low, high = (min(1.0, number / len(published)) for number in numbers)
    return NoiseInfo(probes=count, rules=len(selected), with_probe=with_probe, share=share, low=low, high=high)


def largest_plausible_count(observed: float, ratio: float) -> int:
    """The largest Poisson count that is plausible given `seen`, a count whose mean is `ratio` times smaller."""
    from scipy.special import betainc  # noqa: PLC0415 - 0.2 s, only probes need it

    return (
        floor(_crossing(lambda count: TAIL - float(betainc(count, observed + 1, ratio / (1 + ratio))))) if ratio else 0
    )


def smallest_plausible_count(observed: float, ratio: float) -> int:
    """The smallest such count."""
    from scipy.special import betainc  # noqa: PLC0415 - 0.2 s, only probes need it

    if not observed or not ratio:
        return 0
    return ceil(_crossing(lambda count: float(betainc(observed, count + 1, 1 / (1 + ratio))) - TAIL))


def _crossing(excess: Callable[[float], float]) -> float:
    """The argument at which a rising function becomes positive; 0 if it is positive at 0."""
    if excess(0.0) > 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) <= 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low
