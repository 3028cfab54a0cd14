"""The page about tables shows what the program says."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from maabo_dist.data.readers import EXCEL, FEATHER, JSON_LINES, PARQUET
from maabo_dist.data.text_files import SEPARATORS

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def members(rows=600):
    """A table as an office program may export it: semicolons, decimal commas, dates, an encoding that is not UTF-8."""
    draw = np.random.default_rng(7)
    joined = pd.Timestamp("2022-01-03") + pd.to_timedelta(draw.integers(0, 900, rows), "D")
    towns = [f"town {number}" for number in range(90)]
    fee = draw.gamma(2, 300, rows).round(2)
    contract = draw.choice(["monthly", "yearly"], rows)
    left = draw.random(rows) < 0.08 + 0.5 * ((contract == "monthly") & (fee < 450)) + 0.3 * (joined.day_of_week >= 5)
    return pd.DataFrame(
        {
            "member_id": np.arange(1000, 1000 + rows),
            "joined": joined.strftime("%d.%m.%Y"),
            "town": draw.choice(["Zürich", "Köln", *towns], rows, p=[0.3, 0.25, *[0.005] * 90]),
            "fee": [f"{value:.2f}".replace(".", ",") for value in fee],
            "age": [str(age) if age > 24 else "" for age in draw.integers(18, 80, rows)],
            "contract": contract,
            "reason": np.where(left, draw.choice(["price", "moved"], rows), ""),
            "country": "CH",
            "left": np.where(left, "yes", "no"),
        }
    )


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def test_the_notes_of_the_example_are_those_of_the_program(maabo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("members.csv").write_text(members().to_csv(sep=";", index=False), encoding="latin-1")
    command, notes = re.search(
        r"```console\n\$ (maabo mine members.csv .*)\n.*?\n((?: *!.*?\n)+(?: .*\n)*)```", PAGE
    ).groups()

    code, out, _ = maabo(*command.split()[1:])

    assert code == 0
    shown, first = lines(out), lines(notes)[0]
    assert shown[shown.index(first) :][: len(lines(notes))] == lines(notes)


def test_every_file_format_of_the_page_is_read():
    for suffix in (*SEPARATORS, *JSON_LINES, *EXCEL, *PARQUET, *FEATHER):
        assert f"`{suffix}`" in PAGE
