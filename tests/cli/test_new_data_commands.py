"""`maabo apply` and `maabo check`."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from maabo_dist.cli.new_data import show_rows
from maabo_dist.contract.checks import CheckReport
from maabo_dist.data import batches
from maabo_dist.data.readers import read_table
from maabo_dist.new_data.use import apply_rules, check_rules


def a_table(rows=1500, seed=1, noise=0.1):
    """Return rows whose class depends on a number, a text and a date."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, rows), unit="D")
    frame = pd.DataFrame(
        {
            "id": [f"c{number:05d}" for number in range(rows)],
            "größe": rng.normal(50, 20, rows).round(1),
            "stadt": rng.choice(["Köln", "Bonn", "Aachen"], rows),
            "seit": days.strftime("%d.%m.%Y"),
            "member": rng.random(rows) < 0.5,
        }
    )
    late = days > "2025-01-01"
    yes = (frame["größe"] > 60) & frame["member"] | (frame["stadt"] == "Köln") & late
    frame["churned"] = np.where(yes ^ (rng.random(rows) < noise), "yes", "no")
    frame["größe"] = frame["größe"].mask(rng.random(rows) < 0.05)
    return frame


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run on a table with Latin-1 text and decimal commas."""
    folder = tmp_path_factory.mktemp("mined")
    a_table().to_csv(folder / "old.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    options = ["--target", "churned", "--trees", "60", "--out", str(folder / "run"), "--quiet"]
    command = [sys.executable, "-m", "maabo_dist", "mine", str(folder / "old.csv"), *options]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run"


@pytest.fixture
def new(tmp_path):
    a_table(400, seed=2).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


SUFFIXES = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".parquet": lambda frame, path: frame.to_parquet(path),
    ".feather": lambda frame, path: frame.to_feather(path),
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".xlsx": lambda frame, path: frame.to_excel(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t", encoding="cp1252"),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_file_gives_the_same_matches(maabo, run, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 150)
    frame = a_table(400, seed=2)
    expected = apply_rules(run, frame, keep=["id"])
    SUFFIXES[suffix](frame, tmp_path / f"new{suffix}")

    code, out, err = maabo("apply", run, tmp_path / f"new{suffix}", "--out", tmp_path / "out.parquet", "--keep", "id")

    written = pd.read_parquet(tmp_path / "out.parquet")
    assert (code, out) == (0, "")
    assert "to 400 rows" in err
    assert written["row"].tolist() == list(range(1, 401))
    assert written["matches"].map(list).tolist() == expected["matches"].map(list).tolist()
    for name in ("id", "decided_by", "predicted", "reason"):
        assert written[name].tolist() == expected[name].tolist()


def test_the_rows_of_the_mined_table_match_as_the_document_counts_them(run):
    document = json.loads((run / "rules.json").read_text(encoding="utf-8"))
    frame = a_table()

    matches = apply_rules(run, frame)["matches"]

    for rule in document["rules"]:
        rows = sum(rule[part]["n"] for part in ("train", "validation", "holdout"))
        assert sum(rule["id"] in ids for ids in matches) == rows
    assert len(document["rules"]) > 1


def test_the_deciding_rule_gives_the_class_and_the_reason(run):
    document = json.loads((run / "rules.json").read_text(encoding="utf-8"))
    by_id = {rule["id"]: rule for rule in document["rules"]}

    result = apply_rules(run, a_table(300, seed=5))

    for ids, decided_by, predicted, reason in result.itertuples(index=False):
        usable = [each for each in ids if by_id[each]["verdict"] != "failed"]
        if not usable:
            assert pd.isna([decided_by, predicted, reason]).all()
            continue
        strongest = max(usable, key=lambda each: by_id[each]["holdout"]["precision_low"])
        assert by_id[decided_by]["holdout"]["precision_low"] == by_id[strongest]["holdout"]["precision_low"]
        assert (predicted, reason) == (by_id[decided_by]["class"], by_id[decided_by]["text"])


def test_csv_on_standard_output_from_standard_input(maabo, run, new, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(new.read_bytes())))

    code, out, _ = maabo("apply", run, "-", "--out", "-", "--keep", "id,stadt", "--quiet")

    written = pd.read_csv(io.StringIO(out), keep_default_na=False)
    expected = apply_rules(run, new)
    assert code == 0
    assert list(written.columns) == ["row", "id", "stadt", "matches", "decided_by", "predicted", "reason"]
    assert written["matches"].tolist() == [" ".join(ids) for ids in expected["matches"]]
    assert written["predicted"].tolist() == expected["predicted"].fillna("").tolist()


def test_parquet_on_standard_output_is_a_whole_file(run, new):
    command = [sys.executable, "-m", "maabo_dist", "apply", run, new, "--out", "-", "--format", "parquet"]

    out = subprocess.run(command, check=True, capture_output=True).stdout

    assert len(pd.read_parquet(io.BytesIO(out))) == 400


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_files_of_a_directory_are_one_table(maabo, run, tmp_path, suffix):
    frame = a_table(400, seed=2)
    for city, rows in frame.groupby("stadt"):
        folder = tmp_path / "parts" / f"stadt={city}"
        folder.mkdir(parents=True)
        SUFFIXES[suffix](rows.drop(columns="stadt") if suffix == ".parquet" else rows, folder / f"part{suffix}")

    code, _, _ = maabo("apply", run, tmp_path / "parts", "--out", tmp_path / "out.parquet", "--keep", "id")
    globbed = maabo("check", run, f"{tmp_path}/parts/**/*{suffix}", "--json")

    written = pd.read_parquet(tmp_path / "out.parquet").set_index("id")["predicted"]
    expected = apply_rules(run, frame.set_index("id", drop=False))["predicted"]
    assert code == 0
    assert written.sort_index().fillna("").tolist() == expected.sort_index().fillna("").tolist()
    assert json.loads(globbed[1])["rules"] == check_rules(run, frame).to_json()["rules"]


def test_a_dataframe_keeps_its_index_and_a_polars_frame_works_too(run):
    import polars as pl

    frame = a_table(50, seed=3).set_index("id", drop=False)

    result = apply_rules(run, frame)

    assert list(result.index) == list(frame["id"])
    same = apply_rules(run, pl.from_pandas(frame.reset_index(drop=True)))
    assert same["predicted"].tolist() == result["predicted"].tolist()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--out", "out.xls"], "the suffix names no format"),
        (["--out", "missing/out.csv"], "does not exist"),
        (
            ["--out", "out.csv", "--keep", "ID"],
            "--keep 'ID': the table has no such column. The columns are 'id', 'größe'",
        ),
        (["--out", "out.csv", "--keep", "id,id"], "names a column twice"),
    ],
)
def test_wrong_options_are_explained(maabo, run, new, tmp_path, monkeypatch, options, word):
    monkeypatch.chdir(tmp_path)

    code, out, err = maabo("apply", run, new, *options)

    assert (code, out) == (2, "")
    assert word in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]


def test_a_table_without_a_column_of_the_rules_leaves_no_file(maabo, run, tmp_path):
    a_table(50).rename(columns={"größe": "Größe"}).to_csv(tmp_path / "new.csv", index=False)

    code, _, err = maabo("apply", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv")

    assert code == 2
    assert "'größe'. Did you mean 'Größe'?" in err
    assert not (tmp_path / "out.csv").exists()


def test_a_column_of_another_kind_is_an_error(maabo, run, tmp_path):
    a_table(50).assign(größe="tall").to_csv(tmp_path / "new.csv", index=False)

    code, _, err = maabo("apply", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv")

    assert code == 2
    assert "Column 'größe' holds text ('tall') where numbers are expected" in err
    assert not (tmp_path / "out.csv").exists()


def test_a_kept_column_of_the_same_name_as_a_result_is_an_error(maabo, run, tmp_path):
    a_table(50).assign(reason="x").to_csv(tmp_path / "new.csv", index=False)

    code, _, err = maabo("apply", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv", "--keep", "reason")

    assert (code, "Rename it in the table" in err) == (2, True)


def test_rules_hold_on_new_rows_of_the_same_kind(maabo, run, tmp_path):
    a_table(3000, seed=7).to_csv(tmp_path / "new.csv", index=False)

    code, out, _ = maabo("check", run, tmp_path / "new.csv", "--fail-on", "drifted,failed")

    assert code == 0
    assert "new.csv · churned · 3,000 rows" in out
    assert "rules hold." in out


def test_the_counts_of_a_check_are_those_of_the_rows_that_match(run, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 99)
    frame = a_table(700, seed=7)
    frame.loc[:4, "churned"] = None
    matches = apply_rules(run, frame)["matches"]

    report = check_rules(run, frame)

    assert (report.rows, report.unlabelled) == (695, 5)
    assert "Left out 5 rows without a class." in report.notes
    for rule in report.rules:
        covered = frame.loc[[rule.id in ids for ids in matches], "churned"].dropna()
        assert rule.counts == {name: int((covered == name).sum()) for name in ("no", "yes")}


def test_drift_and_failure_are_found_and_end_with_1_if_asked(maabo, run, tmp_path):
    noisy, shuffled = a_table(4000, seed=8, noise=0.3), a_table(4000, seed=9)
    shuffled["churned"] = np.random.default_rng(1).permutation(shuffled["churned"])
    noisy.to_csv(tmp_path / "noisy.csv", index=False)
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)

    drifted = maabo("check", run, tmp_path / "noisy.csv", "--fail-on", "drifted", "--json")
    failed = maabo("check", run, tmp_path / "shuffled.csv", "--fail-on", "failed", "--json")

    assert (drifted[0], failed[0]) == (1, 1)
    assert CheckReport.model_validate_json(drifted[1]).statuses["drifted"] > 0
    assert CheckReport.model_validate_json(failed[1]).statuses["failed"] > 0
    assert maabo("check", run, tmp_path / "shuffled.csv", "--fail-on", "untested")[0] == 0


def test_few_rows_leave_rules_untested(maabo, run, tmp_path):
    a_table(12, seed=8).to_csv(tmp_path / "few.csv", index=False)

    code, out, _ = maabo("check", run, tmp_path / "few.csv", "--fail-on", "untested")

    assert (code, "untested" in out) == (1, True)


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        (lambda frame: frame.drop(columns="churned"), [], "no target column 'churned'"),
        (lambda frame: frame, ["--target", "Churned"], "Did you mean 'churned'?"),
        (lambda frame: frame.assign(churned="maybe"), [], "do not know: 'maybe' (50 rows). They know 'no', 'yes'"),
        (lambda frame: frame.assign(churned=None), [], "No row has a class"),
        (lambda frame: frame.drop(columns="größe"), [], "lacks 1 column of the rules: 'größe'"),
        (lambda frame: frame, ["--significance", "2"], "not between 0 and 1"),
        (lambda frame: frame, ["--fail-on", "holds"], "use one or more of drifted, failed, untested"),
    ],
)
def test_what_is_wrong_with_a_check_is_explained(maabo, run, tmp_path, change, options, word):
    change(a_table(50)).to_csv(tmp_path / "new.csv", index=False)

    code, out, err = maabo("check", run, tmp_path / "new.csv", *options)

    assert (code, out) == (2, "")
    assert word in err


def test_a_number_is_cut_where_the_mined_one_was(maabo, tmp_path):
    table = read_table(_diabetes(tmp_path))
    maabo("mine", "--dataset", "diabetes", "--trees", "30", "--out", tmp_path / "run", "--quiet")

    report = check_rules(tmp_path / "run", table.assign(later=table["progression"]), target="later")

    assert report.class_rows == {"progression ≤ 152.133": 247, "progression > 152.133": 195}


def _diabetes(folder):
    from maabo_dist.data.bundled import load_bundled

    load_bundled("diabetes")[0].to_csv(folder / "diabetes.csv", index=False)
    return folder / "diabetes.csv"


@pytest.mark.parametrize("width", [80, 120])
def test_the_outcome_fits_the_terminal(run, tmp_path, width):
    from rich.console import Console

    from maabo_dist.report.checks import print_check

    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None, highlight=False)

    print_check(check_rules(run, a_table(700, seed=7), name="new.csv"), console)

    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert any("holds" in line for line in lines)
    assert any("p of drift" in line for line in lines) == (width == 120)


def test_the_rows_so_far_are_shown_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())

    with show_rows(quiet=False) as progress:
        progress(12345)
    with show_rows(quiet=True) as silent:
        assert silent is None
