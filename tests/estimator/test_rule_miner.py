"""`RuleMiner` as scikit-learn users use it."""

import inspect
from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from maabo_dist import RuleMiner
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings
from tests import factories


def planted(rows=600, seed=0):
    """sex = f and fare > 50 → yes; everything else mostly no."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows),
            "fare": rng.uniform(0, 100, rows).round(2),
            "port": rng.choice(["C", "Q", "S"], rows),
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(1, 80, rows)),
            "noise": rng.random(rows),
        }
    )
    yes = (frame["sex"] == "f") & (frame["fare"] > 50)
    flipped = rng.random(rows) < 0.03
    return frame, np.where(yes ^ flipped, "yes", "no")


def test_subsets_have_the_columns_that_they_must_have_and_one_of_a_group():
    miner = RuleMiner(strategy="exhaustive", always="port", one_of=[["fare", "age"]]).fit(*planted())

    fare, port, age = 1, {2, 3, 4}, 5  # the features of the columns
    subsets = [set(row) for row in miner.result_.records.subsets.tolist()]
    assert all(port & subset and not {fare, age} <= subset for subset in subsets)
    # 1 with the three levels, 3 · 4 with two of them, 3 · (6 − 1) with one
    assert len(subsets) == miner.result_.plan.space_size == 1 + 12 + 15
    assert {"sex", "fare"} <= {condition.feature for rule in miner.rules_ for condition in rule.conditions}


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # caused by the check itself
@parametrize_with_checks(
    [RuleMiner(), RuleMiner(min_samples=5, trees=20, batch=4)],
    expected_failed_checks=lambda _estimator: {
        # It compares rows in different orders, with and without weights.
        "check_sample_weight_equivalence_on_dense_data": "the split depends on the order of the rows",
        "check_sample_weight_equivalence_on_sparse_data": "the split depends on the order of the rows",
    },
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_its_parameters_are_the_settings_under_the_same_names_and_defaults():
    defaults = {name: p.default for name, p in inspect.signature(RuleMiner).parameters.items()}
    expected = {name: field.default for name, field in MiningSettings.model_fields.items()}
    expected["class_weighting"] = expected.pop("class_weight")
    expected |= {
        name: TableSettings.model_fields[name].default for name in ("impute", "missing_indicator", "max_levels", "time")
    }
    expected |= {name: field.default for name, field in RepeatSettings.model_fields.items()}

    assert defaults == expected | {"n_jobs": None, "progress": None}


def test_a_planted_rule_is_found_in_a_table_of_text_and_missing_values():
    frame, labels = planted()

    rules = RuleMiner().fit(frame, labels).get_rules()

    best = rules[rules["class"] == "yes"].iloc[0]
    assert "sex = f" in best["rule"]
    assert "fare > " in best["rule"]
    assert best["precision"] > 0.9


def test_the_row_rule_matrix_has_a_rules_training_rows():
    frame, labels = planted()
    miner = RuleMiner(test_size=0.3).fit(frame, labels)

    matrix = miner.transform(frame)

    expected = [rule.train.n + rule.validation.n for rule in miner.rules_]
    assert matrix.sum(axis=0).tolist() == expected
    assert list(miner.get_feature_names_out()) == [rule.id for rule in miner.rules_]


def test_explain_names_the_rules_that_cover_a_row():
    frame, labels = planted()
    miner = RuleMiner().fit(frame, labels)

    explained = miner.explain(frame.iloc[:50])

    matrix = miner.transform(frame.iloc[:50])
    assert {(row, rule) for row, rule in zip(explained["row"], explained["id"], strict=True)} == {
        (row, miner.rules_[number].id) for row, number in zip(*np.nonzero(matrix), strict=True)
    }


def test_rows_that_no_rule_covers_get_the_base_rates():
    frame, labels = planted()
    miner = RuleMiner(gini=0.05).fit(frame, labels)

    alone = np.flatnonzero(miner.transform(frame).sum(axis=1) == 0)

    assert len(alone)
    assert np.allclose(miner.predict_proba(frame.iloc[alone]), miner.result_.base_rates)


def test_it_predicts_better_than_the_base_rate_and_clones():
    frame, labels = planted()

    scores = cross_val_score(clone(RuleMiner()), frame, labels, cv=3, scoring="balanced_accuracy")

    assert scores.mean() > 0.85


def test_the_digest_does_not_depend_on_the_number_of_threads():
    frame, settings = load_bundled("breast_cancer")
    X, y = frame.drop(columns=settings.target), frame[settings.target]

    one, two = (RuleMiner(trees=200, n_jobs=n).fit(X, y).result_.digest for n in (1, 2))

    assert one == two


def test_a_progress_callback_sees_the_search_and_can_stop_it():
    frame, labels = planted()
    progress_reports = []

    miner = RuleMiner(trees=50, batch=1, progress=lambda p: progress_reports.append(p.trees) or p.trees >= 7).fit(
        frame, labels
    )

    assert progress_reports == list(range(1, 8))
    assert miner.result_.search.stopped == "asked"


def test_sizes_may_be_mixed_as_long_as_there_are_more_features():
    frame, labels = planted()

    mixed = RuleMiner(subset_size="1-2").fit(frame, labels)
    single = RuleMiner(subset_size="2-9").fit(frame, labels)

    assert mixed.result_.plan.sizes == (1, 2)
    assert {len(subset) for subset in mixed.get_rules()["subset"]} <= {1, 2}
    assert single.result_.settings.strategy == "single"


def test_a_setting_out_of_range_is_named():
    frame, labels = planted(rows=60)

    with pytest.raises(ValueError, match=r"--alpha 2: must be less than 1"):
        RuleMiner(alpha=2).fit(frame, labels)


def test_a_new_level_in_a_column_of_several_levels_is_accepted():
    frame, labels = planted()
    miner = RuleMiner().fit(frame, labels)

    covered = miner.transform(frame.iloc[:3].assign(port="Z"))

    assert covered.shape == (3, len(miner.rules_))


def test_with_repeats_rules_have_a_stability_and_there_are_consensus_rules():
    frame, labels = planted()
    reports = []

    miner = RuleMiner(repeats=2, trees=10, progress=reports.append).fit(frame, labels)

    assert set(miner.get_rules()["stability"]) <= {0.0, 0.5, 1.0}
    assert "sex = f" in " ".join(miner.get_consensus()["rule"])
    assert set(miner.get_consensus()["class"]) <= {"yes", "no"}
    assert sum(report.trees == report.planned for report in reports) == 3


def test_without_repeats_there_are_no_consensus_rules():
    miner = RuleMiner(trees=10).fit(*planted())

    assert miner.get_consensus().empty
    assert "stability" not in miner.get_rules()


class ArrowFrame:
    """A frame of another library, such as Polars, which passes its columns on by the Arrow interface."""

    def __init__(self, frame):
        self.table, self.columns = pa.Table.from_pandas(frame, preserve_index=False), list(frame.columns)

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)

    def __len__(self):
        return self.table.num_rows


def test_few_columns_of_another_library_unseen_levels_and_the_targets_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "s": rng.choice(["u", "v"], 300)})
    y = pd.Series(np.where((frame["a"] > 0) & (frame["s"] == "u"), "yes", "no"), name="ill")

    miner = RuleMiner().fit(ArrowFrame(frame), y)

    assert {column for rule in miner.rules_ for column in (c.feature for c in rule.conditions)} <= {"a", "s"}
    assert miner.rules_[0].text.endswith("THEN ill = yes")
    assert miner.transform(pd.DataFrame({"a": [1.0], "s": ["new"]})).sum() == 0
    assert RuleMiner().fit(frame[["a"]], y).rules_


def polars_table(rows=600):
    rng = np.random.default_rng(0)
    start = date(2023, 1, 2)
    frame = pl.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], rows),
            "joined": [start + timedelta(days=int(days)) for days in rng.integers(0, 700, rows)],
            "vip": rng.random(rows) < 0.3,
            "score": [None if value > 1.5 else value for value in rng.normal(size=rows).tolist()],
            "kind": pl.Series(rng.choice(["a", "b"], rows)).cast(pl.Categorical),
        }
    )
    is_weekend = frame["joined"].dt.weekday().is_in([6, 7])
    churned = (frame["age"] > 50) & (frame["city"] == "Rome") | is_weekend
    return frame, pl.Series("churned", np.where(churned, "yes", "no"))


def test_a_polars_frame_gives_the_rules_of_the_same_pandas_frame():
    frame, churned = polars_table()

    miner, same = RuleMiner().fit(frame, churned), RuleMiner().fit(frame.to_pandas(), churned.to_pandas())

    assert miner.rules_ == same.rules_
    assert any("joined: weekday ≥ Saturday" in rule.text for rule in miner.rules_)
    assert all(rule.text.endswith(("THEN churned = yes", "THEN churned = no")) for rule in miner.rules_)
    assert miner.feature_names_in_.tolist() == frame.columns
    assert miner.predict(frame).tolist() == same.predict(frame.to_pandas()).tolist()
    assert miner.score(frame, churned) > 0.95
    assert miner.explain(frame.head(30)).equals(same.explain(frame.to_pandas().head(30)))


def test_whole_sample_weights_are_numbers_of_rows():
    frame, labels = planted()
    weights = np.random.default_rng(0).integers(0, 3, len(frame))

    weighted = RuleMiner(seed=1).fit(frame, labels, sample_weight=weights)
    repeated = RuleMiner(seed=1).fit(frame.loc[frame.index.repeat(weights)], np.repeat(labels, weights))

    assert weighted.rules_
    assert weighted.result_.digest == repeated.result_.digest
    assert weighted.result_.fingerprint == repeated.result_.fingerprint


def test_other_sample_weights_are_those_of_the_command_line():
    frame, labels = planted()
    weights = np.random.default_rng(0).gamma(2, 1, len(frame))

    miner = RuleMiner(seed=1).fit(frame, labels, sample_weight=pd.Series(weights))

    columns = prepare(frame.assign(w=weights, y=labels), TableSettings(target="y", weight="w")).columns
    assert miner.result_.digest == mine(columns, MiningSettings(seed=1)).digest
    assert miner.result_.design_effect > 1.1
    assert {rule.certificate.method for rule in miner.result_.rules} == {"shuffles"}
    assert miner.predict(frame).tolist().count("yes") > 0


def test_groups_stay_together_and_are_no_features():
    columns = factories.make_people(1, groups=240, rows=5, effect=0.5)
    X = np.column_stack([columns.column(index) for index in range(4)])
    names = np.array([f"person {group}" for group in columns.groups], object)

    miner = RuleMiner(seed=1).fit(X, columns.labels, groups=names)

    assert "Rows with the same 'groups' stay together: 240 groups of 5 rows." in miner.notes_
    assert miner.result_.rows["holdout"] == 240
    assert miner.n_features_in_ == 4
    assert {rule.certificate.method for rule in miner.result_.rules} == {"shuffles"}
    assert miner.transform(X).shape == (len(X), len(miner.rules_))


def test_a_class_without_weight_is_no_class():
    frame, labels = planted()
    labels = np.where(np.arange(len(labels)) % 10 == 0, "maybe", labels)

    miner = RuleMiner(seed=1).fit(frame, labels, sample_weight=(labels != "maybe").astype(float))

    assert miner.classes_.tolist() == ["no", "yes"]
    assert set(miner.predict(frame)) == {"no", "yes"}
    assert miner.predict_proba(frame).shape == (len(frame), 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": [-1.0] * 3}, "Found input variables with inconsistent|sample_weight.shape"),
        ({"sample_weight": np.full(400, -1.0)}, "of one class"),
        ({"groups": [1, 2]}, "inconsistent numbers of samples"),
        ({"groups": np.zeros(400)}, "all rows have the same value"),
    ],
)
def test_weights_and_groups_that_cannot_be_used_are_errors(arguments, message):
    frame, labels = planted(400)

    with pytest.raises(ValueError, match=message):
        RuleMiner().fit(frame, labels, **arguments)


def test_the_latest_rows_are_held_out_by_the_name_of_a_column():
    frame, labels = planted(1200)

    miner = RuleMiner(seed=1, time="day", trees=10).fit(frame.assign(day=np.arange(1200)), labels)

    assert "Held out: the 240 rows from day 960 on." in miner.notes_
    assert miner.predict(frame.assign(day=0)).shape == (1200,)
