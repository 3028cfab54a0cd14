"""Pages from the command line: `maabo mine --report` and `maabo report`."""

import json

import pytest

from tests.cli.tables import numbers, write_csv

QUICK = ("--target", "y", "--trees", "10", "--min-samples", "20", "--jobs", "1", "--quiet")


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path, numbers(200))


def test_a_report_is_written_in_addition_to_the_output(maabo, table, tmp_path):
    code, out, _ = maabo("mine", table, *QUICK, "--json", "--report", tmp_path / "rules.html")

    page = (tmp_path / "rules.html").read_text(encoding="utf-8")
    assert code == 0
    assert json.loads(out)["digest"] in page
    assert "figure-history" in page


def test_a_saved_run_gives_the_same_report_again(maabo, table, tmp_path):
    maabo("mine", table, *QUICK, "--out", tmp_path / "run", "--report", tmp_path / "first.html")
    code, _, err = maabo("report", tmp_path / "run", "--out", tmp_path / "second.html")

    assert (code, "wrote" in err) == (0, True)
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "second.html").read_bytes()


def test_a_document_alone_gives_a_report_with_fewer_figures(maabo, table, tmp_path):
    _, out, _ = maabo("mine", table, *QUICK, "--json")
    (tmp_path / "found.json").write_text(out, encoding="utf-8")

    assert maabo("report", tmp_path / "found.json", "--out", tmp_path / "page.html")[0] == 0
    assert "figure-history" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("file", "word"), [("", "is a directory"), ("missing/rules.html", "does not exist")])
def test_a_report_that_cannot_be_written_is_rejected_before_the_search(maabo, table, tmp_path, file, word):
    code, out, err = maabo("mine", table, *QUICK, "--report", tmp_path / file)

    assert (code, out) == (2, "")
    assert word in err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("rules", "not JSON"),
        ("[]", "format"),
        ('{"format": "maabo-run/1"}', "maabo-run/1"),
        ('{"format": "maabo-rules/1"}', "damaged"),
        ('{"format": "maabo-rules/1", "dataset": [], "rules": 3}', "damaged"),
    ],
)
def test_an_invalid_document_is_rejected(maabo, tmp_path, content, word):
    (tmp_path / "rules.json").write_text(content, encoding="utf-8")

    code, _, err = maabo("report", tmp_path, "--out", tmp_path / "page.html")

    assert code == 2
    assert word in err
    assert not (tmp_path / "page.html").exists()


def test_a_missing_run_is_rejected(maabo, tmp_path):
    code, _, err = maabo("report", tmp_path / "nothing")

    assert code == 2
    assert "cannot be read" in err
