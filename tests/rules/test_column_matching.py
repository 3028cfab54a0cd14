"""Rules of documents on a prepared table cover the rows that they cover in the search, and in the raw table."""

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.rules.column_matching import match_columns
from maabo_dist.rules.matching import match_cells
from maabo_dist.settings import MiningSettings, TableSettings


def mixed_table(seed, rows=500):
    """Numbers, texts and dates, with gaps, and two columns of the same content."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(draw.random(rows) < 0.2, np.nan, draw.integers(18, 80, rows)),
            "port": draw.choice(["C", "Q", "S", None], rows),
            "same": "",
            "sex": draw.choice(["female", "male"], rows),
            "town": draw.choice([f"t{number}" for number in range(70)], rows),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.integers(0, 400, rows), "D"),
            "noise": draw.normal(size=rows),
        }
    )
    frame["same"] = np.where(frame["port"] == "Q", "yes", "no")
    likely = (
        (frame["age"] > 50) | (frame["port"] == "C") & (frame["sex"] == "male") | frame["joined"].dt.month.isin([1, 2])
    )
    return frame.assign(y=np.where(likely ^ (draw.random(rows) < 0.15), "yes", "no"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_published_rules_cover_as_many_rows_as_they_say(seed, preset):
    table = mixed_table(seed)
    columns = prepare(table, TableSettings(target="y", missing_indicator=seed % 2 == 0)).columns
    options = {"min_samples": 10, "gini": 0.9, "trees": 60} if preset == "paper" else {"all": True, "max_p": 1.0}
    document = result_document(mine(columns, MiningSettings(preset=preset, **options)), {"name": "table"})

    covered = match_columns([rule.premise for rule in document.rules], columns)

    assert len(document.rules) > 5
    assert covered.sum(axis=1).tolist() == [sum(part.n for part in rule.supports.values()) for rule in document.rules]
    raw = table.astype({"joined": str}).astype(object).where(table.notna(), None).to_dict("records")
    assert (covered == match_cells([rule.premise for rule in document.rules], raw)).all()


def test_a_rule_without_conditions_covers_every_row():
    columns = prepare(mixed_table(0), TableSettings(target="y")).columns

    assert match_columns([()], columns).all()
    assert match_columns([], columns).shape == (0, 500)


def test_a_condition_on_a_column_of_another_table_is_refused():
    columns = prepare(mixed_table(0), TableSettings(target="y")).columns

    with pytest.raises(DatasetError, match="no column 'fare'"):
        match_columns([[Condition("fare", Op.ABOVE, 3.0)]], columns)
