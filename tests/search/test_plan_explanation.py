"""`--explain`: every choice in plain words, with its reason."""

import pytest

from maabo_dist.findings.certificate import BOUND_SHARE, LEVEL
from maabo_dist.search.explanation import explain_plan
from maabo_dist.search.plan import MIN_SHUFFLES, SearchPlan
from maabo_dist.settings import MiningSettings


def lines(features=30, rows=None, min_rows=None, **settings):
    """Return the choices by subject."""
    chosen = MiningSettings(**settings)
    texts = explain_plan(SearchPlan.settle(chosen, features, rows=rows or 0), chosen, rows=rows, min_rows=min_rows)
    return dict(line.split(": ", 1) for line in texts)


def test_a_small_space_is_screened_and_compared_as_a_whole():
    texts = lines(preset="auto")

    assert texts == {
        "space": "4,060 subsets of 3 of the 30 features",
        "trees": "2,030, half of the space",
        "screens": "single features and pairs, as there are more subsets than trees",
        "initial": "300 trees before scores guide the search (a fifth of all, at most 300); "
        "80 % of them from the screens, the others at random",
        "top features": "candidates may hold any features (the space is small)",
        "candidates": "all subsets not yet grown are compared at each step (the space is small)",
        "batch": "40 subsets are proposed at a time (1 for each 50 trees, at most 256), at most 1 batch in flight",
        "size": "a rule covers at least as many rows as a certificate needs in this table",
        "conditions": "kept only if the rows support them at p ≤ 0.05 (as --preset auto does)",
        "certification": "a bound on the number of possible rules; then 24 searches on shuffled labels, "
        "if it leaves rules undecided (--certify auto)",
    }


def test_a_large_space_is_screened():
    texts = lines(features=1000, preset="auto", probes=200)

    assert texts["space"] == "166,167,000 subsets of 3 of the 1,000 features"
    assert texts["probes"] == "200 of the features are permuted columns (--probes)"
    assert texts["trees"] == "10,000, the default maximum"
    assert texts["screens"] == "single features and pairs, as there are more subsets than trees"
    assert texts["initial"].startswith("300 trees before scores guide the search (a fifth of all, at most 300); ")
    assert texts["initial"].endswith("80 % of them from the screens, the others at random")
    assert texts["top features"].endswith("200 most used features (a fifth of all, as the space is large)")
    assert texts["candidates"].startswith("1,000 subsets are compared at each step (the space is large); 30 % of them")


@pytest.mark.parametrize(
    ("settings", "what", "why"),
    [
        ({"trees": 50}, "trees", "50 (--trees)"),
        ({"trees": "10%"}, "trees", "406, 10% of the space (--trees)"),
        ({"trees": 10**6}, "trees", "4,060, all of the space: --trees asks for as many or more"),
        ({"subset_size": 1}, "trees", "30, all of the space: no more than this are grown by default"),
        ({"subset_size": 2}, "trees", "217, half of the space"),
        ({"preset": "paper"}, "screens", "none, as --preset paper has none"),
        ({"preset": "paper"}, "initial", "10 random trees before scores guide the search (--initial)"),
        ({"trees": "100%"}, "screens", "none, as every subset gets a tree"),
        ({"trees": 4059}, "screens", "single features and pairs, as there are more subsets than trees"),
        ({"trees": 20, "subset_size": 1}, "screens", "none, as a tree of one feature has no pairs"),
        ({"preset": "auto", "strategy": "random"}, "screens", "none, as --strategy random is not guided"),
        ({"strategy": "random"}, "order", "at random, not guided by scores"),
        ({"strategy": "exhaustive"}, "order", "one after another, not guided by scores"),
        ({"strategy": "single"}, "trees", "1 on all 30 features (--strategy single)"),
        (
            {"top_features": 4},
            "top features",
            "candidates hold at least one of the 4 most used features (--top-features)",
        ),
        ({"candidates": 70, "preset": "paper"}, "candidates", "70 subsets are compared at each step (--candidates)"),
        (
            {"batch": 1, "trees": 9},
            "batch",
            "1 subset is proposed at a time (--batch), at most 1 batch in flight",
        ),
        ({"preset": "paper"}, "conditions", "all are kept (as --preset paper does)"),
        ({"literals": "supported"}, "conditions", "kept only if the rows support them at p ≤ 0.05 (--literals)"),
    ],
)
def test_every_choice_has_its_reason(settings, what, why):
    assert lines(**settings)[what] == why


@pytest.mark.parametrize("strategy", ["maabo", "random", "exhaustive", "single"])
@pytest.mark.parametrize("features", [4, 30, 1000, 20_000])
@pytest.mark.parametrize("preset", ["paper", "auto"])
def test_no_choice_is_left_unexplained(strategy, features, preset):
    # An exhaustive search of so large a space needs a number of trees.
    trees = 5000 if strategy == "exhaustive" and features >= 1000 else None
    texts = lines(features=features, strategy=strategy, preset=preset, trees=trees)

    assert {"trees", "conditions"} <= texts.keys()
    assert all(texts.values())


BOUND = "a bound on the number of possible rules"


@pytest.mark.parametrize(
    ("settings", "rows", "text"),
    [
        ({"trees": 100}, 500, f"{BOUND}; then 24 searches on shuffled labels, some 1.7 s on one core, "),
        ({"trees": 100, "certify": 200}, 500, f"{BOUND}, and 200 searches on shuffled labels, some 14 s on one core "),
        ({}, 10**6, f"{BOUND} alone, as 24 searches on shuffled labels would take some 70 s on one core; "),
        ({"certify": "off"}, 500, f"{BOUND}, which costs nothing (--certify off)"),
    ],
)
def test_certification_is_announced_with_its_cost(settings, rows, text):
    assert lines(rows=rows, **settings)["certification"].startswith(text)


@pytest.mark.parametrize(
    ("min_samples", "text"),
    [
        (None, "a rule covers at least 12 training rows; fewer could hardly be certified in this table"),
        (8, "a rule covers at least 12 training rows; fewer could hardly be certified in this table"),
        (30, "a rule covers at least 30 training rows (--min-samples)"),
    ],
)
def test_the_minimum_size_in_effect_is_named(min_samples, text):
    assert lines(min_samples=min_samples, min_rows=12)["size"] == text


def test_the_paper_certifies_nothing():
    assert not {"size", "certification"} & lines(preset="paper").keys()


def test_the_fewest_shuffles_are_those_that_can_certify_a_rule():
    level = LEVEL * (1 - BOUND_SHARE)

    assert 1 / (1 + MIN_SHUFFLES) <= level < 1 / MIN_SHUFFLES


@pytest.mark.parametrize(
    ("rows", "preset", "sampled"), [(50_000, "auto", False), (10**6, "auto", True), (10**6, "paper", False)]
)
def test_many_rows_are_sampled_for_trees(rows, preset, sampled):
    texts = lines(rows=rows, preset=preset)

    assert ("rows" in texts) == sampled
    if sampled:
        assert texts["rows"] == "trees are grown on 30,000 random training rows; the evidence is counted on all rows"


@pytest.mark.parametrize(
    ("features", "settings", "text"),
    [
        (1000, {}, "and all 166,167,000 triples, some 4.7 s on one core"),
        (
            3000,
            {},
            ", not all 4.5×10⁹ triples, some 123 s on one core, longer than the search (--complete triples",
        ),
        (300, {"complete": "pairs"}, "single features and pairs (--complete pairs), as there are"),
        (300, {"complete": "triples"}, "and all 4,455,100 triples, some 0.1 s on one core (--complete)"),
    ],
)
def test_the_screen_of_triples_is_explained_with_its_cost(features, settings, text):
    assert text in lines(features=features, rows=3000, **settings)["screens"]
