"""Conditions of findings: they describe exactly the rows that were counted, and sets and missing cells are found."""

import sqlite3
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist import MiningSettings, mine
from maabo_dist.contract.conditions import Op
from maabo_dist.data.preparation import prepare
from maabo_dist.findings.candidates import find_candidates
from maabo_dist.findings.thresholds import shortest_number
from maabo_dist.report.document import result_document
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.rules.frame_matching import match_frame
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.matching import covered_rows, match_cells
from maabo_dist.settings import TableSettings
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import findings as slow

LEVELS = [f"L{number}" for number in range(12)]
PLANTED = ("L1", "L10", "L4", "L7")


def a_frame(seed, rows=400, classes=2):
    """Return numbers, whole numbers, dates and texts with missing cells, all of which say something on the class."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": rng.normal(3, 2, rows).round(3),
            "whole": rng.integers(-3, 9, rows).astype(float),
            "text": rng.choice(LEVELS, rows),
            "few": rng.choice(["a", "b", "c"], rows),
            "pair": rng.choice(["no", "yes"], rows),
            "noise": rng.normal(size=rows),
        }
    )
    score = (frame["number"] > 3.5) * 1.0 + frame["text"].isin(PLANTED) + (frame["whole"] > 2) + (frame["few"] == "b")
    for column in ("number", "whole", "text", "few"):
        gone = rng.random(rows) < 0.15
        score[gone] += rng.choice([-1, 0, 1])
        frame.loc[gone, column] = None
    noisy = score + rng.normal(0, 0.5, rows)
    frame["y"] = pd.qcut(noisy, classes, labels=[f"c{number}" for number in range(classes)]).astype(str)
    return frame


def mined(frame, max_levels=50, **options):
    prepared = prepare(frame, TableSettings(target="y", max_levels=max_levels))
    return prepared, mine(prepared.columns, MiningSettings(**{"trees": 60, "certify": "off", "holdout": 0.2} | options))


@pytest.mark.parametrize(("classes", "max_levels"), [(2, 50), (2, 6), (3, 50), (4, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_every_output_selects_the_rows_that_were_counted(seed, classes, max_levels):
    frame = a_frame(seed, classes=classes)
    prepared, result = mined(frame, max_levels, all=True, max_rules=40)
    document = result_document(result, {"name": "table"})
    cells = frame.astype(object).where(frame.notna(), None).to_dict("records")
    with sqlite3.connect(":memory:") as database:
        frame.reset_index(names="row").to_sql("data", database, index=False)
        queries = [query for query in to_sql(document).split(";") if query.strip()]
        answers = [row[:2] for query in queries for row in database.execute(query)]
    by_pandas = {"df": frame}
    exec(to_pandas(document), by_pandas)
    premises = [rule.conditions for rule in result.rules]
    by_cells, by_frame = match_cells(premises, cells), match_frame(premises, frame, prepared.encoder)
    labels = frame["y"].to_numpy()

    assert len(result.rules) > 3
    for number, rule in enumerate(result.rules):
        rows = set(np.flatnonzero(by_cells[number]).tolist())
        assert set(np.flatnonzero(by_frame[number]).tolist()) == rows
        assert {row for name, row in answers if name == rule.id} == set(by_pandas[rule.id].index) == rows
        parts = (rule.train, rule.validation, rule.holdout)
        for index, name in enumerate(result.classes):
            assert sum(part.counts[name] for part in parts) == sum(labels[row] == name for row in rows), index


@pytest.mark.parametrize("classes", [2, 3])
def test_columns_appear_in_one_condition_or_in_two_bounds(classes):
    for seed in range(3):
        _, result = mined(a_frame(seed, classes=classes), all=True, max_rules=60)
        for rule in result.rules:
            for column in {condition.feature for condition in rule.conditions}:
                ops = sorted(condition.op for condition in rule.conditions if condition.feature == column)
                assert len(ops) == 1 or ops in ([Op.AT_MOST, Op.ABOVE], [Op.AT_MOST, Op.AT_LEAST]), rule.conditions


@pytest.mark.parametrize("seed", range(3))
def test_no_condition_is_redundant_and_no_threshold_has_a_digit_too_many(seed):
    frame = a_frame(seed)
    prepared, result = mined(frame, all=True, max_rules=60, holdout=0.0)
    seen = {column: np.unique(frame[column].dropna()) for column in ("number", "whole", "noise")}

    for rule in result.rules:
        (rows,) = match_frame([rule.conditions], frame, prepared.encoder)
        for condition in rule.conditions:
            others = tuple(other for other in rule.conditions if other is not condition)
            assert match_frame([others], frame, prepared.encoder).sum() > rows.sum(), rule.conditions
            if condition.op in {Op.ABOVE, Op.AT_MOST} and condition.feature != "whole":
                values = seen[condition.feature]
                cut = np.searchsorted(values, condition.value, side="right")
                fewest = slow.fewest_decimals(float(values[cut - 1]), float(values[cut]))
                assert slow.decimals(condition.value) == fewest
            if condition.feature == "whole" and condition.value is not None:
                assert condition.op in {Op.AT_LEAST, Op.AT_MOST}
                assert condition.value == int(condition.value)


def planted_sets(seed):
    """Return 4,000 rows and 200 columns; 4 of 12 levels, and a number above its median, make a class frequent."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{number}": rng.normal(size=4000).round(2) for number in range(199)})
    frame["c"] = rng.choice(LEVELS, 4000)
    planted = frame["c"].isin(PLANTED) & (frame["x0"] > 0)
    frame["y"] = np.where(rng.random(4000) < np.where(planted, 0.75, 0.35), "yes", "no")
    return frame


@pytest.mark.slow
def test_a_planted_set_of_levels_is_found_as_one_condition():
    found = 0
    for seed in range(10):
        _, result = mined(planted_sets(seed), trees=1500)
        sets = [c.value for rule in result.rules for c in rule.conditions if c.feature == "c" and c.op is Op.IN]
        found += PLANTED in sets

    assert found >= 9


@pytest.mark.slow
def test_sets_of_levels_are_not_found_where_there_are_none():
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"c{number}": rng.choice(LEVELS[: 4 + 2 * number], 300) for number in range(5)})
        frame.loc[rng.random(300) < 0.2, "c0"] = None
        _, result = mined(frame.assign(y=rng.choice(["no", "yes"], 300)), certify=19, strategy="random")
        found += len(result.rules) > 0

    assert found <= 5


def test_missing_cells_are_found_where_they_say_something():
    found = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"x{number}": rng.normal(size=1000) for number in range(20)})
        frame["c"] = rng.choice(list("abcd"), 1000)
        column, missing = ("x3", "c")[seed % 2], rng.random(1000) < 0.15
        frame.loc[missing, column] = None
        frame["y"] = np.where(rng.random(1000) < np.where(missing, 0.75, 0.3), "yes", "no")
        _, result = mined(frame, trees=400)
        found += any(
            [(c.feature, c.op) for c in rule.conditions] == [(column, Op.IS_MISSING)]
            for rule in result.rules
            if result.classes[rule.label] == "yes"
        )

    assert found >= 9


def test_no_condition_holds_because_of_filled_in_cells():
    """Income says nothing; that it is missing does. With the median filled in, a narrow interval would hold."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"income": rng.normal(125, 30, 1500).round(), "other": rng.normal(size=1500)})
    missing = rng.random(1500) < 0.1
    frame["y"] = np.where(rng.random(1500) < np.where(missing, 0.8, 0.3), "yes", "no")
    frame.loc[missing, "income"] = None

    _, result = mined(frame, all=True)

    about = [rule for rule in result.rules if result.classes[rule.label] == "yes"]
    assert about
    assert all(rule.conditions[0].op is Op.IS_MISSING for rule in about)


def test_missing_cells_that_support_a_bound_are_part_of_it_and_others_are_not():
    found = {}
    for share in (0.8, 0.3):
        rng = np.random.default_rng(2)
        frame = pd.DataFrame({"x": rng.normal(size=2000).round(2), "other": rng.normal(size=2000)})
        missing = rng.random(2000) < 0.15
        chance = np.where(missing, share, np.where(frame["x"] <= -0.5, 0.8, 0.3))
        frame["y"] = np.where(rng.random(2000) < chance, "yes", "no")
        frame.loc[missing, "x"] = None
        _, result = mined(frame)
        found[share] = next(rule.conditions for rule in result.rules if result.classes[rule.label] == "yes")

    for share, (condition,) in found.items():
        assert (condition.feature, condition.op, condition.or_missing) == ("x", Op.AT_MOST, share == 0.8)
        assert condition.value == pytest.approx(-0.5, abs=0.1)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_the_conditions_of_leaves_are_those_of_the_slow_twin(seed, classes):
    frame = a_frame(seed, 120, classes)
    columns = prepare(frame, TableSettings(target="y", max_levels=8)).columns
    rng = np.random.default_rng(seed)
    study = factories.make_study(columns, factories.make_split(rng, columns.rows))
    subsets = np.sort([rng.choice(columns.count, 3, replace=False) for _ in range(8)], axis=1).astype(np.int32)
    forest = depth_search(study.table, subsets, 4, whole=True)
    leaves = reliable_leaves(forest, LeafFilter(3, 1.0, study.table.weights, every_depth=True))

    candidates, table = find_candidates(leaves, study)

    mined_rows = table.mined.rows
    for index, (literals, bounds) in enumerate(zip(table.literals, table.bounds, strict=True)):
        expected = covered_rows(study.columns, mined_rows, literals[None], bounds[None])[0]
        assert np.array_equal(table.mined.unpack(table.bits[index]), expected)
        levels, size = slow.levels_in_condition(study.columns, literals, bounds)
        assert (table.log_sets[index] > 0) == (size > 1)
        if size > 1:
            counted = 2 * comb(levels, size) * (levels // 2 - 1) * table.choices.sets
            assert table.log_sets[index] == pytest.approx(np.log(counted))
    assert (candidates.rows > 0).any()


@given(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 4)),
    st.floats(1e-4, 1e4).map(lambda x: round(x, 4)),
)
def test_thresholds_are_the_shortest_decimals_that_separate_two_numbers(low, gap):
    high = low + gap
    number = shortest_number(low, high)

    assert low <= number < high
    assert slow.decimals(number) == slow.fewest_decimals(low, high)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4))
def test_thresholds_between_whole_numbers_are_whole_and_end_in_the_most_zeros(low, gap):
    number = shortest_number(float(low), float(low + gap), whole=True)

    assert number == int(number)
    assert low <= number < low + gap
    zeros = [slow.zeros_at_end(other) for other in range(low, low + gap)]
    assert slow.zeros_at_end(int(number)) == max(zeros)


@pytest.mark.parametrize(("low", "high"), [(5e-324, 1e-323), (1.0, 1.0000000000000002), (1e308, 1.7e308), (-3.5, -3.4)])
def test_extreme_numbers_are_separated_too(low, high):
    assert low <= shortest_number(low, high) < high
