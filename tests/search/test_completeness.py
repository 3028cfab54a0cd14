"""The statement of completeness is true: what it says was counted was counted, and the rest is named."""

from functools import cache

import numpy as np
import pytest

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.mining.local import mine
from maabo_dist.rules.boxes import weakest_strengths
from maabo_dist.screens.screen import MAX_TRIPLES
from maabo_dist.screens.triples import least_strength
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from tests.reference import triples as slow
from tests.reference.boxes import box_strength

pytestmark = pytest.mark.xdist_group("completeness")  # the tests share what takes long to compute

SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(4)]
FEATURES = 16
MINING = {"trees": 150, "initial": 130, "seeded": 1.0, "min_samples": 5}


def columns(seed=5):
    """A table where both classes depend on conjunctions of three, and one of them on a parity too."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(FEATURES, 900))
    labels = (matrix[[9, 10, 11]] > 0).sum(axis=0) % 2
    labels = np.where(random.random(900) < 0.4, random.random(900) < 0.5, labels)
    labels = np.where((matrix[[1, 4, 6]] > 0.3).all(axis=0), 1, labels)
    labels = np.where((matrix[[2, 3, 15]] < -0.3).all(axis=0), 0, labels)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(FEATURES))
    return Columns.from_matrix(matrix, labels.astype(np.int32), features, ("no", "yes"), "y")


@cache
def brute_force(seed):
    """Return the study of a table, the strength of each of its triples, and the result of a search."""
    study = Study.build(columns(seed), MiningSettings(**MINING))
    strengths = slow.strengths(study.columns, study.tree_split.train)
    return study, strengths, mine(columns(seed), MiningSettings(**MINING), keep_records=True)


def completeness(**settings):
    return mine(columns(), MiningSettings(**settings)).search.completeness


@pytest.mark.parametrize("seed", SEEDS)
def test_every_triple_that_is_among_the_strongest_by_brute_force_gets_a_tree(seed):
    _, strengths, result = brute_force(seed)

    tried = set(map(tuple, result.records.subsets.tolist()))
    for kind in range(3):
        strong = {triple: value for (own, triple), value in strengths.items() if own == kind}
        best = sorted(strong, key=lambda triple: -strong[triple])[:MAX_TRIPLES]
        best = [triple for triple in best if strong[triple] > least_strength(FEATURES)]
        assert best
        assert tried.issuperset(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_triple_without_a_tree_is_as_strong_by_brute_force_as_a_finding_if_the_statement_says_so(seed):
    study, strengths, result = brute_force(seed)
    tried, weakest = set(map(tuple, result.records.subsets.tolist())), finding_strengths(result, study)
    untried = {
        label: max(strength for (kind, triple), strength in strengths.items() if kind == label and triple not in tried)
        for label in weakest
    }

    # The bound of the screen counts every triple that it did not choose, also those that got a tree later.
    if result.search.completeness.no_other_triple:
        assert all(untried[label] < weakest[label] for label in weakest)
    else:
        assert any(untried[label] >= least_strength(FEATURES) / 2 for label in weakest)


def finding_strengths(result, study):
    """The strength of the weakest finding of each class, by its definition."""
    rows, weakest = study.tree_split.train, {}
    for rule in result.rules:
        conditions = [
            (study.columns.column(feature)[rows] > bound) == large
            for (feature, large), bound in zip(rule.logic, rule.bounds, strict=True)
        ]
        strength = box_strength(conditions, study.columns.labels[rows] == rule.label)
        weakest[rule.label] = min(strength, weakest.get(rule.label, np.inf))
    return weakest


def test_the_strengths_of_findings_are_those_of_their_definition():
    study = Study.build(columns(), MiningSettings(**MINING))
    result = mine(columns(), MiningSettings(**MINING))

    assert len(result.rules) > 1
    assert weakest_strengths(result.rules, study) == pytest.approx(finding_strengths(result, study))


def test_a_search_with_triples_says_so():
    complete = completeness(**MINING)

    assert (complete.pairs, complete.triples, complete.all_subsets) == (120, 560, False)
    assert complete.no_other_triple
    assert complete.statement == (
        "All 120 pairs and all 560 triples of features were counted, at 3 levels a feature, pairs again in the tails; "
        "trees were grown on 150 of the 560 subsets of 3 features, the strongest triples first. No triple without a "
        "tree reaches the weakest published finding at these levels."
    )


def test_a_search_whose_strongest_triples_do_not_all_have_a_tree_does_not_compare_them():
    assert completeness(**MINING | {"initial": 10, "trees": 20}).no_other_triple is None


def test_a_search_with_pairs_alone_says_so():
    complete = completeness(**MINING, complete="pairs")

    assert (complete.pairs, complete.triples) == (120, 0)
    assert complete.statement == (
        "All 120 pairs of features were counted, at 3 levels a feature and again in the tails; trees were grown on 150 "
        "of the 560 subsets of 3 features."
    )


def test_a_search_of_all_subsets_says_so():
    complete = completeness(trees=560)

    assert (complete.pairs, complete.triples, complete.all_subsets) == (0, 0, True)
    assert complete.statement == "A tree was grown on each of the 560 subsets of 3 features."


def test_the_paper_s_search_counts_nothing_completely():
    complete = completeness(preset="paper", trees=40)

    assert complete.statement == "Trees were grown on 40 of the 560 subsets of 3 features."


def test_a_single_tree_is_no_search():
    assert completeness(strategy="single").statement == "One tree was grown on all features; no subsets were searched."
