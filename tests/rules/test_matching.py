"""Raw cells match the rules whose SQL selects them; covering rules predict the class with the greatest mean share."""

import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.report.exports import to_sql
from maabo_dist.rules.matching import match_cells, mean_class_shares, predicted_classes
from maabo_dist.settings import MiningSettings, TableSettings
from tests.report.handmade import make_document, make_rule

LEVELS = ["C", "o'clock", "true", "3", "", "-0.5"]
numbers = st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float)
bounds = st.builds(
    Condition, st.sampled_from(["x", "y"]), st.sampled_from([Op.AT_MOST, Op.ABOVE]), numbers, st.booleans()
)
levels = st.builds(
    Condition, st.sampled_from(["a", "b"]), st.sampled_from([Op.IS, Op.IS_NOT]), st.sampled_from(LEVELS), st.booleans()
)
absences = st.builds(Condition, st.sampled_from(["x", "a"]), st.sampled_from([Op.IS_MISSING, Op.IS_PRESENT]), st.none())
premises = st.lists(bounds | levels | absences, max_size=4, unique=True)
row = st.fixed_dictionaries(
    {name: st.none() | numbers for name in "xy"} | {name: st.none() | st.sampled_from(LEVELS) for name in "ab"}
)


def matches_by_sql(conditions, rows):
    """Return the matches of the rules' own SQL in SQLite, as a reference."""
    document = make_document(*(make_rule(*each, number=index + 1) for index, each in enumerate(conditions)))
    covered = np.zeros((len(conditions), len(rows)), bool)
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE data (place INTEGER, x REAL, y REAL, a TEXT, b TEXT)")
        cells = [(index, *(each[name] for name in "xyab")) for index, each in enumerate(rows)]
        database.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?)", cells)
        for number, statement in enumerate(filter(str.strip, to_sql(document).split(";\n"))):
            for _, index, *_ in database.execute(statement):
                covered[number, index] = True
    database.close()
    return covered.tolist()


@settings(max_examples=60)
@given(st.lists(premises, min_size=1, max_size=4), st.lists(row, min_size=1, max_size=8))
def test_a_rule_matches_the_rows_that_its_sql_selects(conditions, rows):
    assert match_cells(conditions, rows).tolist() == matches_by_sql(conditions, rows)


@pytest.fixture(scope="module")
def mined():
    draw = np.random.default_rng(8)
    size = 400
    frame = pd.DataFrame(
        {
            "age": draw.normal(40, 12, size).round(1),
            "port": draw.choice(["C", "Q", "S"], size),
            "member": draw.random(size) < 0.5,
        }
    )
    frame["y"] = np.where((frame["age"] > 45) & frame["member"] | (frame["port"] == "C"), "yes", "no")
    frame["age"] = frame["age"].mask(draw.random(size) < 0.1)
    frame["port"] = frame["port"].mask(draw.random(size) < 0.1)
    table = prepare(frame, TableSettings(target="y", missing_indicator=True))
    settings = MiningSettings(preset="paper", min_samples=5, gini=0.9, similarity=1.0, subset_size=2, trees="100%")
    return frame, mine(table.columns, settings)


def test_on_its_own_table_a_rule_matches_exactly_the_rows_that_it_covers(mined):
    frame, result = mined
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")

    counts = match_cells([rule.conditions for rule in result.rules], rows).sum(axis=1)

    assert len(result.rules) > 5
    assert counts.tolist() == [rule.train.n + rule.validation.n for rule in result.rules]


def test_levels_match_however_they_are_spelled():
    rule = (Condition("flag", Op.IS, "true"), Condition("code", Op.IS, "3"))

    for flag, code in [(True, 3), ("true", "3"), (True, 3.0)]:
        assert match_cells([rule], [{"flag": flag, "code": code}]).tolist() == [[True]]
    assert not match_cells([rule], [{"flag": False, "code": 3}, {"flag": "True", "code": 3}]).any()


def test_texts_that_mean_a_missing_cell_can_be_named():
    rules = [[Condition("port", Op.IS_NOT, "C")]]

    assert not match_cells(rules, [{"port": "?"}, {"port": float("nan")}], frozenset({"?"})).any()
    assert match_cells(rules, [{"port": "?"}]).all()


def test_whole_numbers_of_any_size_compare_exactly():
    rules = [[Condition("x", Op.ABOVE, 2.0**53)]]

    assert match_cells(rules, [{"x": 2**53}, {"x": 2**53 + 1}]).tolist() == [[False, True]]


def test_columns_that_a_row_lacks_are_named():
    rules = [[Condition("x", Op.ABOVE, 1.0), Condition("a", Op.IS, "C")]]

    with pytest.raises(DatasetError, match="Row 1 lacks 'a', which") as caught:
        match_cells(rules, [{"x": 1, "a": "C"}, {"x": 1}])
    assert caught.value.field == "rows.1"


def test_numbers_written_as_text_are_compared_as_numbers():
    assert match_cells([[Condition("x", Op.ABOVE, 1.0)]], [{"x": "2"}, {"x": "1"}]).tolist() == [[True, False]]


@pytest.mark.parametrize("cell", ["abc", "1 m", True])
def test_a_cell_that_is_not_a_number_is_not_compared_with_one(cell):
    with pytest.raises(DatasetError, match="where rules compare numbers"):
        match_cells([[Condition("x", Op.ABOVE, 1.0)]], [{"x": cell}])


def test_without_rules_no_row_is_covered():
    assert match_cells([], [{"x": 1}, {}]).shape == (0, 2)
    assert predicted_classes(match_cells([], [{"x": 1}, {}]), []) == [None, None]


def test_covering_rules_predict_the_class_of_the_greatest_mean_share():
    counts = [(2, 8), (90, 10), (6, 4)]
    covered = np.array([[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1]], bool)

    assert predicted_classes(covered, counts) == [None, 1, 0, 1]
    assert mean_class_shares(covered, counts)[2] == pytest.approx([0.55, 0.45])
    assert np.isnan(mean_class_shares(covered, counts)[0]).all()


def test_matching_loads_neither_pandas_nor_numba():
    program = "import sys, maabo_dist.rules.matching; print(*{'pandas', 'numba'} & set(sys.modules))"

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"
