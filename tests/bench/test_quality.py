"""The quality benchmark on small tables, without peers: correct counts and complete output files."""

import csv
from math import isnan, sqrt

import numpy as np
import pandas as pd
import pytest

from bench.printing import Goal
from bench.quality import results
from bench.quality.__main__ import main
from bench.quality.estimates import mean, ratio
from bench.quality.experiment import Check, Experiment, Summary
from bench.quality.methods import search_with_peer, translate_rules
from bench.quality.peers.miners import selector_conditions, tightest_conditions
from bench.quality.planted import count_explained, recipe
from bench.quality.registry import EXPERIMENTS
from bench.quality.stability import agreement, dice
from bench.quality.top_subsets import best_share, run_searcher
from maabo_dist.contract.conditions import Op
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.settings import MiningSettings, TableSettings


class ReplayedSearcher:
    """A searcher that proposes given subsets and records the scores it receives."""

    def __init__(self, proposals):
        self.proposals, self.scores = iter(proposals), []

    def ask(self):
        return next(self.proposals)

    def tell(self, score):
        self.scores.append(score)


@pytest.mark.soak
def test_a_quick_run_writes_records_and_a_table_that_agree(tmp_path):
    main(["planted", "--quick", "--peers", "none", "--out", str(tmp_path)])

    with (tmp_path / "planted.csv").open(newline="") as file:
        records = {record["method"]: record for record in csv.DictReader(file)}
    assert list(records) == ["auto", "all", "paper", "random"]
    for record in records.values():
        verdicts = [int(record[name]) for name in ("exact", "extra", "missed")]
        assert sum(verdicts) == int(record["planted"]) == 6
        assert int(record["conjunction_exact"]) + int(record["xor_exact"]) == int(record["exact"])
    table = (tmp_path / "planted.md").read_text()
    for name, record in records.items():
        missed = f"{100 * int(record['missed']) / 6:.1f}"
        assert any(line.startswith(f"| {name} |") and f" {missed} " in line for line in table.splitlines())


def test_a_planted_rule_on_the_rows_of_rules_that_were_found_is_explained():
    frame, truth = generate(recipe(20, 2000, 0))
    conjunctions = {rule.id for rule in truth.rules if rule.structure.startswith("conjunction")}
    xor = {rule.id for rule in truth.rules} - conjunctions

    assert count_explained(truth, frame, xor) == len(truth.rules) == 6
    assert count_explained(truth, frame, conjunctions) == 2
    assert count_explained(truth, frame, set()) == 0


def test_without_its_table_an_experiment_is_skipped_with_a_message(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MAABO_TITANIC", raising=False)

    main(["titanic", "--quick", "--peers", "none", "--out", str(tmp_path)])

    assert "titanic is skipped: it needs the Titanic table: --titanic PATH." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_experiment_is_rejected(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["plantd", "--out", str(tmp_path)])

    assert "plantd" in capsys.readouterr().err


def test_every_experiment_is_described_in_the_readme():
    text = results.README.read_text()

    assert [name for name in EXPERIMENTS if f"| `{name}` |" not in text] == []


def test_a_ratio_of_equal_shares_has_no_error_and_a_mean_ignores_missing_values():
    assert (ratio([1, 2, 3], [2, 4, 6]).value, ratio([1, 2, 3], [2, 4, 6]).error) == (0.5, 0)
    assert mean([1, None, 3]).value == 2
    assert mean([1, None, 3]).error == pytest.approx(1)
    assert isnan(mean([]).value)
    assert isnan(ratio([0], [0]).value)


def test_the_error_of_a_ratio_with_equal_wholes_is_that_of_the_mean():
    parts = [0, 3, 1, 4]

    assert ratio(parts, [5] * 4).error == pytest.approx(np.std(parts, ddof=1) / 5 / sqrt(4))


def test_a_peers_rule_gets_the_class_most_over_represented_among_its_rows():
    cells = pd.DataFrame({"a": np.arange(10.0), "b": 0.0})
    labels = np.array([0] * 8 + [1] * 2)

    rules = translate_rules([[(0, ">", 5.5)], [(0, "<=", 5.5), (1, "<=", 1.0)]], cells, labels, ("no", "yes"))

    assert [rule.label for rule in rules] == ["yes", "no"]
    assert [(c.feature, c.op, c.value) for c in rules[1].conditions] == [("a", Op.AT_MOST, 5.5), ("b", Op.AT_MOST, 1.0)]


def test_only_the_tightest_of_several_bounds_is_kept():
    rule = [(3, "<=", 7.0), (3, ">", 1.0), (3, "<=", 5.0), (3, ">", 2.0), (4, ">", 0.0)]

    assert tightest_conditions(rule) == [(3, "<=", 5.0), (3, ">", 2.0), (4, ">", 0.0)]


def test_an_interval_without_its_upper_end_keeps_its_rows():
    class Interval:
        attribute_name, lower_bound, upper_bound = "2", 1.0, 4.0

    (_, above, low), (_, at_most, high) = selector_conditions([Interval])
    values = np.array([0.5, 1.0, 2.0, 4.0])

    assert (above, at_most) == (">", "<=")
    assert ((values > low) & (values <= high)).tolist() == [False, True, True, False]


def test_the_best_share_includes_ties_at_its_end():
    scores = {(k,): value for k, value in enumerate([0.9, 0.8, 0.8, 0.8, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])}

    assert best_share(scores, 0.2) == {(0,), (1,), (2,), (3,)}


def test_repetitions_count_as_proposals_but_not_as_trees(monkeypatch):
    monkeypatch.setattr("bench.quality.top_subsets.TREES", 3)
    scores = {(0, 1): 0.5, (0, 2): 0.6, (1, 2): 0.7, (1, 3): 0.8}
    searcher = ReplayedSearcher([[1, 0], [0, 1], [2, 2], [2, 0], [3, 1], [2, 1]])

    result = run_searcher(searcher, scores, {(0, 1), (1, 3)})

    assert (result.by_proposals, result.by_trees) == (1, 2)
    assert searcher.scores == [0.5, 0.5, 0.0, 0.6, 0.8]


@pytest.mark.soak
def test_subsets_proposed_by_a_peer_give_the_same_rules_as_in_our_search():
    """Without searches on shuffled labels, which repeat our own search and cannot certify a peer's."""
    frame = generate(Recipe(rows=600, features=6, conjunctions=(2,), seed=3)).frame
    columns = prepare(frame, TableSettings(target="y")).columns
    chosen = MiningSettings(trees=8, strategy="random", min_samples=20, seed=1, certify="off")
    ours = mine(columns, chosen, keep_trees=True)

    theirs = search_with_peer(columns, ours.settings, ReplayedSearcher(ours.forest.subsets[:, ::-1].tolist()))

    assert ours.rules
    assert theirs.digest == ours.digest


def test_the_readme_contains_the_tables_of_the_last_runs_between_its_markers(tmp_path):
    experiments = {name: _experiment(name) for name in ("one", "two", "never run")}
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    for name in ("one", "two"):
        summary = Summary(["", "figure"], [[name, "1"]], [Check("noise", 7.0, Goal(maximum=5), " %")])
        (tmp_path / f"{name}.md").write_text(results.markdown(experiments[name], summary, "today"))
    (tmp_path / "two.png").touch()

    results.assemble(experiments.values(), tmp_path, readme)
    once = readme.read_text()
    results.assemble(experiments.values(), tmp_path, readme)

    assert readme.read_text() == once
    assert (once[:7], once[-6:], "old" in once) == ("before\n", "after\n", False)
    assert "| noise | ≤ 5 % | 7 % | **missed** |" in once
    assert "![two](results/two.png)" in once
    assert "![one]" not in once


def test_records_are_read_back_unchanged(tmp_path):
    records = [{"method": "auto", "seed": 0, "seconds": 1.25, "failed": None}, {"method": "FIGS", "failed": "too slow"}]

    results.write_records(tmp_path / "r.csv", records)

    absent = {"seed": None, "seconds": None}
    assert results.read_records(tmp_path / "r.csv") == [records[0], {**absent, **records[1]}]


def _experiment(name):
    return Experiment(name, name.title(), "About it.", lambda _: iter(()), lambda _: Summary([], []), lambda _: [])


def test_agreement_is_the_mean_dice_over_the_pairs_of_each_seeds_bootstraps():
    texts = {0: ["a; b + c", "a", "d"], 1: ["a; b", "a; b", None]}
    records = [
        {"seed": seed, "features": text} for seed, features_of_seed in texts.items() for text in features_of_seed
    ]

    estimate = agreement(records)

    assert dice({"a", "b + c"}, {"a"}) == pytest.approx(2 / 3)
    assert dice(set(), set()) is None
    assert estimate.value == pytest.approx(np.mean([np.mean([2 / 3, 0, 0]), np.mean([1, 0, 0])]))
