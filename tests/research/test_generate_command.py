import json

import pandas as pd
import pytest

from maabo_dist.data.readers import read_table
from maabo_dist.research.synthetic.generation import Truth, generate
from maabo_dist.research.synthetic.recipe import Recipe
from tests.documents import document_json

SMALL = ("--rows", "300", "--features", "8")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_the_table_and_its_truth_are_written_next_to_each_other(extension, tmp_path, maabo):
    table = tmp_path / f"table.{extension}"
    options = ("--conjunctions", "2", "--xor", "1", "--categorical", "0.2", "--missing", "0.1", "--seed", "7")

    code, out, err = maabo("generate", table, *SMALL, *options)

    frame, truth = generate(
        Recipe(rows=300, features=8, conjunctions=(2,), xor=1, categorical=0.2, missing=0.1, seed=7)
    )
    assert (code, err) == (0, "")
    assert out == (
        f"Wrote {table} (300 rows, 8 features, 4 of them in 5 planted rules) and {tmp_path / 'table.truth.json'}.\n"
    )
    assert Truth.load(tmp_path / "table.truth.json") == truth
    pd.testing.assert_frame_equal(read_table(table), frame, check_dtype=False)
    assert names_in(tmp_path) == sorted([table.name, "table.truth.json"])


def test_the_same_command_writes_the_same_bytes_again(tmp_path, maabo):
    table = tmp_path / "table.csv"
    contents = []
    for seed in (1, 1, 2):
        assert maabo("generate", table, *SMALL, "--seed", seed, "--truth", tmp_path / "truth.json")[0] == 0
        contents.append((table.read_bytes(), (tmp_path / "truth.json").read_bytes()))

    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


def test_generated_rules_are_mined_and_scored(tmp_path, maabo):
    table, truth, rules = tmp_path / "table.csv", tmp_path / "table.truth.json", tmp_path / "rules.json"
    maabo("generate", table, "--features", "12", "--coverage", "0.15", "--seed", "2")
    _, document, _ = maabo("mine", table, "--target", "y", "--trees", "100%", "--jobs", "1", "--json", "-q")
    rules.write_text(document, encoding="utf-8")

    code, out, err = maabo("score", rules, truth, "--data", table)
    plain = json.loads(maabo("score", rules, truth, "--data", table, "--json")[1])

    assert (code, err) == (0, "")
    assert "P1" in out
    assert "Of 2 planted rules" in out
    assert plain["totals"]["missed"] == 0
    assert plain["totals"]["fresh_precision"] > 0.85


def test_without_the_table_the_score_names_the_unknown_values(tmp_path, maabo):
    table, rules = tmp_path / "table.csv", tmp_path / "rules.json"
    maabo("generate", table, *SMALL)
    rules.write_text(json.dumps(document_json()), encoding="utf-8")

    code, out, _ = maabo("score", rules, tmp_path / "table.truth.json")

    assert code == 0
    assert "2 missed" in out
    assert "unknown without --data" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.csv", "--coverage", "0.5"], ["--coverage 0.5 cannot be reached", "maximum is 0.375"]),
        (["t.csv", "--features", "4"], ["--features 4 is too few", "at least 5"]),
        (["t.csv", "--conjunctions", "2,many"], ["--conjunctions 'many'"]),
        (["t.csv", "--classes", "1"], ["--classes '1'"]),
        (["t.csv", "--imbalance", "0.3"], ["--imbalance 0.3", "at least 0.5"]),
        (["t.csv", "--rows", "0"], ["--rows '0'"]),
        (["t.xlsx"], ["t.xlsx", ".csv"]),
        (["nowhere/t.csv"], ["nowhere", "Make it first"]),
        (["t.csv", "--truth", "t.csv"], ["--truth t.csv"]),
        (["t.csv", "--truth", "nowhere/t.json"], ["nowhere"]),
        (["mine.csv"], ["mine.csv exists"]),
        ([], ["TABLE"]),
    ],
)
def test_an_impossible_request_is_rejected_and_nothing_is_written(arguments, words, tmp_path, maabo, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")

    code, out, err = maabo("generate", *arguments)

    assert (code, out) == (2, "")
    assert all(word in err for word in words), err
    assert "Traceback" not in err
    assert names_in(tmp_path) == ["mine.csv"]
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


def test_a_table_that_cannot_be_written_leaves_no_truth(tmp_path, maabo, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.csv.write_csv", full_disk)

    code, _, err = maabo("generate", tmp_path / "t.csv", *SMALL)

    assert code == 2
    assert "No space left on device" in err
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "word"),
    [
        (["nowhere.json", "t.truth.json"], "nowhere.json"),
        (["rules.json", "nowhere.json"], "nowhere.json"),
        (["t.truth.json", "t.truth.json"], "is not a result document"),
        (["rules.json", "rules.json"], "not the truth"),
        (["list.json", "t.truth.json"], "is not a result document"),
        (["rules.json", "t.truth.json", "--data", "other.csv"], "no column"),
        (["rules.json", "t.truth.json", "--data", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_file_that_cannot_be_scored_is_rejected_with_its_name(files, word, tmp_path, maabo, monkeypatch):
    monkeypatch.chdir(tmp_path)
    maabo("generate", "t.csv", *SMALL)
    (tmp_path / "rules.json").write_text(json.dumps(document_json()))
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "other.csv").write_text("a,y\n1,c0\n")

    code, out, err = maabo("score", *files)

    assert (code, out) == (2, "")
    assert word in err
    assert "Traceback" not in err
