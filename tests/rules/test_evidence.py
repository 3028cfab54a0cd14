"""What the rows say of a rule, against the literature, scipy and counting by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest, false_discovery_control, fisher_exact

from maabo_dist.rules.rule import Support
from maabo_dist.rules.statistics import benjamini_hochberg, fisher, held_out, support, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, table I, method 3: the score interval.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_that_of_the_literature(hits, n, low, high):
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_the_interval_is_that_of_scipy():
    for n in (1, 2, 7, 50, 1000):
        for hits in {0, 1, n // 3, n // 2, n - 1, n}:
            expected = binomtest(hits, n).proportion_ci(method="wilson")

            assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_interval_stays_within_zero_and_one_and_holds_the_share():
    for n in range(1, 60):
        for hits in range(n + 1):
            low, high = wilson(hits, n)

            assert 0 <= low <= hits / n + 1e-15
            assert hits / n - 1e-15 <= high <= 1


def test_no_rows_have_no_interval():
    assert wilson(0, 0) == (None, None)


def a_support(rows, n, hits):
    return Support(rows, n, (n - hits, hits), hits / n if n else None, None, None)


def test_p_is_that_of_the_one_sided_fisher_test_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = int(rng.integers(2, 80))
        of_class, n = int(rng.integers(0, rows + 1)), int(rng.integers(0, rows + 1))
        hits = int(rng.integers(max(0, n + of_class - rows), min(n, of_class) + 1))
        table = [[hits, n - hits], [of_class - hits, rows - n - (of_class - hits)]]

        p = fisher(a_support(rows, n, hits), 1, of_class)

        assert p == pytest.approx(fisher_exact(table, alternative="greater").pvalue, rel=1e-9)


def test_the_lady_tasting_tea():
    assert fisher(a_support(8, 4, 4), 1, 4) == pytest.approx(1 / 70)
    assert fisher(a_support(8, 4, 3), 1, 4) == pytest.approx(17 / 70)


def test_a_rule_that_covers_nothing_proves_nothing():
    assert fisher(a_support(20, 0, 0), 1, 7) == 1


def test_q_is_that_of_scipy():
    rng = np.random.default_rng(1)
    for count in (1, 2, 5, 40):
        for _ in range(20):
            p_values = (rng.random(count) ** 3).round(int(rng.integers(1, 6)))  # with ties, zeros and ones

            assert benjamini_hochberg(p_values) == pytest.approx(false_discovery_control(p_values).tolist(), abs=1e-15)


def test_q_of_the_example_of_benjamini_and_hochberg():
    # Their 15 p-values; at q ≤ 0.05 exactly the first four are called.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
                0.7590, 1.0]  # fmt: skip

    q_values = benjamini_hochberg(p_values)

    assert [q <= 0.05 for q in q_values] == [True] * 4 + [False] * 11


def test_no_p_values_have_no_q_values():
    assert benjamini_hochberg([]) == []


def test_support_is_what_counting_by_hand_gives():
    rng = np.random.default_rng(2)
    for _ in range(100):
        rows, classes = int(rng.integers(1, 30)), int(rng.integers(2, 5))
        labels = rng.integers(0, classes, rows).astype(np.int32)
        covered = rng.random(rows) < rng.choice([0.0, 0.1, 0.6, 1.0])
        label = int(rng.integers(0, classes))

        found = support(covered, labels, label, classes)

        inside = [int(y) for y, is_in in zip(labels, covered, strict=True) if is_in]
        of_class = labels.tolist().count(label)
        assert (found.rows, found.n) == (rows, len(inside))
        assert found.counts == tuple(inside.count(c) for c in range(classes))
        precision = inside.count(label) / len(inside) if inside else None
        assert found.precision == precision
        assert found.recall == (inside.count(label) / of_class if of_class else None)
        if precision is None or not of_class:
            assert found.lift is None
        else:
            assert found.lift == pytest.approx(precision / (of_class / rows))


def test_held_out_rules_carry_their_interval_and_are_corrected_together():
    labels = np.array([0] * 10 + [1] * 10, np.int32)
    masks = [np.arange(20) < 6, np.arange(20) >= 9, np.arange(20) % 2 == 0, np.zeros(20, bool)]
    predicted = [0, 1, 0, 1]
    supports = [support(mask, labels, label, 2) for mask, label in zip(masks, predicted, strict=True)]

    tested = held_out(supports, predicted, np.array([10, 10]))

    p_values = [fisher(part, label, 10) for part, label in zip(supports, predicted, strict=True)]
    assert [part.p for part in tested] == p_values
    assert [part.q for part in tested] == benjamini_hochberg(p_values)
    for part, before, label in zip(tested, supports, predicted, strict=True):
        assert (part.rows, part.n, part.counts, part.recall) == (before.rows, before.n, before.counts, before.recall)
        assert (part.precision_low, part.precision_high) == wilson(before.counts[label], before.n)
