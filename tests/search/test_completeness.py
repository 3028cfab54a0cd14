"""The statement of completeness is true: what it says was counted was counted, and the rest is named."""

import numpy as np
import pytest

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.mining.local import mine
from maabo_dist.screens.screen import MAX_TRIPLES
from maabo_dist.screens.triples import least_strength
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from tests.reference import triples as slow

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


def completeness(**settings):
    return mine(columns(), MiningSettings(**settings)).search.completeness


@pytest.mark.parametrize("seed", range(4))
def test_every_triple_that_is_among_the_strongest_by_brute_force_gets_a_tree(seed):
    study = Study.build(columns(seed), MiningSettings(**MINING))
    strengths = slow.strengths(study.columns, study.tree_split.train)

    result = mine(columns(seed), MiningSettings(**MINING), keep_records=True)

    tried = set(map(tuple, result.records.subsets.tolist()))
    for kind in range(3):
        strong = {triple: value for (own, triple), value in strengths.items() if own == kind}
        best = sorted(strong, key=lambda triple: -strong[triple])[:MAX_TRIPLES]
        best = [triple for triple in best if strong[triple] > least_strength(FEATURES)]
        assert best
        assert tried.issuperset(best)


def test_a_search_with_triples_says_so():
    complete = completeness(**MINING)

    assert (complete.pairs, complete.triples, complete.all_subsets) == (120, 560, False)
    assert complete.statement == (
        "All 120 pairs and all 560 triples of features were counted, at 3 levels a feature; trees were grown on 150 of "
        "the 560 subsets of 3 features, the strongest triples first."
    )


def test_a_search_with_pairs_alone_says_so():
    complete = completeness(**MINING, complete="pairs")

    assert (complete.pairs, complete.triples) == (120, 0)
    assert complete.statement == (
        "All 120 pairs of features were counted, at 3 levels a feature; trees were grown on 150 of the 560 subsets of "
        "3 features."
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
