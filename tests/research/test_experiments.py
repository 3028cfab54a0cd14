"""The paper's experiments compared with `mine`, on bundled and generated tables."""

import os
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.mining.local import mine
from maabo_dist.research.paper import EXPERIMENTS, printed
from maabo_dist.research.paper.cases import best_leaf_size, case_table, rule_columns, run_cases, run_group
from maabo_dist.research.paper.rule_experiments import exp1_arms
from maabo_dist.research.paper.tables import choose_tables, is_noise, named_table, table_from_file, with_noise
from tests.research.paper_tables import boston_like, titanic_like, write


@pytest.fixture(scope="module")
def diabetes():
    return {"diabetes": named_table("diabetes")}


def test_every_arm_has_the_digest_of_mine_with_the_same_settings(diabetes):
    cases = EXPERIMENTS["exp1"].cases(list(diabetes.values()), 2)
    cases = [case for case in cases if case.seed == 1 and case.settings.trees in {None, 10, 40, 110, 120}]
    columns = prepare(diabetes["diabetes"].frame, diabetes["diabetes"].settings).columns

    outcomes = run_group(diabetes, cases)

    assert {case.arm for case in cases} == {"all", "maabo", "random", "single"}
    for case, outcome in zip(cases, outcomes, strict=True):
        assert outcome.digest == mine(columns, case.settings).digest


def test_experiment_1_uses_the_budgets_of_the_paper_for_nine_features():
    settings = [(arm, each.trees, each.batch) for arm, each in exp1_arms(9, 5)]

    assert [trees for arm, trees, _ in settings if arm == "maabo"] == list(range(10, 81, 10))
    assert [trees for arm, trees, _ in settings if arm == "random"] == list(range(10, 81, 10))
    assert ("all", comb(9, 3)) in [(arm, trees) for arm, trees, _ in settings]
    assert {batch for arm, _, batch in settings if arm == "maabo"} == {1}  # Algorithm 1: one subset at a time


@pytest.mark.soak  # starts two processes, which takes some seconds
def test_the_number_of_processes_does_not_change_results(diabetes):
    cases = EXPERIMENTS["exp1"].cases(list(diabetes.values()), 2)
    progress = []

    alone, parallel = (run_cases(cases, diabetes, jobs, progress.append) for jobs in (1, 2))

    assert [outcome.digest for _, outcome in alone] == [outcome.digest for _, outcome in parallel]
    assert max(progress) == len(cases)


def test_experiment_3_reproduces_the_printed_rules_of_diabetes(diabetes):
    experiment = EXPERIMENTS["exp3"]

    findings = experiment.findings(run_cases(experiment.cases(list(diabetes.values()), 1), diabetes, 1, lambda _: None))

    sizes, rules = findings.comparisons
    (single,) = [row for row in sizes.rows if row[1] == "D. Single tree"]
    assert single[3:] == ("8", "8", "1", "1")
    assert [row[4] for row in rules.rows] == ["yes"] * 6


def test_a_table_with_fewer_noise_columns_has_the_first_of_those_with_more(diabetes):
    few, many = (with_noise(diabetes["diabetes"], count, 3).frame for count in (2, 5))

    assert few.equals(many[few.columns])
    assert [name for name in many if is_noise(name)] == [f"noise {index}" for index in range(1, 6)]
    assert not with_noise(diabetes["diabetes"], 2, 4).frame.equals(few)


def test_noise_in_rules_is_counted(diabetes):
    case = replace(EXPERIMENTS["exp2"].cases(list(diabetes.values()), 1)[-1], arm="all")
    loose = case.settings.model_copy(update={"min_samples": 10, "gini": 0.9, "similarity": 1.0})

    (outcome,) = run_group(diabetes, [replace(case, settings=loose)])

    noisy = [[name for name in rule_columns(rule) if is_noise(name)] for rule in outcome.rules]
    assert outcome.noisy_rules == sum(map(bool, noisy)) > 0
    assert outcome.noise_columns == sum(map(len, noisy)) < outcome.columns


def test_a_tuned_tree_has_the_leaf_size_with_the_best_score(diabetes):
    case = EXPERIMENTS["app1"].cases(list(diabetes.values()), 1)[3]
    table = case_table(diabetes, case.table)
    columns = prepare(table.frame, table.settings).columns

    (outcome,) = run_group(diabetes, [replace(case, leaf_sizes=(1, 7, 30))])

    scores = {
        size: mine(columns, case.settings.model_copy(update={"min_samples_leaf": size})).search.best_score
        for size in (1, 7, 30)
    }
    assert outcome.score == max(scores.values()) == scores[outcome.tree.leaf_size]
    assert best_leaf_size(columns, case.settings, (30,)) == 30


def test_a_table_is_recognised_by_its_columns_among_others(tmp_path):
    frame = titanic_like().rename(columns=str.upper).assign(ticket="x")

    table = table_from_file(write(tmp_path, frame))

    assert table.name == "titanic"
    assert table.features == 9
    assert "60 rows" in table.size_note


def test_boston_may_have_prices_or_classes(tmp_path):
    frame = boston_like()
    numbers = frame.drop(columns="price").assign(MEDV=np.arange(len(frame)) * 1.5)

    for path in (write(tmp_path, frame, "a.csv"), write(tmp_path, numbers, "b.csv")):
        table = table_from_file(path)
        assert (table.name, len(prepare(table.frame, table.settings).columns.classes)) == ("boston", 2)


def test_a_table_with_other_columns_is_rejected_with_the_missing_ones(tmp_path):
    with pytest.raises(DatasetError, match=r"for Titanic it lacks fare.*for Boston housing it lacks CRIM"):
        table_from_file(write(tmp_path, titanic_like().drop(columns="fare")))


def test_the_same_table_in_two_files_is_rejected(tmp_path):
    path = write(tmp_path, titanic_like())

    with pytest.raises(SettingsError, match="two of the files"):
        choose_tables(("titanic", "boston", "diabetes"), [path, path], ())


def test_the_bundled_table_is_added_to_files_of_an_experiment_on_three_tables(tmp_path):
    tables = choose_tables(("titanic", "boston", "diabetes"), [write(tmp_path, boston_like())], ())

    assert [table.name for table in tables] == ["boston", "diabetes"]


def test_the_printed_rules_agree_with_their_printed_numbers():
    for (table, arm), (_, count) in printed.SIZES.items():
        rules = [rule for rule in printed.RULES if (rule.table, rule.arm) == (table, arm)]
        assert len(rules) == min(count, 5)  # the paper prints at most five


@pytest.mark.skipif("MAABO_TITANIC" not in os.environ, reason="MAABO_TITANIC names no file with the Titanic table")
def test_titanic_reproduces_the_figures_of_the_paper():
    tables = {"titanic": table_from_file(Path(os.environ["MAABO_TITANIC"]))}
    experiment = EXPERIMENTS["exp1"]

    results = run_cases(experiment.cases(list(tables.values()), 50), tables, 2, lambda _: None)

    rows = pd.DataFrame(experiment.findings(results).rows["exp1"])
    assert list(rows.columns) == ["arm", "trees", "seed", "rules"]
    means = rows.groupby(["arm", "trees"])["rules"].agg(fmean)
    assert means["all", 84] == pytest.approx(6.4, abs=0.1)
    assert means["single", 1] == pytest.approx(1.1, abs=0.1)
    assert means["maabo", 40] > 0.85 * means["all", 84]
    assert means["random", 40] < 0.65 * means["all", 84]
