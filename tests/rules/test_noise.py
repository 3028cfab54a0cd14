"""The noise estimate from probes, and the coverage of its interval."""

import numpy as np
import pytest
from scipy.stats import binom

from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.noise import (
    TAIL,
    estimate_noise,
    largest_plausible_count,
    leaves_without_probes,
    probes_used,
    smallest_plausible_count,
)
from maabo_dist.rules.rule import NO_LITERAL

PROBES = np.array([False] * 6 + [True] * 4)


def leaves_on(*logic):
    """Return one leaf for each list of literals."""
    rows = np.full((len(logic), 4), NO_LITERAL, np.int32)
    for row, literals in zip(rows, logic, strict=True):
        row[: len(literals)] = literals
    count = len(rows)
    counts, zeros = np.ones((count, 2), np.int32), np.zeros(count)
    return Leaves(rows, np.zeros(rows.shape), counts, zeros, np.arange(count), zeros, count, count)


def test_two_bounds_on_one_probe_count_once():
    leaves = leaves_on([0, 3], [0, 12, 13], [1, 12, 14], [12, 13, 14, 19], [])

    assert probes_used(leaves, PROBES).tolist() == [0, 1, 2, 3, 0]
    assert leaves_without_probes(leaves, PROBES).tree.tolist() == [0, 4]


def test_without_probes_all_leaves_are_returned():
    leaves = leaves_on([0], [19])

    assert leaves_without_probes(leaves, np.zeros(10, np.bool_)) is leaves


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("observed", [0, 1, 2, 5, 17, 60])
def test_the_limits_are_the_extreme_counts_that_the_binomial_does_not_rule_out(observed, ratio):
    counts = np.arange(int(10 + 6 * ratio * (observed + 10)))
    share = 1 / (1 + ratio)
    possible = binom.cdf(observed, observed + counts, share) > TAIL
    possible &= binom.sf(observed - 1, observed + counts, share) > TAIL

    assert largest_plausible_count(observed, ratio) == counts[possible].max()
    assert smallest_plausible_count(observed, ratio) == counts[possible].min()


def test_the_estimate_scales_the_rules_with_one_probe_to_the_features_of_the_table():
    everything = leaves_on([0, 3], [0, 12], [1, 12, 14], [2, 5], [0, 5], [9], [10])

    noise = estimate_noise(everything, leaves_on([0, 3], [2, 5], [0, 5], [9], [10]), PROBES)

    assert (noise.probes, noise.rules, noise.with_probe) == (4, 7, 2)
    assert noise.share == pytest.approx(1 * 6 / 4 / 5)
    assert noise.low == 0 <= noise.share <= noise.high <= 1


def test_the_share_is_none_if_no_rule_is_published():
    noise = estimate_noise(leaves_on([12]), leaves_on(), PROBES)

    assert (noise.rules, noise.with_probe, noise.share, noise.low, noise.high) == (1, 1, None, None, None)


def test_features_that_are_all_in_rules_may_all_be_useful():
    published = leaves_on([0, 2], [4, 6], [8, 10])
    chance = leaves_on(*([literal] for literal in range(12, 20)), [0, 12], [0, 14], [0, 16], [0, 18])

    assert estimate_noise(chance, published, PROBES).low == 0


@pytest.mark.parametrize(("probes", "features"), [(50, 50), (20, 200), (200, 40)])
@pytest.mark.parametrize("mean", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("irrelevant", [1, 2, 3])
def test_the_interval_contains_the_number_of_chance_rules(probes, features, mean, irrelevant):
    """Each rule uses this many irrelevant features."""
    rng = np.random.default_rng(probes)
    mask = np.arange(features + probes) >= features
    covered = runs = 0
    for _ in range(200):
        chance = [np.sort(rng.choice(len(mask), irrelevant, replace=False)) for _ in range(rng.poisson(mean))]
        real = [row for row in chance if not mask[row].any()]
        if real:
            noise = estimate_noise(leaves_on(*(2 * row for row in chance)), leaves_on(*(2 * row for row in real)), mask)
            runs, covered = runs + 1, covered + (noise.low <= 1.0 <= noise.high)

    # All of these published rules are chance.
    assert covered >= 0.95 * runs - 2
