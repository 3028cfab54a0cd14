"""`maabo mine` on a directory: the output says what was searched and counted; mistakes end with exit code 2."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator

from maabo_dist.cli.mine_dataset import pass_reporter
from maabo_dist.cli.progress import Display
from maabo_dist.contract.result import load_schema
from maabo_dist.mining.dataset import PassProgress

QUICK = ("--target", "y", "--trees", "30", "--jobs", "1", "--sample", "3000")


@pytest.fixture
def run(maabo):
    """Runs `maabo mine` in this process; returns exit code, stdout and stderr."""
    return partial(maabo, "mine")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = 9000
    frame = pd.DataFrame({f"x{index}": rng.normal(size=rows).round(2) for index in range(4)})
    frame["y"] = np.where((frame["x0"] > 0.8) & (rng.random(rows) < 0.9), "high", "low")
    (tmp_path / "sales").mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), 3)):
        frame.iloc[part].to_parquet(tmp_path / "sales" / f"{number}.parquet", index=False)
    return tmp_path / "sales"


def test_the_document_tells_the_sample_from_the_evidence(run, folder, tmp_path):
    code, out, err = run(folder, *QUICK, "--json", "--report", tmp_path / "report.html")
    document = json.loads(out)

    assert code == 0, err
    Draft202012Validator(load_schema()).validate(document)
    assert document["dataset"]["rows"] == 9000
    assert document["dataset"]["sample"]["of"] == 9000
    assert document["dataset"]["sample"]["files"] == 3
    assert 2700 < document["dataset"]["sample"]["rows"] < 3300
    assert sum(each["rows"] for each in document["coverage"]["classes"]) == 9000
    assert sum(each["rows"] for each in document["coverage"]["overlaps"]) == 9000
    assert "Searched a random sample" in err
    assert "9,000" in (tmp_path / "report.html").read_text()


def test_globs_and_directories_give_the_same_rules(run, folder):
    outputs = [run(source, *QUICK, "--json")[1] for source in (folder, folder / "*.parquet")]

    assert len({json.loads(each)["digest"] for each in outputs}) == 1


def test_small_directories_and_sample_all_are_mined_as_a_whole(run, folder):
    digests = set()
    for sample in ("all", "9000"):
        document = json.loads(run(folder, *QUICK, "--sample", sample, "--json")[1])
        assert "sample" not in document["dataset"]
        digests.add(document["digest"])

    assert len(digests) == 1


def test_explain_tells_memory_and_time_before_rows_are_read(run, folder):
    _, _, err = run(folder, *QUICK, "--explain")
    lines = [line.removeprefix("maabo: ") for line in err.splitlines()]

    assert lines[0].startswith("table: 9,000 rows and 5 columns in 3 files")
    assert [line.partition(":")[0] for line in lines[:4]] == ["table", "sample", "memory", "passes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "some"), "--sample some: give a number of rows, or all"),
        (("--sample", "100"), "--sample 100: at least 1,000"),
        (("--preset", "paper"), "--preset paper needs all rows in memory"),
        (("--repeats", "3"), "--repeats mines parts of the rows"),
        (("--target", "z"), "'z': the table has no such column"),
    ],
)
def test_mistakes_end_with_the_remedy(run, folder, options, message):
    code, out, err = run(folder, *QUICK, *options)

    assert (code, out) == (2, "")
    assert message in err


def test_a_damaged_file_is_named(run, folder):
    path = folder / "1.parquet"
    path.write_bytes(path.read_bytes()[:-7])

    code, out, err = run(folder, *QUICK)

    assert (code, out) == (2, "")
    assert "1.parquet is no whole Parquet file" in err


def test_a_single_file_with_groups_is_mined_as_a_whole_unless_a_sample_is_asked_for(run, folder):
    path = folder / "0.parquet"
    pd.read_parquet(path).assign(g=np.arange(3000) % 50).to_parquet(path)

    assert run(path, *QUICK[:-2], "--group", "g")[0] == 0
    code, _, err = run(path, *QUICK[:-1], "1000", "--group", "g")
    assert code == 2
    assert "--group needs all rows in memory" in err


def test_an_interrupt_ends_the_pass_that_it_hits_and_no_later_one():
    display = Display()
    report = pass_reporter(display)
    report(PassProgress("drawing the sample", 10, 100))
    display.stopping = True
    with pytest.raises(KeyboardInterrupt):
        report(PassProgress("drawing the sample", 20, 100))

    display.set_activity("")  # the search was stopped meanwhile; its rules are counted

    report(PassProgress("counting all rows", 10, 100))
    report(PassProgress("counting all rows", 20, 100))
