"""The method in one process: the paper's figures, and a result that depends only on data, settings and seed."""

import tracemalloc
from dataclasses import replace
from functools import cache
from itertools import count

import numpy as np
import pytest

from maabo_dist._util.subset_rows import members
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.split import split_rows
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import TrainingTable
from tests import factories
from tests.reference import gs_mrm, maabo


@cache
def bundled(name):
    return prepare(*load_bundled(name)).columns


def mined(name="diabetes", jobs=1, progress=None, keep_trees=False, **settings):
    mining = MiningSettings(**{"preset": "paper", "split_seed": 2, "max_depth": 3, **settings})
    return mine(bundled(name), mining, jobs=jobs, progress=progress, keep_trees=keep_trees)


def summarize(result):
    """Return {(class, n, Gini to two digits, literals)} of the rules, as the paper's table prints them."""
    names = [feature.name for feature in bundled("diabetes").features]
    return {
        (
            "high" if rule.label else "low",
            rule.n,
            round(rule.gini, 2),
            frozenset(f"{names[feature]} {'large' if large else 'small'}" for feature, large in rule.logic),
        )
        for rule in result.rules
    }


# The paper's tables of extracted rules (diabetes; split seed 2, p_max 3).


def test_the_single_tree_gives_the_one_rule_of_the_paper():
    result = mined(strategy="single")

    assert (result.search.leaves, result.funnel.leaves, len(result.rules)) == (8, 8, 1)
    assert summarize(result) == {("low", 89, 0.06, frozenset({"age small", "bmi small", "ltg small"}))}


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_trees_give_the_rules_that_the_paper_prints(seed):
    result = mined(trees="50%", seed=seed)

    assert result.search.trees == 60
    assert summarize(result) >= {
        ("low", 81, 0.03, frozenset({"hdl large", "bmi small", "ltg small"})),
        ("low", 89, 0.06, frozenset({"age small", "bmi small", "ltg small"})),
        ("low", 58, 0.08, frozenset({"tc small", "hdl large", "bmi small"})),
        ("high", 54, 0.14, frozenset({"glu large", "bmi large", "ltg large"})),
        ("low", 81, 0.14, frozenset({"age small", "hdl large", "bmi small"})),
    }


# Compared with the reference implementations, end to end.


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("diabetes", {}),
        ("diabetes", {"class_weight": "none", "max_depth": 6, "min_samples": 20, "gini": 0.6, "similarity": 0.5}),
        ("wine", {"trees": 80, "min_samples": 20, "max_depth": 5}),
        ("breast_cancer", {"trees": 60, "similarity": 1.0}),
    ],
)
def test_rules_are_those_of_algorithm_2_on_the_trees_that_were_kept(name, options):
    result = mined(name, keep_trees=True, **options)
    columns, settings = bundled(name), result.settings
    split = split_rows(columns.labels, test_size=0.3, seed=2)
    weights = TrainingTable.build(columns, split, class_weight=settings.class_weight).weights.tolist()
    every = [leaf for t, tree in enumerate(result.forest) for leaf in gs_mrm.leaves_of(tree, weights, t)]

    chosen = gs_mrm.select(every, settings.min_samples, settings.gini, settings.similarity, len(columns.classes))

    assert chosen
    assert [(frozenset(rule.logic), rule.bounds, rule.counts, rule.gini) for rule in result.rules] == [
        (leaf.logic, leaf.bounds, leaf.counts, leaf.gini) for leaf in chosen
    ]
    names, trees = [feature.name for feature in columns.features], [result.forest.tree(leaf.tree) for leaf in chosen]
    assert [(rule.source.tree, rule.source.subset, rule.source.depth, rule.source.score) for rule in result.rules] == [
        (leaf.tree, tuple(names[feature] for feature in tree.subset), tree.depth, tree.score)
        for leaf, tree in zip(chosen, trees, strict=True)
    ]
    large = [leaf for leaf in every if leaf.n >= settings.min_samples]
    pure = [leaf for leaf in large if leaf.gini < settings.gini * (1 - 1 / len(columns.classes))]
    funnel = result.funnel
    assert (funnel.leaves, funnel.large, funnel.pure) == (len(every), len(large), len(pure))
    assert (funnel.distinct, funnel.rules) == (len({leaf.logic for leaf in pure}), len(chosen))


@pytest.mark.parametrize(
    "options",
    [{}, {"top_features": 3, "candidates": 15, "subset_size": 2}, {"candidates": 20, "subset_size": "2-3"}],
)
def test_the_search_is_algorithm_1_on_the_scores_of_all_trees(options):
    everything = mined(strategy="exhaustive", trees="100%", keep_trees=True, **options).forest
    scores = dict(zip(map(members, everything.subsets), everything.best_scores.tolist(), strict=True))

    result = mined(trees=40, batch=1, seed=5, keep_trees=True, **options)

    expected = maabo.search(
        scores.get,
        features=10,
        size=result.plan.sizes,
        initial=10,
        alpha=0.25,
        iterations=30,
        h=0.5,
        b=0.5,
        top=result.plan.top_features,
        candidates=result.plan.candidates,
        seed=5,
    )
    assert [members(subset) for subset in result.forest.subsets] == expected


def test_a_search_of_several_sizes_has_the_leaves_of_each_and_names_each_feature_once():
    mixed = mined(subset_size="1-3", trees="100%", similarity=1.0, gini=0.5)
    apart = [mined(subset_size=size, trees="100%", similarity=1.0, gini=0.5) for size in (1, 2, 3)]

    assert mixed.search.trees == mixed.plan.space_size == 175
    for step in ("leaves", "large", "pure"):
        assert getattr(mixed.funnel, step) == sum(getattr(each.funnel, step) for each in apart)
    subsets = [rule.source.subset for rule in mixed.rules]
    assert all(len({*subset}) == len(subset) for subset in subsets)
    assert {len(subset) for subset in subsets} == {2, 3}


# The same result, however it is computed.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 16, "in_flight": 3},
        {"strategy": "random"},
        {"similarity_by": "rows", "batch": 7},
        {"holdout": 0.2, "top_features": 3, "candidates": 20},
        {"subset_size": "1-3", "batch": 8, "top_features": 3, "candidates": 20},
    ],
)
def test_the_rules_do_not_depend_on_threads_repetition_or_whether_trees_are_kept(options):
    runs = [mined(**options), mined(jobs=2, **options), mined(jobs=3, keep_trees=True, **options), mined(**options)]

    assert len({run.digest for run in runs}) == 1
    assert runs[0].rules == runs[1].rules == runs[2].rules == runs[3].rules
    assert runs[0].forest is None
    assert len(runs[2].forest) == runs[2].search.trees


def test_another_seed_searches_elsewhere():
    one, other = (mined(seed=seed, keep_trees=True, trees=30).forest.subsets.tolist() for seed in (0, 1))

    assert one != other


def test_the_seed_also_splits_unless_there_is_a_split_seed():
    both = mined(seed=2, split_seed=None, strategy="single")

    assert both.digest == mined(seed=9, split_seed=2, strategy="single").digest


def test_all_trees_give_the_same_rules_in_whatever_order_they_are_grown():
    runs = [mined(strategy=strategy, trees="100%") for strategy in ("maabo", "random", "exhaustive")]

    assert len({run.digest for run in runs}) == 1
    assert {run.search.trees for run in runs} == {120}
    assert {run.search.stopped for run in runs} == {"exhausted"}


def test_held_out_labels_change_no_rule():
    columns, settings = bundled("diabetes"), MiningSettings(split_seed=2, max_depth=3, holdout=0.25, min_samples=30)
    held = split_rows(columns.labels, test_size=0.3, seed=2, holdout=0.25).holdout
    labels = columns.labels.copy()
    labels[held] = 1 - labels[held]

    before, after = mine(columns, settings), mine(replace(columns, labels=labels), settings)

    assert before.rules
    assert before.digest == after.digest
    for one, other in zip(before.rules, after.rules, strict=True):
        assert replace(one, holdout=None, verdict=None) == replace(other, holdout=None, verdict=None)
        assert [*one.holdout.counts.values()] == [*other.holdout.counts.values()][::-1]


def test_every_part_of_the_rows_is_counted():
    result = mined(holdout=0.2, trees=20)

    assert result.rows == {"train": 247, "validation": 106, "holdout": 89}
    assert sum(result.base_rates) == pytest.approx(1)
    assert result.fingerprint == bundled("diabetes").fingerprint


# How a search ends.


def test_a_budget_is_spent_to_the_last_tree():
    result = mined(trees=37, batch=5)

    assert (result.search.trees, result.search.stopped, result.notes) == (37, "budget", ())


def test_a_budget_larger_than_the_space_is_reduced_with_a_note():
    result = mined(trees=500)

    assert (result.search.trees, result.search.stopped) == (120, "exhausted")
    assert "--trees 500" in result.notes[0]
    assert "120" in result.notes[0]


def test_a_narrow_search_spends_its_budget_too():
    result = mined(trees="50%", top_features=1, batch=20)

    assert (result.search.trees, result.search.stopped) == (60, "budget")


def test_patience_ends_a_search_that_finds_no_rule():
    result = mined(patience=7, min_samples=10_000, batch=1)

    assert (result.search.trees, result.search.stopped, result.rules) == (7, "patience", ())
    assert "no new rule" in result.notes[-1]


def test_patience_starts_again_with_every_new_rule():
    known_rules, last, trees = set(), 0, 0
    while trees - last < 9:
        trees += 1
        logics = {rule.logic for rule in mined(trees=trees, batch=1, seed=1).rules}
        if not logics <= known_rules:
            known_rules, last = known_rules | logics, trees

    result = mined(trees=60, batch=1, seed=1, patience=9)

    assert 9 < trees < 60
    assert (result.search.trees, result.search.stopped) == (trees, "patience")


def test_batches_in_flight_when_patience_runs_out_are_still_grown():
    runs = [
        mined(patience=13, min_samples=10_000, batch=4, in_flight=3, initial=12, jobs=jobs, keep_trees=True)
        for jobs in (1, 2)
    ]

    assert {run.search.stopped for run in runs} == {"patience"}
    # Known after tree 16, when the trees up to the 24th had been proposed.
    assert [run.search.trees for run in runs] == [len(run.forest) for run in runs] == [24, 24]


def test_a_time_limit_ends_the_search_by_the_clock_it_is_given():
    ticks = count()

    result = mine(
        bundled("diabetes"), MiningSettings(time_limit=5, batch=1, split_seed=2), clock=lambda: float(next(ticks))
    )

    assert (result.search.trees, result.search.stopped) == (5, "time")
    assert "time limit" in result.notes[-1]


def test_the_progress_callback_sees_every_batch_and_can_stop():
    reports = []

    result = mined(trees=60, batch=4, initial=8, progress=lambda now: reports.append(now) or len(reports) == 6)

    assert (result.search.trees, result.search.stopped) == (24, "asked")
    assert [now.trees for now in reports] == [4, 8, 12, 16, 20, 24]
    assert {now.planned for now in reports} == {60}
    assert reports[-1].best_score == result.search.best_score == max(now.best_score for now in reports)
    assert [now.reliable for now in reports] == sorted(now.reliable for now in reports)


@pytest.mark.parametrize("trees", [1, 10, 11, 33])
def test_a_search_that_is_stopped_has_the_rules_of_a_search_that_short(trees):
    stopped = mined(trees=60, batch=1, progress=lambda now: now.trees == trees)

    assert stopped.rules == mined(trees=trees, batch=1).rules


def test_an_interrupt_returns_the_rules_found_so_far():
    def interrupt(now):
        if now.trees == 30:
            raise KeyboardInterrupt

    result = mined(trees=60, batch=1, progress=interrupt)

    assert (result.search.trees, result.search.stopped) == (30, "interrupted")
    assert result.rules == mined(trees=30, batch=1).rules
    assert "stopped after 30 of 60 trees" in result.notes[-1]


# Scale.


@pytest.mark.soak
def test_a_table_of_20000_features_is_searched_without_listing_its_subsets():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20_000, 200)).round(2)
    columns = factories.columns_of(matrix, matrix[17] + matrix[4711] > 0)
    settings = MiningSettings(preset="paper", trees=120, batch=30, min_samples=20, split_seed=0)

    tracemalloc.start()
    result = mine(columns, settings)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert result.plan.space_size == 1_333_133_340_000
    assert (result.search.trees, result.search.stopped) == (120, "budget")
    assert peak < 150e6  # the table itself takes most of it; the subsets would take 16 · 10¹² bytes
