"""The tables of the power experiment have what they promise, and findings are counted as described."""

import json

import numpy as np
import pandas as pd
import pytest

from bench.quality.power import count_findings
from bench.quality.power_tables import KINDS, TARGET, Plant, PowerTable, make_table
from maabo_dist.contract.result import ResultDocument
from tests.documents import document_json, rule_json


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_as_large_as_requested_and_the_same_for_the_same_seed(kind):
    table, again, other = (make_table(kind, seed, 60, 500) for seed in (3, 3, 4))

    assert table.frame.shape == (500, 61)
    assert table.frame.equals(again.frame)
    assert not table.frame.equals(other.frame)
    assert len(table.noise) > 20


def precision(table, plant):
    return (table.frame[TARGET][plant.rows] == plant.label).mean()


@pytest.mark.parametrize(
    ("kind", "expected", "coverage"),
    [
        ("rare class", 0.35, 0.02),
        ("weak rules", 0.65, 0.155),
        ("narrow tails", 0.9, 0.03),
        ("five classes", 0.7, 0.095),
        ("sets of levels", 0.8, 0.18),
        ("missingness", 0.8, 0.11),
        ("proxies", 0.8, 0.16),
    ],
)
def test_planted_rules_have_their_precision_and_coverage(kind, expected, coverage):
    table = make_table(kind, 1, 60, 60_000)

    # Later rules change rows of earlier ones, by chance a few.
    assert [precision(table, plant) for plant in table.plants] == pytest.approx(
        [expected] * len(table.plants), abs=0.09
    )
    assert [plant.rows.mean() for plant in table.plants] == pytest.approx([coverage] * len(table.plants), abs=0.03)
    if kind == "rare class":
        assert (table.frame[TARGET] == "yes").mean() == pytest.approx(0.02, abs=0.003)


def test_proxies_are_correlated_with_their_originals_and_no_other_column_is():
    table = make_table("proxies", 2, 60, 20_000)

    correlations = table.frame.drop(columns=TARGET).corr().abs()
    assert len(table.proxies) == 20
    assert [correlations[proxy][own] for proxy, own in table.proxies.items()] == pytest.approx([0.9] * 20, abs=0.01)
    assert correlations.loc[list(table.noise)].apply(lambda row: row.nlargest(2).iloc[1], axis=1).max() < 0.05


def document(*rules):
    return ResultDocument.parse_text(json.dumps(document_json(rules=list(rules))))


def test_findings_are_counted_by_rows_by_columns_and_with_noise():
    frame = pd.DataFrame({"a": np.arange(100.0), "b": np.arange(100.0), "c": np.arange(100.0) % 7, "y": "no"})
    plants = (
        Plant("yes", frozenset({"a"}), np.arange(100) > 59),
        Plant("yes", frozenset({"c"}), np.arange(100) % 7 > 5),
        Plant("no", frozenset({"a"}), np.arange(100) <= 9),
    )
    table = PowerTable(frame, plants, {"b": "a"})
    stand_in = {"column": "a", "instead_of": "b", "correlation": 1.0}
    rules = [
        rule_json({"feature": "b", "op": ">", "value": 70.0}, id="R1", **{"class": "yes"}, stand_ins=[stand_in]),
        rule_json({"feature": "a", "op": ">", "value": 95.0}, id="R2", **{"class": "yes"}),
        rule_json({"feature": "c", "op": "<=", "value": 2.0}, id="R3", **{"class": "no"}),
    ]

    counts = count_findings(document(*rules), table)

    assert counts == {"planted": 3, "found": 1, "by_rows": 1, "findings": 3, "repeats": 1, "noise": 0, "named": 1}
    noisy = PowerTable(frame, plants[:1])
    assert count_findings(document(*rules), noisy) | {"planted": 1} == {
        "planted": 1, "found": 1, "by_rows": 1, "findings": 3, "repeats": 1, "noise": 2, "named": None
    }  # fmt: skip
