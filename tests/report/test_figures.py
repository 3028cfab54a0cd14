"""Figure data compared with slow, simple reference implementations, and its limits."""

import json
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Op
from maabo_dist.contract.result import StopReason
from maabo_dist.data.columns import add_probes
from maabo_dist.data.preparation import prepare
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.errors import SettingsError
from maabo_dist.mining.local import mine
from maabo_dist.mining.result import conclude
from maabo_dist.report import figures as module
from maabo_dist.report.figures import figures_of, make_figures
from maabo_dist.report.figures import overview as covering
from maabo_dist.report.figures import overview as search
from maabo_dist.report.figures.rule_details import MAX_CLASSES, ClassGroups
from maabo_dist.rules.publishing import TreePool, TreeRecords
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees.training import depth_search
from tests import factories


def a_frame(rows=700, seed=5):
    """Return a table with every kind of column, some with missing cells."""
    draw = np.random.default_rng(seed)
    number, few = draw.normal(size=rows).round(3), draw.integers(0, 5, rows).astype(float)
    port, sex = draw.choice(["C", "Q", "S", "T"], rows).astype(object), draw.choice(["f", "m"], rows)
    signal_rows = (number > 0.2) & (sex == "f") | (port == "Q") & (few > 2) | (draw.random(rows) < 0.05)
    number[draw.random(rows) < 0.1] = np.nan
    port[draw.random(rows) < 0.1] = None
    noise = {f"noise_{index}": draw.normal(size=rows) for index in range(3)}
    return pd.DataFrame({"number": number, "few": few, "port": port, "sex": sex, **noise, "y": signal_rows.astype(str)})


def mined(frame=None, **settings):
    table = prepare(a_frame() if frame is None else frame, TableSettings(target="y", missing_indicator=True))
    chosen = MiningSettings(**{"min_samples": 12, "gini": 0.7, "holdout": 0.2, "trees": 120, **settings})
    return table.columns, mine(table.columns, chosen, keep_records=True)


@pytest.fixture(scope="module")
def mined_figures():
    """The columns as the search read them, the result and its figures."""
    columns, result = mined()
    return Study.build(columns, result.settings).columns, result, figures_of(result, columns)


def holds(columns, rule, row):
    """True if a row satisfies all literals of a rule."""
    return all(
        (columns.column(feature)[row] > bound) == large
        for (feature, large), bound in zip(rule.logic, rule.bounds, strict=True)
    )


def bits_of(figures):
    """Return a (rules, rows shown) array: True if the rule covers the row."""
    row_count, rules = figures["coverage"]["sampled"], len(figures["rules"])
    packed = np.frombuffer(b64decode(figures["coverage"]["bits"]), np.uint8).reshape(rules, -1)
    return np.unpackbits(packed, axis=1)[:, :row_count].astype(bool)


def square_of(figures, kind):
    count = len(figures["rules"])
    return np.frombuffer(b64decode(figures["similarity"][kind]), np.uint8).reshape(count, count)


def nodes_of(node):
    yield node
    for side in ("yes", "no"):
        if side in node:
            yield from nodes_of(node[side])


def test_the_table_yields_rules_on_every_kind_of_column(mined_figures):
    _, result, figures = mined_figures

    assert {Op.AT_MOST, Op.ABOVE, Op.IS} <= {condition.op for rule in result.rules for condition in rule.conditions}
    assert {"bins", "values", "levels"} <= {picture["kind"] for picture in figures["histograms"]}


def test_the_same_result_gives_the_same_figures_to_the_byte(mined_figures):
    figures = mined_figures[2]
    columns, again = mined()

    assert json.dumps(figures_of(again, columns)) == json.dumps(figures)


def test_a_histogram_counts_every_training_row_of_each_class_once_unless_it_is_missing(mined_figures):
    columns, result, figures = mined_figures
    train = split_for(columns, result.settings).train
    raw = {each.column: codes for each, codes in zip(columns.raw, columns.raw_codes, strict=True)}

    for picture in figures["histograms"]:
        rows = train[raw[picture["column"]][train] > 0] if picture.get("apart") else train
        assert [sum(bars) for bars in picture["counts"]] == np.bincount(columns.labels[rows]).tolist()


def test_the_bars_of_a_number_are_those_of_a_slow_count(mined_figures):
    columns, result, figures = mined_figures
    rows = split_for(columns, result.settings).train
    picture = next(picture for picture in figures["histograms"] if picture["kind"] == "bins")
    index = next(index for index, entry in enumerate(columns.features) if entry.name == picture["column"])
    bars = len(picture["counts"][0])
    edges = np.linspace(picture["low"], picture["high"], bars + 1)
    expected = [[0] * bars for _ in columns.classes]

    for row in rows:
        value = columns.column(index)[row]
        if value == MISSING_VALUE:
            continue
        bar = next((bar for bar in range(bars - 1) if value <= edges[bar + 1]), bars - 1)
        expected[columns.labels[row]][bar] += 1

    assert picture["counts"] == expected


def test_every_threshold_lies_within_the_bars_of_its_histogram(mined_figures):
    _, result, figures = mined_figures

    for rule, entry in zip(result.rules, figures["rules"], strict=True):
        for condition, index in zip(rule.conditions, entry["histograms"], strict=True):
            picture = figures["histograms"][index]
            assert picture["column"] == condition.feature
            if picture["kind"] == "bins":
                assert picture["low"] <= condition.value <= picture["high"]
            elif isinstance(condition.value, str):
                assert condition.value in picture["levels"]


def test_the_bits_are_the_rows_that_each_rule_covers(mined_figures):
    columns, result, figures = mined_figures
    split = split_for(columns, result.settings)
    bits, start = bits_of(figures), 0

    for group in figures["coverage"]["groups"]:
        rows = [row for row in getattr(split, group["part"]) if columns.labels[row] == group["class"]]
        expected = sorted(tuple(holds(columns, rule, row) for rule in result.rules) for row in rows)
        assert sorted(map(tuple, bits[:, start : start + group["sampled"]].T.tolist())) == expected
        assert group["covered"] == sum(map(any, expected))
        start += group["sampled"]
    assert start == figures["coverage"]["sampled"] == columns.rows


def test_large_tables_show_a_sample_of_each_part_and_class(monkeypatch):
    columns, result = mined()
    monkeypatch.setattr(covering, "MAX_ROWS", 100)

    coverage = figures_of(result, columns)["coverage"]

    assert coverage["sampled"] <= 100 < coverage["rows"]
    assert all(1 <= group["sampled"] <= np.ceil(100 * group["rows"] / coverage["rows"]) for group in coverage["groups"])
    assert sum(group["sampled"] for group in coverage["groups"]) == coverage["sampled"]


def test_similarity_is_simpson_s_by_sets(mined_figures):
    columns, result, figures = mined_figures
    train = split_for(columns, result.settings).train
    logics = [set(rule.logic) for rule in result.rules]
    covered = [{row for row in train if holds(columns, rule, row)} for rule in result.rules]

    for kind, sets in (("logic", logics), ("rows", covered)):
        expected = [[round(100 * len(a & b) / min(len(a), len(b))) for b in sets] for a in sets]
        assert square_of(figures, kind).tolist() == expected


def test_the_path_through_a_tree_leads_to_the_rule(mined_figures):
    _, result, figures = mined_figures

    paths = 0
    for rule, entry in zip(result.rules, figures["rules"], strict=True):
        node, kept = entry["tree"], 0
        if not node.keys() & {"next", "leaf"}:  # a box, which the tree has no path for
            assert not any("leaf" in other or "next" in other for other in nodes_of(node))
            continue
        while "next" in node:
            kept += node["kept"]
            node = node[node["next"]]
        assert node["leaf"]
        assert kept >= sum(bound != MISSING_VALUE for bound in rule.bounds)
        assert sum("leaf" in other for other in nodes_of(entry["tree"])) == 1
        paths += 1
    assert paths


def test_a_rule_that_its_tree_does_not_contain_has_no_path():
    rng = np.random.default_rng(1)
    cells = rng.random((2000, 5))
    odd = (cells[:, :3] > 0.5).sum(axis=1) % 2 == 1
    frame = pd.DataFrame(cells, columns=list("abcde")).assign(y=np.where(odd, "odd", "even"))
    columns = prepare(frame, TableSettings(target="y")).columns
    result = mine(columns, MiningSettings(preset="auto", max_depth=3), keep_records=True)
    figures = figures_of(result, columns)

    trees = [entry["tree"] for entry in figures["rules"]]
    assert len(trees) == 8
    assert any(not tree.keys() & {"next", "leaf"} for tree in trees)


def test_children_share_the_rows_of_their_parent(mined_figures):
    _, _, figures = mined_figures

    for entry in figures["rules"]:
        for node in nodes_of(entry["tree"]):
            if "yes" in node:
                assert node["counts"] == [
                    a + b for a, b in zip(node["yes"]["counts"], node["no"]["counts"], strict=True)
                ]


def test_without_pruning_the_leaf_has_the_rows_of_the_rule():
    columns, result = mined(preset="paper", holdout=0.0)

    for rule, entry in zip(result.rules, figures_of(result, columns)["rules"], strict=True):
        leaf = next(node for node in nodes_of(entry["tree"]) if "leaf" in node)
        assert leaf["counts"] == list(rule.counts)


def test_a_tree_has_a_bounded_number_of_nodes(mined_figures):
    _, _, figures = mined_figures

    assert all(len(list(nodes_of(entry["tree"]))) <= 31 for entry in figures["rules"])


def test_feature_use_counts_the_best_trees(mined_figures):
    columns, result, figures = mined_figures
    scores, subsets = result.records.scores, [set(row.tolist()) for row in result.records.subsets]
    ranked = sorted(range(len(scores)), key=lambda tree: (-scores[tree], tree))
    high = ranked[: max(1, int(result.settings.alpha * len(ranked)))]
    names = [feature.name for feature in columns.features]
    use = figures["use"]

    assert use["high"] == len(high)
    for row, first in enumerate(use["features"]):
        a = names.index(first["name"])
        assert first["high"] == sum(a in subsets[tree] for tree in high)
        assert first["trees"] == sum(a in subset for subset in subsets)
        for column, second in enumerate(use["features"]):
            b = names.index(second["name"])
            assert use["pairs"][row][column] == sum({a, b} <= subsets[tree] for tree in high)


def test_a_long_history_keeps_every_best_so_far():
    scores = np.random.default_rng(1).random(30_000)
    scores[::7] = np.nan
    history = search.search_history((), TreeRecords(np.zeros((30_000, 1), np.int32), np.ones(30_000, np.int32), scores))
    bests = np.flatnonzero(
        np.nan_to_num(scores) > np.maximum.accumulate(np.concatenate([[-1], np.nan_to_num(scores)]))[:-1]
    )

    assert len(history["plotted"]) <= 2_000
    assert history["scores"] == [round(scores[tree], 4) for tree in history["plotted"]]
    assert max(history["scores"]) == round(float(np.nanmax(scores)), 4)
    assert bests[-1] in history["plotted"]


def test_the_rules_found_are_counted_by_the_trees_they_came_from(mined_figures):
    _, result, figures = mined_figures
    trees = [rule.source.tree for rule in result.rules]

    for tree, count in figures["history"]["rules"]:
        assert sum(other < tree for other in trees) < count <= sum(other <= tree for other in trees)
    assert figures["history"]["rules"][-1][1] == len(trees)


def test_probes_are_never_named():
    columns, result = mined(probes=5)
    figures = figures_of(result, columns)
    probes = {feature.name for feature in add_probes(columns, 5, result.settings.seed).features[columns.count :]}

    assert not any(json.dumps(name)[1:-1] in json.dumps(figures) for name in probes)


def test_a_result_without_rules_has_figures_of_its_search():
    columns, result = mined(min_samples=600)
    figures = figures_of(result, columns)

    assert not result.rules
    assert figures["rules"] == figures["histograms"] == []
    assert figures["history"]["trees"] == 120


def test_a_worker_without_the_search_makes_the_same_figures():
    columns, result = mined(probes=3)
    chosen = result.settings
    study = Study.build(columns, chosen)
    pool = TreePool(study)
    pool.add(depth_search(study.table, result.records.subsets, chosen.max_depth, whole=chosen.whole_trees))
    concluded = conclude(study, pool, StopReason.BUDGET, 1.0)

    assert make_figures(concluded, study) == figures_of(result, columns)


def test_a_result_without_records_has_an_error_with_a_remedy(mined_figures):
    columns, result, _ = mined_figures

    with pytest.raises(SettingsError, match="keep_records"):
        figures_of(replace(result, records=None), columns)


def test_only_the_first_rules_are_pictured(mined_figures, monkeypatch):
    columns, result, _ = mined_figures
    monkeypatch.setattr(module, "MAX_RULES", 2)

    assert [entry["id"] for entry in figures_of(result, columns)["rules"]] == ["R1", "R2"]


@pytest.mark.parametrize("kind", sorted(factories.KINDS))
def test_numbers_of_every_kind_have_a_histogram(kind):
    columns = factories.make_planted(np.random.default_rng(2), rows=400, kinds=(kind, "continuous"))
    result = mine(columns, MiningSettings(min_samples=8, gini=0.95, trees="100%"), keep_records=True)

    assert json.loads(json.dumps(figures_of(result, columns), allow_nan=False))["histograms"]


def test_rare_classes_are_counted_together():
    totals = np.arange(40, 0, -1)
    groups = ClassGroups.of(totals)

    assert groups.counts(totals[None]).tolist() == [[*range(40, 17, -1), sum(range(18))]]
    assert len(groups.names([f"c{index}" for index in range(40)])) == MAX_CLASSES
    assert groups.names([f"c{index}" for index in range(40)])[-1] is None


def test_each_rule_is_followed_by_the_most_similar_of_the_remaining_ones():
    square = np.array([[100, 0, 50, 90], [0, 100, 80, 10], [50, 80, 100, 20], [90, 10, 20, 100]], np.uint8)

    assert covering.chain_by_similarity(square) == [0, 3, 2, 1]
