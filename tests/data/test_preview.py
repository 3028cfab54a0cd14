"""The preview of a table: what columns hold, how mining uses them, and the guess of the column to explain."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.preview import BINS, MAX_COLUMNS, SAMPLE_ROWS, preview
from maabo_dist.data.readers import read_table
from maabo_dist.settings import TableSettings

ROWS = 200


@pytest.fixture
def frame():
    draws = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "order_id": [f"A{number}" for number in range(ROWS)],
            "when": pd.date_range("2024-01-01", periods=ROWS).strftime("%d.%m.%Y"),
            "price": draws.normal(20, 5, ROWS),
            "colour": draws.choice(["red", "green", "blue"], ROWS, p=[0.6, 0.3, 0.1]),
            "nothing": np.nan,
            "same": "x",
            "returned": draws.choice(["yes", "no"], ROWS),
        }
    )


def test_each_column_has_the_use_that_mining_makes_of_it(frame):
    uses = {column.description.name: column.use for column in preview(frame).columns}

    assert uses == {
        "order_id": "identifier",
        "when": "date",
        "price": "feature",
        "colour": "feature",
        "nothing": "empty",
        "same": "constant",
        "returned": "feature",
    }
    used = {feature.column for feature in prepare(frame, TableSettings(target="returned")).columns.features}
    assert used == {name for name, use in uses.items() if use in {"feature", "date"}} - {"returned"}


def test_histograms_count_every_present_cell(frame):
    frame.loc[:9, "price"] = np.nan
    columns = {column.description.name: column for column in preview(frame).columns}

    assert len(columns["price"].histogram) == BINS
    assert sum(columns["price"].histogram) == ROWS - 10
    assert sum(columns["when"].histogram) == ROWS
    assert (columns["when"].first, columns["when"].last) == ("2024-01-01", "2024-07-18")
    assert columns["colour"].frequent == ("red", "green", "blue")
    assert list(columns["colour"].histogram) == frame["colour"].value_counts().tolist()


def test_few_distinct_numbers_have_a_bin_each():
    (column,) = preview(pd.DataFrame({"stars": [1, 5, 5, 3, 5, None]})).columns

    assert column.histogram == (1, 1, 3)


def test_cells_of_any_kind_can_be_previewed():
    frame = pd.DataFrame(
        {
            "infinite": [1.0, np.inf, 2.0],
            "decimal": [Decimal("1.5"), Decimal(2), None],
            "list": [[1], [2], [3]],
            "mixed": [1, "two", True],
            "times": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "bytes": [b"a", b"b", None],
        }
    )

    kinds = {column.description.name: (column.description.kind, column.use) for column in preview(frame).columns}
    assert kinds["infinite"] == ("other", "feature")
    assert kinds["decimal"] == ("number", "feature")
    assert kinds["list"] == ("other", "unsupported")
    assert kinds["times"][1] == "date"
    assert kinds["bytes"][1] == "unsupported"


def test_the_first_rows_are_shown_as_text(frame):
    frame.loc[0, "colour"] = None
    sample = preview(frame).sample

    assert len(sample) == SAMPLE_ROWS
    assert sample[0][0] == "A0"
    assert sample[0][3] is None
    assert preview(pd.DataFrame({"list": [[1, 2]] * 3, "n": [1.0, 2.0, 3.5]})).sample[2] == ("[1, 2]", "3.5")


def test_a_wide_table_has_histograms_of_its_first_columns_only():
    wide = pd.DataFrame(np.arange(3 * (MAX_COLUMNS + 5)).reshape(3, -1)).rename(columns=str)
    columns = preview(wide).columns

    assert len(columns) == MAX_COLUMNS + 5
    assert columns[MAX_COLUMNS - 1].histogram
    assert not columns[MAX_COLUMNS].histogram


def test_notes_say_how_the_file_was_read(tmp_path):
    path = tmp_path / "towns.csv"
    path.write_bytes("Ort;Miete\nKöln;3,5\nBonn;4,25\n".encode("latin-1"))
    notes = preview(read_table(path)).notes

    assert any("Windows-1252" in note for note in notes)
    assert any("decimal commas" in note for note in notes)


def guess(**columns):
    draws = np.random.default_rng(4)
    kinds = {
        "two": lambda: draws.choice(["a", "b"], ROWS),
        "answer": lambda: draws.choice(["yes", "no"], ROWS),
        "binary": lambda: draws.integers(0, 2, ROWS),
        "five": lambda: draws.choice(list("abcde"), ROWS),
        "number": lambda: draws.normal(size=ROWS),
        "gaps": lambda: np.where(draws.random(ROWS) < 0.8, None, "a"),
    }
    return preview(pd.DataFrame({name: kinds[kind]() for name, kind in columns.items()})).target


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        ({"survived": "binary", "sex": "two", "age": "number"}, "survived"),
        ({"Churn": "answer", "newsletter": "answer"}, "Churn"),
        ({"tenure": "number", "IsChurned": "binary", "partner": "answer"}, "IsChurned"),
        ({"class": "five", "paid": "answer"}, "class"),
        ({"target": "number", "x": "number"}, "target"),
        ({"a": "number", "rented": "two", "b": "number"}, "rented"),
        ({"tool": "two", "broken": "answer", "z": "number"}, "broken"),
        ({"a": "number", "b": "number", "last": "number"}, None),
        ({"a": "number", "last": "five"}, None),
        ({"sex": "binary", "height": "number"}, None),
        ({"outcome": "gaps", "x": "number"}, None),
    ],
)
def test_the_target_is_guessed_by_name_and_values_and_never_by_position_alone(columns, target):
    assert guess(**columns) == target


@pytest.mark.parametrize(
    ("name", "target"), [("breast_cancer", "diagnosis"), ("wine", "cultivar"), ("diabetes", "progression")]
)
def test_the_target_of_bundled_tables_is_guessed(name, target):
    frame, settings = load_bundled(name)

    assert preview(frame).target == settings.target == target
