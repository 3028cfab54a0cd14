"""Rules that fire for raw rows are those whose SQL selects them."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
from handmade import make_document, make_rule
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.report import fired, needed_columns, result_document, to_sql
from maabo_dist.report.firing import predicted
from maabo_dist.settings import MiningSettings, TableSettings

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


def fired_by_sql(document, rows):
    """The slow twin: the rules' own SQL, in SQLite."""
    found = [[] for _ in rows]
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE data (place INTEGER, x REAL, y REAL, a TEXT, b TEXT)")
        cells = [(place, *(each[name] for name in "xyab")) for place, each in enumerate(rows)]
        database.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?)", cells)
        for number, statement in enumerate(filter(str.strip, to_sql(document).split(";\n"))):
            for _, place, *_ in database.execute(statement):
                found[place].append(number)
    database.close()
    return found


@settings(max_examples=60)
@given(st.lists(premises, min_size=1, max_size=4), st.lists(row, min_size=1, max_size=8))
def test_a_rule_fires_for_the_rows_that_its_sql_selects(conditions, rows):
    document = make_document(*(make_rule(*each, number=place + 1) for place, each in enumerate(conditions)))

    assert fired(document, rows) == fired_by_sql(document, rows)


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


def test_on_its_own_table_a_rule_fires_for_exactly_the_rows_that_it_covers(mined):
    frame, result = mined
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    found = fired(result_document(result, {"name": "table"}), rows)

    counts = [sum(place in places for places in found) for place in range(len(result.rules))]
    assert len(result.rules) > 5
    assert counts == [rule.train.n + rule.validation.n for rule in result.rules]


def test_levels_are_found_however_they_are_spelled():
    document = make_document(make_rule(Condition("flag", Op.IS, "true"), Condition("code", Op.IS, "3")))

    for flag, code in [(True, 3), ("true", "3"), (True, 3.0)]:
        assert fired(document, [{"flag": flag, "code": code}]) == [[0]]
    assert fired(document, [{"flag": False, "code": 3}, {"flag": "True", "code": 3}]) == [[], []]


def test_texts_that_mean_a_missing_cell_can_be_named():
    document = make_document(make_rule(Condition("port", Op.IS_NOT, "C")))

    assert fired(document, [{"port": "?"}, {"port": float("nan")}], frozenset({"?"})) == [[], []]
    assert fired(document, [{"port": "?"}]) == [[0]]


def test_columns_that_a_row_lacks_are_named():
    document = make_document(make_rule(Condition("x", Op.ABOVE, 1.0), Condition("a", Op.IS, "C")))

    assert needed_columns(document) == ("x", "a")
    with pytest.raises(DatasetError, match="Row 1 lacks 'a', which") as caught:
        fired(document, [{"x": 1, "a": "C"}, {"x": 1}])
    assert caught.value.field == "rows.1"


@pytest.mark.parametrize("cell", ["abc", "1", True])
def test_what_is_no_number_is_not_compared_with_one(cell):
    document = make_document(make_rule(Condition("x", Op.ABOVE, 1.0)))

    with pytest.raises(DatasetError, match="where rules compare numbers"):
        fired(document, [{"x": cell}])


def test_rules_speak_for_the_class_of_the_greatest_mean_share():
    document = make_document(
        make_rule(counts=(2, 8)), make_rule(number=2, counts=(90, 10), label=0), make_rule(number=3, counts=(6, 4))
    )

    assert [predicted(document, places) for places in ([], [0], [0, 1], [0, 2])] == [None, "1", "0", "1"]
