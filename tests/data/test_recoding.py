"""Columns as a search for findings reads them: missing cells apart, and levels in the order of their classes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import OTHER_LEVELS, FeatureKind
from maabo_dist.data.preparation import prepare
from maabo_dist.data.recoding import AVERAGE_ROWS, MISSING_VALUE, order_sets, recode, set_features
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import TrainingTable


def a_frame(rng, rows=80, classes=2):
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=rows).round(1),
            "whole": rng.integers(0, 9, rows).astype(float),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
            "text": rng.choice(list("abcdefgh"), rows),
            "pair": rng.choice(["no", "yes"], rows),
        }
    )
    for column in ("number", "joined", "text"):
        frame.loc[rng.random(rows) < 0.2, column] = None
    return frame.assign(y=[f"c{index % classes}" for index in rng.permutation(rows)])


def prepared(rng, classes=2, max_levels=50):
    frame = a_frame(rng, classes=classes)
    return frame, prepare(frame, TableSettings(target="y", max_levels=max_levels)).columns


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([3, 5, 50]))
def test_levels_are_in_the_order_of_their_class_shares(seed, classes, max_levels):
    rng = np.random.default_rng(seed)
    frame, columns = prepared(rng, classes, max_levels)
    train = np.sort(rng.permutation(columns.rows)[:50])

    recoded = recode(columns, train)

    kept = set(columns.raw[[raw.column for raw in columns.raw].index("text")].levels)
    cells = frame["text"].map(lambda text: text if text in kept else OTHER_LEVELS, na_action="ignore")
    sets = set_features(recoded)
    assert len(sets) == (1 if classes == 2 else min(classes, len(kept) + (OTHER_LEVELS in set(cells))))
    for number, index in enumerate(sets):
        feature, values = recoded.features[index], recoded.column(index)
        label = 1 if classes == 2 else number
        hits = columns.labels[train] == label
        shares = []
        for level in feature.levels:
            own = (cells == level).to_numpy()[train]
            shares.append((hits[own].sum() + AVERAGE_ROWS * hits.mean()) / (own.sum() + AVERAGE_ROWS))
        assert (np.diff(shares) >= -1e-12).all()
        for row, text in enumerate(cells):
            assert values[row] == (MISSING_VALUE if pd.isna(text) else feature.levels.index(text))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_missing_cells_are_below_all_others_which_keep_their_values(seed):
    rng = np.random.default_rng(seed)
    frame, columns = prepared(rng)

    recoded = recode(columns, np.arange(50))

    assert recoded.count == columns.count
    for index, feature in enumerate(recoded.features):
        missing = frame[feature.column].isna().to_numpy()
        values = recoded.column(index)
        if missing.any():
            assert (values[missing] == MISSING_VALUE).all()
        assert (values[~missing] > MISSING_VALUE).all()
        if feature.kind is not FeatureKind.SET:
            assert np.array_equal(values[~missing], columns.column(index)[~missing])
        low, high = recoded.offsets[index : index + 2]
        assert len(np.unique(recoded.codes[index])) == high - low or feature.kind is FeatureKind.SET
        assert feature.whole == (feature.name == "whole")


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_shuffled_study_orders_levels_again(seed, classes):
    rng = np.random.default_rng(seed)
    _, columns = prepared(rng, classes)
    study = Study.build(columns, MiningSettings(seed=seed % 100, subset_size=2))

    shuffled = study.with_shuffled_labels(1)

    expected = recode(replace(columns, labels=shuffled.columns.labels), study.split.train)
    assert shuffled.columns.fingerprint == expected.fingerprint
    table = TrainingTable.build(expected, study.split)
    for name, array in shuffled.table._asdict().items():
        np.testing.assert_array_equal(array, getattr(table, name), err_msg=name)


def test_the_paper_s_preset_reads_columns_as_they_were_prepared():
    _, columns = prepared(np.random.default_rng(0))

    assert Study.build(columns, MiningSettings(preset="paper", subset_size=2)).columns is columns


def test_rare_levels_do_not_come_first():
    cells = ["a"] * 50 + ["b"] * 50 + ["c"] * 2
    labels = ["yes"] * 40 + ["no"] * 10 + ["yes"] * 5 + ["no"] * 45 + ["yes"] * 2
    columns = prepare(pd.DataFrame({"x": cells, "y": labels}), TableSettings(target="y")).columns

    recoded = recode(columns, np.arange(102))

    assert recoded.features[set_features(recoded)[0]].levels == ("b", "c", "a")
    assert order_sets(recoded, np.arange(102)).fingerprint == recoded.fingerprint


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        # The order of the levels is d, b, a, c, others.
        ([(0, True, 2.0)], Condition("x", Op.NOT_IN, ("a", "b", "d"))),
        ([(0, False, 1.0)], Condition("x", Op.IN, ("b", "d"), or_missing=True)),
        ([(0, False, 1.0), (0, True, MISSING_VALUE)], Condition("x", Op.IN, ("b", "d"))),
        ([(0, False, 2.0), (0, True, 1.0)], Condition("x", Op.IS, "a")),
        ([(0, False, MISSING_VALUE)], Condition("x", Op.IS_MISSING, None)),
        ([(0, True, MISSING_VALUE)], Condition("x", Op.IS_PRESENT, None)),
        ([(0, True, 0.5), (1, False, 0.5)], Condition("x", Op.NOT_IN, ("a", "d"))),
        ([(1, False, 0.0), (2, False, 0.0)], Condition("x", Op.NOT_IN, ("a", "b"), or_missing=True)),
    ],
)
def test_literals_on_a_text_column_are_one_condition(parts, expected):
    frame = pd.DataFrame({"x": [*"aaaabbbbccccdddd", "e", "f", None, None] * 2, "y": ["no", "yes"] * 20})
    columns = prepare(frame, TableSettings(target="y", max_levels=4)).columns
    recoded = recode(columns, np.arange(40))
    index = set_features(recoded)[0]
    levels = {feature.levels: place for place, feature in enumerate(recoded.features)}
    places = [index, levels[("a",)], levels[("b",)]]
    features = list(recoded.features)
    features[index] = replace(features[index], levels=("d", "b", "a", "c", OTHER_LEVELS))
    literals = sorted((2 * places[place] + large, bound) for place, large, bound in parts)

    conditions = conditions_of(features, [literal for literal, _ in literals], [bound for _, bound in literals])

    assert conditions == (expected,)
