"""The comparison with other miners, without running them: measures, conversions, and notes on unavailable miners."""

import csv
import math
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.quality import results, table_comparison
from bench.quality.__main__ import main
from bench.quality.experiment import Experiment, Page, Run, Summary
from bench.quality.paper_tables import TARGET, PaperTable
from bench.quality.peer_client import PeerError, PeerMined, Peers, PeerTimeoutError
from bench.quality.peers.inducers import bin_conditions, convert_strict, interval_conditions
from bench.quality.peers.miners import MINERS, unavailable
from bench.quality.rule_sets import RuleSet, feature_sets, figures
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.research.synthetic.scoring import MinedRule


def interval(low, high, holds):
    """Return a condition in the form of Java; `holds` names the ends that belong to it."""
    held = {low} if "[" in holds else set()
    held |= {high} if "]" in holds else set()
    values = SimpleNamespace(getLeft=lambda: low, getRight=lambda: high, contains=held.__contains__)
    return SimpleNamespace(getAttribute=lambda: "f4", getValueSet=lambda: values)


class FakePeers:
    """Peers of which one needs Java, one is too slow and the others find one rule."""

    def __init__(self):
        self.calls = []

    def processes(self):
        return nullcontext(self)

    def unavailable(self):
        return {"rulekit": "it needs Java"}

    def mine(self, method, frame, labels, seed, jobs):
        self.calls.append((method, seed))
        if method == "irep":
            raise PeerTimeoutError("took more than 300 s")
        return PeerMined([[(0, ">", 5.5)]], 0.5, 0.25)


def rows_of(conditions, values):
    hold = [values > bound if op == ">" else values <= bound for _, op, bound in conditions]
    return values[np.all(hold, axis=0)].tolist()


def table(rows=40):
    return pd.DataFrame(
        {"a": np.arange(rows, dtype=float), "b": 0.0, TARGET: np.where(np.arange(rows) > 5, "up", "low")}
    )


def rule(label, *bounds, feature="a"):
    return MinedRule("R", tuple(Condition(feature, op, bound) for op, bound in bounds), label)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((-math.inf, 2.0, "]"), [0.0, 1.0, 2.0]),
        ((-math.inf, 2.0, ""), [0.0, 1.0]),
        ((1.0, sys.float_info.max, ""), [2.0, 3.0]),
        ((1.0, 3.0, "["), [1.0, 2.0]),
    ],
)
def test_an_interval_keeps_its_rows_with_either_end_included(ends, expected):
    conditions = interval_conditions(interval(*ends))

    assert {index for index, _, _ in conditions} == {4}
    assert len(conditions) == sum(abs(end) < sys.float_info.max for end in ends[:2])
    assert rows_of(conditions, np.arange(4.0)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("<1.0", [0.0, 1.0]), (">1.0", [2.0, 3.0]), ("-1.0 - 2.0", [0.0, 1.0, 2.0]), (2.0, [2.0]), ("1e-1 - 1.0", [1.0])],
)
def test_a_bin_and_a_value_keep_their_rows(text, expected):
    assert rows_of(bin_conditions("f0", text), np.arange(4.0)) == expected


def test_strict_bounds_keep_their_rows():
    assert rows_of([convert_strict(0, "<", 2.0)], np.arange(4.0)) == [0.0, 1.0]
    assert rows_of([convert_strict(0, ">=", 2.0)], np.arange(4.0)) == [2.0, 3.0]


def test_an_unavailable_miner_is_listed_with_its_missing_package(monkeypatch):
    monkeypatch.setattr("bench.quality.peers.miners.find_spec", lambda name: None if name == "wittgenstein" else name)
    monkeypatch.setattr("bench.quality.peers.miners.which", lambda _: None)

    result = unavailable()

    assert list(result) == ["rulekit", "ripper", "irep"]
    assert "Java" in result["rulekit"]
    assert "wittgenstein" in result["irep"]
    assert set(result) < set(MINERS)


def test_rules_are_redundant_by_the_rows_they_share_within_a_class():
    rules = [rule("up", (Op.ABOVE, 9.5)), rule("up", (Op.ABOVE, 19.5)), rule("low", (Op.AT_MOST, 9.5))]

    result = figures(rules, table(), table(20))

    assert result["overlap"] == result["nearest"] == pytest.approx(20 / 30)
    assert (result["train_coverage"], result["held_coverage"]) == (1, 1)
    assert result["train_precision"] == pytest.approx((1 + 1 + 6 / 10) / 3)
    assert result["held_precision"] == pytest.approx((1 + 6 / 10) / 2)  # the second covers none of the held-out rows
    assert result["held_lift"] == pytest.approx((20 / 14 + 0.6 * 20 / 6) / 2)
    assert (result["rules"], result["empty_held"], result["features"]) == (3, 1, "0")


def test_without_rules_nothing_is_covered_and_other_measures_are_none():
    result = figures([], table(), table())

    assert (result["rules"], result["reliable"], result["held_coverage"], result["features"]) == (0, 0, 0.0, "")
    assert [result[name] for name in ("held_precision", "held_lift", "overlap", "width")] == [None] * 4


def test_a_rule_is_found_again_if_a_rule_of_its_class_has_nearly_its_rows():
    first = RuleSet.on([rule("up", (Op.ABOVE, 9.5)), rule("up", (Op.ABOVE, 29.5))], table())
    second = RuleSet.on([rule("up", (Op.ABOVE, 11.5)), rule("low", (Op.ABOVE, 29.5))], table())

    assert first.returning(second) == 0.5
    assert first.returning(RuleSet.on([], table())) == 0
    assert RuleSet.on([], table()).returning(first) is None


def test_reliable_rules_are_large_and_pure_with_equal_class_weights():
    classes = np.array(["rare"] * 20 + ["often"] * 180)
    masks = np.zeros((3, 200), bool)
    masks[0, 20:80] = True  # 60 rows, pure
    masks[1, 20:60] = True  # too few
    masks[2, 10:80] = True  # 10 rows of 20 weigh more than 60 of 180

    assert RuleSet(masks, np.array(["often"] * 3), classes).reliable() == 1


def test_feature_sets_are_distinct_and_given_by_column_number():
    rules = [rule("up", (Op.ABOVE, 1.0), (Op.AT_MOST, 2.0)), rule("low", (Op.ABOVE, 1.0)), rule("up", feature="b")]
    rules.append(MinedRule("R", (Condition("b", Op.ABOVE, 0.0), Condition("a", Op.ABOVE, 0.0)), "up"))

    assert feature_sets(rules[:2], table()) == ["0"]
    assert feature_sets(rules[3:], table()) == ["0+1"]


def test_every_method_gets_the_same_draws_and_a_slow_one_is_not_tried_again(monkeypatch):
    peers = FakePeers()
    monkeypatch.setattr(table_comparison, "paper_tables", lambda _: [PaperTable("toy", table())])
    run = Run(seeds=3, quick=True, peers=peers, methods=("figs", "rulekit", "irep"))

    records = list(table_comparison.measure(run))
    summary = table_comparison.summarise(records)

    assert peers.calls == [("figs", 0), ("irep", 0), ("figs", 1), ("figs", 2)]
    assert [(row[0], row[1]) for row in summary.rows] == [("toy: FIGS", "3")]
    notes = "\n".join(summary.notes)
    assert "RuleKit: not measured: it needs Java." in notes
    assert "IREP, toy, draw 0: took more than 300 s." in notes
    assert "--boston FILE" in notes
    assert [record["returning"] for record in records if record.get("rules")] == [None, 1, 1]


SERVING = """
import json, sys, time
print("a word of the peer's own", flush=True)
for line in sys.stdin:
    seed = int(line.split()[1])
    time.sleep(60 if seed == 2 else 0)
    seed == 3 and sys.exit(7)
    answers = {0: {"rules": [], "seconds": 1.0, "cpu": 0.5}, 1: {"failed": "ValueError: no"}}
    print(json.dumps(answers[seed]), flush=True)
"""


def test_a_running_peer_answers_repeatedly_reports_errors_and_is_killed_after_the_timeout(monkeypatch):
    monkeypatch.setattr(Peers, "command", lambda *_: [sys.executable, "-S", "-c", SERVING])
    cells, labels = pd.DataFrame({"a": [1.0, 2.0]}), np.array([0, 1])

    with Peers(sys.executable).processes() as peers:
        monkeypatch.setattr("bench.quality.peer_client.TIMEOUT", 60)
        assert peers.mine("figs", cells, labels, 0, 1) == PeerMined([], 1.0, 0.5)
        with pytest.raises(PeerError, match="ValueError: no"):
            peers.mine("figs", cells, labels, 1, 1)
        monkeypatch.setattr("bench.quality.peer_client.TIMEOUT", 0.1)
        with pytest.raises(PeerTimeoutError):
            peers.mine("figs", cells, labels, 2, 1)
        monkeypatch.setattr("bench.quality.peer_client.TIMEOUT", 60)
        with pytest.raises(PeerError, match="exited with code 7"):
            peers.mine("figs", cells, labels, 3, 1)
        assert peers.mine("figs", cells, labels, 0, 1).cpu == 0.5


def test_agreement_of_draws_counts_common_feature_sets_even_if_read_as_numbers():
    records = [{"features": features} for features in (0, "0; 1+2", "0; 1+2", None)]

    assert table_comparison.agreement(records) == pytest.approx((2 / 3 + 2 / 3 + 0 + 1 + 0 + 0) / 6)
    assert table_comparison.agreement(records[:1]) is None


def test_the_two_parts_of_a_draw_have_all_rows_and_equal_class_shares():
    train, held = PaperTable("toy", table()).draw(3)

    assert sorted([*train["a"], *held["a"]]) == list(range(40))
    assert len(held) == 10
    assert (held[TARGET] == "low").sum() in (1, 2)


def test_our_methods_run_on_a_bundled_table_and_write_records_and_notes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.quality.paper_tables.BUNDLED", {"diabetes": "diabetes"})
    for name in ("MAABO_TITANIC", "MAABO_BOSTON"):
        monkeypatch.delenv(name, raising=False)

    main(["tables", "--quick", "--seeds", "1", "--methods", "paper", "--peers", "none", "--out", str(tmp_path)])

    with (tmp_path / "tables.csv").open(newline="") as file:
        measured = [record for record in csv.DictReader(file) if not record["failed"]]
    assert [(record["table"], record["method"]) for record in measured] == [("diabetes", "paper")]
    assert "| diabetes: ours, `paper` | 1 |" in (tmp_path / "tables.md").read_text()
    assert "Titanic needs its file: --titanic FILE" in capsys.readouterr().out


def test_a_file_that_does_not_exist_is_rejected_with_its_name(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["tables", "--boston", str(tmp_path / "none.csv"), "--out", str(tmp_path)])

    assert "none.csv: no such file" in capsys.readouterr().err


def test_a_table_with_its_own_document_is_not_in_the_readme(tmp_path):
    readme, page = tmp_path / "README.md", tmp_path / "docs.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}\n")
    page.write_text("above\n<!-- own: begin -->\nold\n<!-- own: end -->\nbelow\n")
    experiment = Experiment("one", "One", "", iter, lambda _: Summary([], []), lambda _: [], page=Page(page, "own"))
    (tmp_path / "one.md").write_text("the table\n")

    results.assemble([experiment], tmp_path, readme)

    assert page.read_text() == "above\n<!-- own: begin -->\n\nthe table\n\n<!-- own: end -->\nbelow\n"
    assert "the table" not in readme.read_text()


def test_a_document_without_markers_for_the_table_is_rejected(tmp_path):
    page = tmp_path / "docs.md"
    page.write_text("nothing here")
    (tmp_path / "one.md").write_text("the table\n")
    experiment = Experiment("one", "One", "", iter, lambda _: Summary([], []), lambda _: [], page=Page(page, "own"))

    with pytest.raises(SystemExit, match="own: begin"):
        results.assemble([experiment], tmp_path, page)

    assert page.read_text() == "nothing here"
