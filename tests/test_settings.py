"""Validation of settings, and defaults for a table."""

from dataclasses import asdict
from math import comb

import pytest

from maabo_dist.errors import SettingsError
from maabo_dist.search.limits import SubsetLimits
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings, TableSettings


def settled(features=20, **settings):
    return SearchPlan.settle(MiningSettings(**settings), features)


def refusal(model=MiningSettings, **values):
    with pytest.raises(SettingsError) as caught:
        model.parse(values)
    return str(caught.value)


# What is refused.


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("subset_size", 0, "greater than or equal to 1"),
        ("subset_size", 65, "less than or equal to 64"),
        ("subset_size", "0-3", "greater than or equal to 1"),
        ("subset_size", "2-65", "less than or equal to 64"),
        ("subset_size", "4-2", "the smaller size comes first, as in 2-4"),
        ("subset_size", "some", "neither a number of features nor a range such as 2-4"),
        ("subset_size", "2-", "neither a number of features nor a range such as 2-4"),
        ("subset_size", "1-2-3", "neither a number of features nor a range such as 2-4"),
        ("subset_size", 2.5, "neither a number of features nor a range such as 2-4"),
        ("max_depth", 13, "less than or equal to 12"),
        ("initial", 0, "greater than or equal to 1"),
        ("alpha", 1, "less than 1"),
        ("alpha", 0, "greater than 0"),
        ("alpha", "much", "valid number"),
        ("h", float("nan"), "finite number"),
        ("h", 1.5, "less than or equal to 1"),
        ("b", 0, "greater than or equal to 0.001"),
        ("b", 1, "less than 1"),
        ("gini", 0, "greater than 0"),
        ("similarity", 1.01, "less than or equal to 1"),
        ("similarity_by", "taste", "'logic' or 'rows'"),
        ("strategy", "best", "'maabo', 'random', 'exhaustive' or 'single'"),
        ("class_weight", "heavy", "'balanced' or 'none'"),
        ("batch", 0, "greater than or equal to 1"),
        ("in_flight", 0, "greater than or equal to 1"),
        ("patience", 0, "greater than or equal to 1"),
        ("time_limit", 0, "greater than 0"),
        ("time_limit", float("inf"), "finite number"),
        ("seed", -1, "greater than or equal to 0"),
        ("seed", 2**32, "less than or equal to 4294967295"),
        ("split_seed", 1.5, "valid integer"),
        ("test_size", 0, "greater than 0"),
        ("test_size", 1, "less than 1"),
        ("holdout", -0.1, "greater than or equal to 0"),
        ("holdout", 1, "less than 1"),
        ("min_samples", 0, "greater than or equal to 1"),
        ("min_samples_leaf", 0, "greater than or equal to 1"),
        ("trees", "0%", "more than 0% and at most 100%"),
        ("trees", "100.1%", "more than 0% and at most 100%"),
        ("trees", "nan%", "more than 0% and at most 100%"),
        ("trees", "many", "neither a number of trees (1 or more) nor a share such as 50%"),
        ("trees", "%", "neither a number of trees (1 or more) nor a share such as 50%"),
        ("trees", "-5", "neither a number of trees (1 or more) nor a share such as 50%"),
        ("trees", "50%%", "neither a number of trees (1 or more) nor a share such as 50%"),
        ("trees", 0, "neither a number of trees (1 or more) nor a share such as 50%"),
        ("candidates", "some", "neither a number (1 or more) nor all"),
        ("candidates", "-1", "neither a number (1 or more) nor all"),
        ("top_features", 0, "neither a number (1 or more) nor all"),
        ("top_features", "ALL", "neither a number (1 or more) nor all"),
    ],
)
def test_a_refusal_names_the_option_the_value_and_the_remedy(option, value, remedy):
    message = refusal(**{option: value})

    assert f"--{option.replace('_', '-')} {value!r}: " in message
    assert remedy in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("option", "value"), [("trees", 0), ("trees", "0"), ("trees", 2.5), ("candidates", 0), ("top_features", 1.5)]
)
def test_a_number_that_is_too_small_is_refused_in_one_sentence_about_numbers(option, value):
    message = refusal(**{option: value})

    assert "\n" not in message
    assert "valid string" not in message


def test_all_of_several_mistakes_are_reported():
    message = refusal(alpha=2, b=-1, seed=1)

    assert message.splitlines() == [
        "--alpha 2: must be less than 1.",
        "--b -1: must be greater than or equal to 0.001.",
    ]


def test_an_unknown_option_is_refused():
    assert "--colour 'red'" in refusal(colour="red")


def test_two_kinds_of_target_cuts_are_refused():
    message = refusal(TableSettings, target_above="mean", target_quantiles=3)

    assert message == "--target-above and --target-quantiles cannot be used together."


def test_a_cut_of_the_target_is_mean_median_or_a_number():
    assert TableSettings.parse({"target_above": "2.5"}).target_above == 2.5
    assert TableSettings.parse({"target_above": "median"}).target_above == "median"
    assert "neither mean, median nor a number" in refusal(TableSettings, target_above="mode")
    assert "finite" in refusal(TableSettings, target_above="inf")


@pytest.mark.parametrize(
    ("value", "expected", "sizes"),
    [
        (3, 3, (3,)),
        ("3", 3, (3,)),
        ("3-3", 3, (3,)),
        ("2-4", "2-4", (2, 3, 4)),
        (" 1 – 2 ", "1-2", (1, 2)),
    ],
)
def test_a_subset_size_is_a_number_or_a_range(value, expected, sizes):
    settings = MiningSettings.parse({"subset_size": value})

    assert (settings.subset_size, settings.subset_sizes) == (expected, sizes)
    assert MiningSettings.model_validate_json(settings.model_dump_json()) == settings
    assert settings.model_dump(mode="json")["subset_size"] == expected


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        MiningSettings().seed = 3


# What is settled for a table.


def test_the_defaults_are_those_of_the_paper():
    settings = MiningSettings()

    assert (settings.subset_size, settings.initial, settings.alpha, settings.max_depth) == (3, 10, 0.25, 5)
    assert (settings.h, settings.b) == (0.5, 0.5)
    assert (settings.class_weight, settings.test_size, settings.stratify) == ("balanced", 0.3, False)
    assert settings.similarity == 0.7


def test_the_limits_of_the_paper_belong_to_its_preset():
    findings, paper = MiningSettings(), MiningSettings(preset="paper")

    assert (findings.min_samples, findings.gini, findings.holdout) == (None, None, None)
    assert (paper.min_samples, paper.gini, paper.holdout) == (50, 0.3, 0.0)
    assert MiningSettings(preset="paper", min_samples=7, holdout=0.2).model_dump(
        include={"min_samples", "gini", "holdout"}
    ) == {"min_samples": 7, "gini": 0.3, "holdout": 0.2}


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        (7, 7),
        ("7", 7),
        ("50%", 570),
        ("100%", 1140),
        ("12.5%", 142),
        (" 50 % ", 570),
        ("0.01%", 1),
        (None, 570),
    ],
)
def test_trees_are_a_number_or_a_share_of_the_space(trees, expected):
    assert settled(20, trees=trees).trees == expected


def test_shares_of_an_astronomic_space_are_exact():
    assert settled(10_000, subset_size=40, trees="0.5%").trees == comb(10_000, 40) // 200


@pytest.mark.parametrize(("share", "expected"), [("1e-3%", 1661), ("33.333333333333333333%", 55_388_999)])
def test_shares_are_exact_however_they_are_written(share, expected):
    assert settled(1000, trees=share).trees == expected


@pytest.mark.parametrize(("features", "expected"), [(5, 10), (10, 100), (12, 110), (100, 10_000)])
def test_by_default_half_of_the_space_is_grown_within_bounds(features, expected):
    assert settled(features).trees == expected


def test_more_trees_than_the_space_holds_are_limited_with_a_note():
    plan = settled(5, trees=1000)

    assert (plan.trees, plan.space_size) == (10, 10)
    (note,) = plan.notes
    assert note.startswith("--trees 1,000 is more than ")
    assert "10 subsets" in note
    assert settled(5, trees=10).notes == ()


def test_there_are_no_more_initial_trees_than_trees():
    assert settled(20, trees=4).initial == 4
    assert settled(20, trees=400, initial=25).initial == 25


@pytest.mark.parametrize(("trees", "batch"), [(1, 1), (99, 1), (100, 2), (1000, 20), (50_000, 256)])
def test_by_default_a_batch_is_one_for_each_50_trees(trees, batch):
    assert settled(200, trees=trees).batch == batch
    assert settled(200, trees=trees, batch=7).batch == 7


@pytest.mark.parametrize(("features", "top", "candidates"), [(50, 50, None), (51, 10, 1000), (20_000, 4000, 1000)])
def test_a_large_space_is_restricted_by_default(features, top, candidates):
    plan = settled(features)

    assert (plan.top_features, plan.candidates) == (top, candidates)
    assert (plan.space_size <= 20_000) == (candidates is None)


def test_top_features_and_candidates_may_be_given_as_numbers_or_all():
    plan = settled(100, top_features="all", candidates="all")
    narrow = settled(10, top_features="3", candidates="5")

    assert (plan.top_features, plan.candidates) == (100, None)
    assert (narrow.top_features, narrow.candidates) == (3, 5)


def test_a_wide_but_tiny_top_is_at_least_one_feature():
    assert settled(4, subset_size=2).top_features == 4
    assert settled(30, subset_size=20).top_features == 6


@pytest.mark.parametrize(
    ("features", "settings", "words"),
    [
        (3, {"preset": "paper"}, ["--subset-size 3", "has 3", "smaller --subset-size", "--strategy single"]),
        (2, {"subset_size": 5}, ["--subset-size 5", "has 2"]),
        (4, {"subset_size": "2-4"}, ["--subset-size 2-4", "has 4", "smaller --subset-size"]),
        (1, {"subset_size": 1}, ["--subset-size 1", "has 1", "Use --strategy single"]),
        (9, {"top_features": 10}, ["--top-features 10", "9 features", "use all"]),
        (1000, {"candidates": "all"}, ["--candidates all", "166,167,000", "10,000,000", "Give a number"]),
    ],
)
def test_settings_that_do_not_fit_the_table_are_refused_with_a_remedy(features, settings, words):
    with pytest.raises(SettingsError) as caught:
        settled(features, **settings)

    assert [word for word in words if word not in str(caught.value)] == []


def test_all_candidates_do_not_matter_to_a_search_that_compares_none():
    assert settled(1000, candidates="all", strategy="random").candidates is None


def test_a_single_tree_takes_all_features_whatever_else_is_set():
    plan = settled(3, strategy="single", trees=50, subset_size=9)

    assert (plan.subset_size, plan.space_size, plan.trees) == (3, 1, 1)


def test_a_space_of_several_sizes_has_the_subsets_of_each():
    plan = settled(10, subset_size="1-3")

    assert (plan.sizes, plan.subset_size, plan.space_size) == ((1, 2, 3), 3, 10 + 45 + 120)
    assert settled(10).sizes == (3,)


@pytest.mark.parametrize("size", [3, "2-3"])
def test_a_plan_is_plain_values(size):
    plan = settled(5, trees=1000, subset_size=size)

    document = asdict(plan)
    limits = document.pop("limits")

    assert SearchPlan(**document, limits=SubsetLimits(**limits)) == plan
    assert all(isinstance(value, int | tuple | None) for value in [*document.values(), *limits.values()])


@pytest.mark.parametrize("options", [{}, {"initial": 7}, {"trees": 500}])
@pytest.mark.parametrize("preset", ["paper", "auto"])
def test_a_plan_is_the_same_after_the_settings_went_through_a_document(options, preset):
    settings = MiningSettings.parse({"preset": preset} | options)

    again = MiningSettings.parse(settings.model_dump(mode="json"))

    assert SearchPlan.settle(again, 300) == SearchPlan.settle(settings, 300)


@pytest.mark.parametrize("value", [[], {}, None, 0, 10_001, "some", True])
def test_a_number_of_shuffles_that_is_none_is_refused(value):
    with pytest.raises(SettingsError, match=r"--certify .*nor auto or off"):
        MiningSettings.parse({"certify": value})


@pytest.mark.parametrize("features", [1, 2, 3])
def test_a_table_of_few_features_has_subsets_of_all_sizes_by_default(features):
    plan = SearchPlan.settle(MiningSettings(), features)

    assert plan.sizes == tuple(range(1, features + 1))
    assert plan.trees == plan.space_size == 2**features - 1
