"""Datasets are searched in a sample and counted as a whole, the same in any files and on any number of threads."""

import os
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pyarrow import dataset

from maabo_dist import MiningSettings, TableSettings, mine_dataset
from maabo_dist.data.datasets import Dataset
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.mining.dataset import mine_sample, open_sample
from maabo_dist.rules.counting import SplitCounter
from maabo_dist.rules.matching import logic_arrays
from maabo_dist.study import Study

SETTINGS = MiningSettings(trees=40, seed=1)
TARGET = TableSettings(target="y")
SAMPLE = 4000


def table(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{index}": rng.normal(size=rows).round(2) for index in range(5)})
    frame["city"] = np.array(["Rome", "Oslo", "Lima", None], object)[rng.integers(0, 4, rows)]
    frame["y"] = "no"
    frame.loc[(frame["x0"] > 1) & (frame["city"] == "Oslo") & (rng.random(rows) < 0.9), "y"] = "yes"
    frame.loc[rng.random(rows) < 0.03, "y"] = "yes"
    frame.loc[(frame["x1"] > 1.5) & (frame["x2"] > 1) & (rng.random(rows) < 0.3), "y"] = "rare"
    return frame


def write(frame, folder, parts, **options):
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[rows].to_parquet(folder / f"{number}.parquet", index=False, **options)
    return folder


def mined(source, **options):
    return mine_dataset(source, TARGET, SETTINGS, sample=SAMPLE, **options)


@pytest.fixture(scope="module")
def frame():
    return table()


@pytest.fixture(scope="module")
def expected(frame):
    return mined(frame)


def covered(frame, rule):
    """The rows of a rule, by pandas alone."""
    mask = pd.Series(data=True, index=frame.index)
    for condition in rule.conditions:
        cells = frame[condition.feature]
        holds = {
            "<=": lambda cells=cells, value=condition.value: cells <= value,
            ">": lambda cells=cells, value=condition.value: cells > value,
            ">=": lambda cells=cells, value=condition.value: cells >= value,
            "=": lambda cells=cells, value=condition.value: cells == value,
            "!=": lambda cells=cells, value=condition.value: cells.notna() & (cells != value),
            "in": lambda cells=cells, value=condition.value: cells.isin(value),
            "not in": lambda cells=cells, value=condition.value: cells.notna() & ~cells.isin(value),
            "is missing": lambda cells=cells: cells.isna(),
            "is not missing": lambda cells=cells: cells.notna(),
        }[condition.op.value]()
        mask &= holds | (cells.isna() & condition.or_missing)
    return mask


def test_the_evidence_is_that_of_all_rows(frame, expected):
    result = expected.result

    assert sum(result.rows.values()) == len(frame)
    assert 0.9 * SAMPLE < expected.sample.rows < 1.1 * SAMPLE
    assert {result.classes[rule.label] for rule in result.rules} == {"no", "rare", "yes"}
    for rule in result.rules:
        counts = frame.loc[covered(frame, rule), "y"].value_counts()
        parts = (rule.train.counts, rule.validation.counts, rule.holdout.counts)
        for name in result.classes:
            assert sum(part[name] for part in parts) == counts.get(name, 0)
    assert "Searched a sample" in result.notes[0]


def test_planted_rules_are_found(expected):
    rules = {expected.result.classes[rule.label]: rule for rule in reversed(expected.result.rules)}

    assert {condition.feature for condition in rules["yes"].conditions} == {"x0", "city"}
    assert {condition.feature for condition in rules["rare"].conditions} == {"x1", "x2"}
    assert rules["yes"].verdict == "held up"


def test_the_digest_is_the_same_in_any_files_and_on_two_threads(frame, expected, tmp_path):
    shuffled = frame.sample(frac=1, random_state=3)
    sources = [
        write(frame, tmp_path / "one", 1),
        write(shuffled, tmp_path / "seven", 7, row_group_size=997),
        dataset.dataset(tmp_path / "one"),
        pl.scan_parquet(tmp_path / "seven" / "*.parquet"),
    ]

    results = [mined(source, jobs=jobs) for source, jobs in zip(sources, (1, 2, 2, 1), strict=True)]

    assert {each.result.digest for each in results} == {expected.result.digest}
    assert {each.sample.checksum for each in results} == {expected.sample.checksum}


def test_text_files_give_the_same_rules(frame, expected, tmp_path):
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 2)):
        frame.iloc[rows].to_csv(tmp_path / f"{number}.csv", index=False)

    assert mined(tmp_path).result.digest == expected.result.digest


def test_partitions_of_directories_are_features(frame, tmp_path):
    for city, rows in frame.groupby(frame["city"].fillna("none")):
        write(rows.drop(columns="city"), tmp_path / f"city={city}", 1)

    rules = mined(tmp_path).result.rules

    assert any(condition.feature == "city" for rule in rules for condition in rule.conditions)


def test_small_tables_are_mined_as_a_whole(frame, tmp_path):
    folder = write(frame.head(3000), tmp_path / "small", 2)

    result = mined(folder)

    assert result.sample is None
    assert result.result.digest == mine_dataset(frame.head(3000), TARGET, SETTINGS, sample=None).result.digest


@pytest.mark.parametrize("change", ["removed", "rewritten", "damaged"])
@pytest.mark.parametrize("activity", ["drawing the sample", "counting all rows"])
def test_a_file_that_changes_between_passes_is_named(frame, tmp_path, change, activity):
    folder = write(frame, tmp_path / "t", 3)
    path = folder / "2.parquet"

    def report(progress):
        if progress.activity == activity and path.exists() and path.stat().st_mtime > 1:
            if change == "removed":
                path.unlink()
            elif change == "rewritten":
                shutil.copy(folder / "1.parquet", path)
                os.utime(path, (1, 1))
            else:
                path.write_bytes(path.read_bytes()[:1000])
                os.utime(path, (1, 1))

    with pytest.raises(DatasetError, match=r"2\.parquet"):
        mined(folder, report=report)


def test_rows_in_files_and_in_the_sample_satisfy_the_same_conditions(tmp_path):
    rng = np.random.default_rng(5)
    frame = table(6000, seed=5)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, len(frame)), unit="D")
    frame["code"] = [f"{number:.1f}" for number in rng.normal(size=len(frame))]
    frame["shop"] = [f"shop {number}" for number in rng.geometric(0.05, len(frame))]
    frame["paid"] = np.where(rng.random(len(frame)) < 0.3, None, rng.random(len(frame)) < 0.5)
    frame.loc[rng.random(len(frame)) < 0.2, "x1"] = np.nan
    late = (frame["day"].dt.month > 9) | (frame["shop"].isin(["shop 1", "shop 2"])) | (frame["paid"] == True)  # noqa: E712
    frame["y"] = np.where(late & (rng.random(len(frame)) < 0.8), "late", np.where(frame["x1"].isna(), "gap", "no"))
    settings = MiningSettings(trees=150, all=True, seed=2)
    opened = Dataset.open(write(frame, tmp_path / "t", 2))

    # All mined rows are in the sample.
    with open_sample(opened, TARGET, settings, 5999) as sampled:
        rules = mine_sample(sampled, settings).result.rules
        study = Study.build(sampled.table.columns, settings)
        counts = SplitCounter.of(study).count(*logic_arrays(rules))

    assert sampled.info.rates == {"gap": 1.0, "late": 1.0, "no": 1.0}
    assert {condition.feature for rule in rules for condition in rule.conditions} >= {"day", "shop", "paid", "x1"}
    for rule, (train, validation, _) in zip(rules, counts.tolist(), strict=True):
        assert list(rule.train.counts.values()) == train
        assert list(rule.validation.counts.values()) == validation


def test_thresholds_are_those_that_all_rows_support():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({f"x{index}": rng.integers(0, 1000, 40_000) for index in range(3)})
    frame["gap"] = np.where(rng.random(len(frame)) < 0.2, np.nan, rng.integers(0, 300, len(frame)))
    frame["y"] = np.where((frame["x0"] > 600) & (frame["gap"] <= 100) & (rng.random(len(frame)) < 0.9), "in", "out")

    mined = mine_dataset(frame, TARGET, MiningSettings(trees=20, for_class=("in",)), sample=2000)

    (rule, *_) = mined.result.rules
    bounds = {condition.feature: (condition.op.value, condition.value) for condition in rule.conditions}
    assert bounds["gap"] == ("<=", 100)
    # 600 is no value of the sample, and rounder than 601.
    assert bounds["x0"] in {(">=", 600), (">=", 601)}
    assert rule.verdict == "held up"
    assert not any(condition.or_missing for condition in rule.conditions)


def test_a_table_without_relations_has_no_findings():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({f"x{index}": rng.normal(size=20_000) for index in range(5)})
    frame["y"] = rng.choice(["no", "yes"], len(frame))

    result = mined(frame).result

    assert result.rules == ()
    assert {record.label for record in result.missing_classes} == {"no", "yes"}


def test_settings_that_need_all_rows_are_refused(frame):
    for table_settings, mining, option in (
        (TableSettings(target="y", group="city"), SETTINGS, "--group"),
        (TARGET, MiningSettings(preset="paper"), "--preset paper"),
        (TARGET, MiningSettings(stratify=True), "--stratify"),
    ):
        with pytest.raises(SettingsError, match=f"{option} needs all rows in memory.*--sample all"):
            mine_dataset(frame, table_settings, mining, sample=SAMPLE)
    with pytest.raises(SettingsError, match=r"--sample 10: at least 1,000"):
        mine_dataset(frame, TARGET, SETTINGS, sample=10)


def test_the_columns_of_all_rows_are_described(tmp_path):
    rng = np.random.default_rng(8)
    frame = table(6000, seed=8)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, len(frame)), unit="D")
    frame["code"] = [f"code {number}" for number in rng.integers(0, 3000, len(frame))]
    frame["paid"] = rng.random(len(frame)) < 0.5
    frame.loc[:99, "x1"] = np.nan
    frame.loc[100, "x1"] = np.inf

    for parts in (1, 5):
        mined_columns = mined(write(frame, tmp_path / f"{parts}", parts, row_group_size=700)).columns
        columns = {column.name: column for column in mined_columns}
        assert list(columns) == sorted(set(frame) - {"y"})
        assert (columns["x0"].smallest, columns["x0"].largest) == (frame["x0"].min(), frame["x0"].max())
        assert (columns["x1"].missing, columns["x1"].distinct, columns["x1"].levels) == (101, None, {})
        assert columns["city"].missing == frame["city"].isna().sum()
        assert columns["city"].levels == frame["city"].value_counts().to_dict()
        assert (columns["code"].distinct, columns["code"].levels) == (None, {})
        assert columns["paid"].levels == {"true": frame["paid"].sum(), "false": (~frame["paid"]).sum()}
        assert columns["day"].smallest == str(frame["day"].min())
