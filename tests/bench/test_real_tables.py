"""The benchmark on real tables, without peers and downloads: the scorer counts right, and records are kept."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from bench.real_tables import ours
from bench.real_tables.draws import ABOVE, AT_MOST, Draw, class_name, draw_rows
from bench.real_tables.encoding import encode, fit_columns
from bench.real_tables.figures import Comparison, TableFigures, certain_classes
from bench.real_tables.nulls import repeat_rows, shuffle_labels
from bench.real_tables.peers import PEERS, mine_with_peer
from bench.real_tables.records import Store
from bench.real_tables.registry import TABLES, RealTable, select_tables
from bench.real_tables.scoring import (
    FoundRule,
    benjamini_hochberg_passes,
    holm_passes,
    pack_mask,
    returning_share,
    score_rules,
    unpack_mask,
    wilson_interval,
)
from bench.real_tables.summary import print_summary

TABLE = RealTable("small", "none", "none.csv", "y", "development")
NUMERIC = RealTable("small", "none", "none.csv", "y", "development", numeric=True)
DEVELOPMENT = {
    *("titanic", "german", "hr", "OJ", "Carseats", "Auto", "Default", "breast_cancer", "wine", "penguins", "fair"),
    *("rossi", "gbsg2", "birthwt", "Aids2", "Pima", "Womenlf", "Cowles", "Salaries", "SLID", "turnout", "voteincome"),
    *("Hdma", "Mroz", "Participation", "Mathlevel", "Kakadu", "Computers", "Males", "Caschool", "Treatment", "infert"),
    *("colon", "nwtco", "flchain", "Cracker", "Ketchup", "Tuna", "Workinghours", "VietNamI", "HI", "DoctorContacts"),
    *("BudgetFood", "VerbAgg", "bfi", "baseball", "rwm5yr", "labsup", "injury", "alcohol", "pension", "catholic"),
    *("fertil2", "thornton_hiv"),
}


def small_draw(rows=40):
    """The second half is unseen; of it, the first half is of class `a`."""
    frame = pd.DataFrame({"x": np.arange(rows), "y": np.where(np.arange(rows) % 20 < 10, "a", "b")})
    return Draw(TABLE, frame, np.arange(rows // 2), np.arange(rows // 2, rows), frame["y"].to_numpy(str), 0)


def rule_on(label, rows, count=40):
    mask = np.zeros(count, bool)
    mask[list(rows)] = True
    return FoundRule(label, f"rows of {label}", mask)


def scored(rules, split=0):
    record = {"method": "ours", "table": TABLE.name, "split": split, "version": "v", "failure": "", "message": ""}
    return record | {"cpu": 0.5, "shape": [20, 1]} | score_rules(rules, small_draw())


def test_the_scorer_counts_on_unseen_rows_only():
    good, poor = rule_on("a", [0, *range(20, 29), 30]), rule_on("b", [*range(20), 29, 30])
    record = score_rules([good, poor], small_draw())
    first, second = record["evidence"]
    assert (first["n"], first["hits"], first["base"]) == (10, 9, 0.5)
    assert first["p"] == pytest.approx(hypergeom.sf(8, 20, 10, 10))
    assert first["lift"] == pytest.approx(1.8)
    assert (second["n"], second["hits"]) == (2, 1)
    assert (record["rules"], record["holding"], record["holm"], record["bh"]) == (2, 1, 1, 1)
    assert record["classes"] == ["a", "b"]
    assert record["holm_classes"] == ["a"]
    assert record["covered"] == pytest.approx(11 / 20)
    assert record["lift"] == pytest.approx((1.8 + 1.0) / 2)


def test_a_rule_that_covers_no_unseen_row_does_not_hold_and_has_no_lift():
    record = score_rules([rule_on("a", range(20))], small_draw())
    assert (record["empty"], record["holding"], record["lift"], record["covered"]) == (1, 0, None, 0.0)


def test_overlap_is_that_of_the_most_similar_rules_of_one_class():
    rules = [rule_on("a", range(20, 30)), rule_on("a", range(25, 30)), rule_on("b", range(20, 30))]
    assert score_rules(rules, small_draw())["overlap"] == pytest.approx(0.5)
    assert score_rules(rules[1:], small_draw())["overlap"] is None


def test_no_rules_are_scored_too():
    record = score_rules([], small_draw())
    assert (record["rules"], record["covered"], record["lift"], record["overlap"]) == (0, 0.0, None, None)
    assert returning_share(record, record) is None


def test_corrections():
    p_values = np.array([0.04, 0.001, 0.02, 0.5])
    assert holm_passes(p_values).tolist() == [False, True, False, False]
    assert benjamini_hochberg_passes(p_values).tolist() == [False, True, True, False]
    assert not holm_passes(np.array([])).any()
    assert not benjamini_hochberg_passes(np.array([])).any()


def test_wilson_interval_of_no_event():
    low, high = wilson_interval(0, 500)
    assert (low, high) == pytest.approx((0, 0.0076), abs=1e-4)


def test_masks_are_stored_exactly():
    mask = np.random.default_rng(0).random(1003) < 0.3
    assert (unpack_mask(pack_mask(mask), 1003) == mask).all()


def test_a_finding_returns_if_another_split_has_its_class_on_nearly_the_same_rows():
    first = scored([rule_on("a", range(10)), rule_on("b", range(10, 20))])
    other = scored([rule_on("a", range(6)), rule_on("a", range(10, 20))])
    assert returning_share(first, other) == 0.5
    assert returning_share(first, scored([])) == 0.0


def test_classes_have_one_spelling():
    assert [class_name(value) for value in (1, 1.0, "1", True, "true", "No", 0.5)] == ["1"] * 3 + ["true"] * 2 + [
        "no",
        "0.5",
    ]


def test_draws_are_stratified_and_numeric_targets_are_cut_at_the_training_median(monkeypatch):
    frame = pd.DataFrame({"x": np.arange(200), "y": np.repeat([0, 1], [180, 20])})
    monkeypatch.setattr("bench.real_tables.draws.load_table", lambda table: frame)
    draw = draw_rows(TABLE, 3)
    assert len(draw.train) == 150
    assert not set(draw.train) & set(draw.unseen)
    assert (draw.classes[draw.unseen] == "1").sum() == 5
    numbers = frame.assign(y=np.arange(200.0))
    monkeypatch.setattr("bench.real_tables.draws.load_table", lambda table: numbers)
    draw = draw_rows(NUMERIC, 3)
    above = numbers["y"].to_numpy() > np.median(draw.train)
    assert (draw.classes == np.where(above, ABOVE, AT_MOST)).all()


def test_peers_get_numbers_only():
    frame = pd.DataFrame(
        {
            "id": np.arange(100),
            "gap": [np.nan, *np.arange(99.0)],
            "two": np.where(np.arange(100) < 70, "m", "f"),
            "many": [f"name {number}" for number in range(100)],
            "three": np.repeat(["p", "q", "r"], [50, 48, 2]),
            "date": pd.date_range("2024-01-01", periods=100).strftime("%Y-%m-%d"),
        }
    )
    columns = fit_columns(frame)
    names = [column.name for column in columns]
    assert names == [
        *("gap", "two = m", "three = p", "three = q"),
        *("date (days)", "date (month)", "date (weekday)"),
    ]
    matrix = encode(frame, columns)
    assert matrix.notna().all().all()
    assert matrix["gap"].iloc[0] == 49.0
    assert matrix["two = m"].sum() == 70
    assert matrix["date (month)"].iloc[40] == 2


def test_the_rows_of_our_rules_come_from_the_pandas_export():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, np.nan]}, index=[7, 8, 9, 10])
    masks = ours.masks_of_export("# a caption\nR1 = df[(df['x'] > 1.5) & (df['x'] <= 3)]\nR2 = df\n", frame)
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "R1": [False, True, True, False],
        "R2": [True] * 4,
    }


def test_ours_is_the_plain_command_and_its_refusals_are_recorded():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 5)), columns=list("abcde"))
    frame["y"] = np.where((frame["a"] > 0) & (frame["b"] > 0), "yes", "no")
    draw = Draw(TABLE, frame, np.arange(300), np.arange(300, 400), frame["y"].to_numpy(str), 0)
    outcome = ours.mine_with_ours(draw)
    assert not outcome.failure
    assert outcome.rules
    record = score_rules(outcome.rules, draw)
    assert record["holding"]
    assert set(record["classes"]) <= {"yes", "no"}
    refused = ours.mine_with_ours(Draw(TABLE, frame.assign(y="one"), draw.train, draw.unseen, draw.classes, 0))
    assert refused.failure == "refused"
    assert "1 class" in refused.message


class OneRule:
    """A peer that finds `x > 9.5`, whatever it is asked."""

    def __init__(self):
        self.wanted = []

    def mine(self, method, frame, labels, seed, jobs, wanted):
        from bench.quality.peer_client import PeerMined

        self.wanted.append(wanted)
        return PeerMined([[(0, ">", 9.5)]], 0.5, 0.25)


def test_peers_look_for_one_class_at_a_time_where_there_are_more_than_two():
    x = np.tile(np.arange(15.0), 4)
    frame = pd.DataFrame({"x": x, "y": np.select([x > 9.5, x > 4.5], ["high", "middle"], "low")})
    draw = Draw(TABLE, frame, np.arange(30), np.arange(30, 60), frame["y"].to_numpy(str), 0)
    peer = OneRule()
    outcome = mine_with_peer("FIGS", draw, peer)
    assert peer.wanted == [(1,)] * 3
    assert outcome.cpu == 0.75
    assert [rule.label for rule in outcome.rules] == ["high"]
    assert (outcome.rules[0].mask == (x > 9.5)).all()


def test_the_registry_keeps_development_and_report_tables_apart():
    assert {table.name for table in select_tables("development")} == DEVELOPMENT
    assert len(select_tables("report")) >= 20
    assert [table.name for table in select_tables("wine,titanic")] == ["wine", "titanic"]
    with pytest.raises(SystemExit, match="nothing is not a table"):
        select_tables("nothing")
    assert all(table.target not in table.leaks for table in TABLES.values())


def test_records_survive_and_a_damaged_line_is_ignored(tmp_path):
    Store(tmp_path).add(scored([rule_on("a", range(20, 30))]))
    with (tmp_path / "ours.jsonl").open("a") as file:
        file.write('{"method": "ours", "tab')
    Store(tmp_path).add(scored([], split=2))
    store = Store(tmp_path)
    assert [record["split"] for record in store.find("ours", TABLE.name, "v")] == [0, 2]
    assert store.has("ours", TABLE.name, 0, "v")
    assert not store.has("ours", TABLE.name, 1, "v")
    assert store.find("ours", TABLE.name, "v")[0]["rules"] == 1


def test_the_summary_shows_where_ours_is_empty_and_a_peer_is_not(tmp_path, capsys):
    store = Store(tmp_path)
    store.add(scored([]))
    store.add(scored([rule_on("a", range(20, 30))]) | {"method": "FIGS"})
    comparison = Comparison([TABLE], store, "v", 5)
    print_summary(comparison, store)
    printed = capsys.readouterr().out
    assert "empty: small 1×" in printed
    assert "class missing: small (a) 1×" in printed


def test_a_failed_run_covers_nothing():
    failed = {"failure": "refused", "message": "no", "split": 1, "cpu": 0.1}
    figures = TableFigures.of([scored([rule_on("a", range(20, 30))]), failed])
    assert figures.covered == 0.25
    assert figures.failures == ("refused: no",)
    assert figures.holding == 1.0


def test_every_peer_is_known():
    from bench.quality.peers.miners import MINERS

    assert len(PEERS) == 8
    assert set(PEERS.values()) <= set(MINERS)


def test_null_tables_keep_their_labels_and_groups_share_one():
    frame = pd.DataFrame({"x": np.arange(50), "y": np.repeat([0, 1], [40, 10])})
    shuffled = shuffle_labels(TABLE, frame, 1)
    assert sorted(shuffled["y"]) == sorted(frame["y"])
    assert not shuffled["y"].equals(frame["y"])
    grouped = repeat_rows(shuffled)
    assert grouped.groupby("person")["y"].nunique().eq(1).all()
    assert len(grouped) == 4 * len(frame)


def test_rules_of_all_peers_are_corrected_together():
    peers = [
        {"holm_classes": ["a"], "evidence": [{"class": "a", "p": 0.02}]},
        {"holm_classes": ["b"], "evidence": [{"class": "b", "p": 0.001}, {"class": "b", "p": 0.9}]},
    ]
    assert certain_classes(peers, together=False) == {"a", "b"}
    assert certain_classes(peers, together=True) == {"a", "b"}
    peers.append({"holm_classes": [], "evidence": [{"class": "a", "p": 0.5}, {"class": "a", "p": 0.6}]})
    assert certain_classes(peers, together=True) == {"b"}
    assert certain_classes([], together=True) == set()
