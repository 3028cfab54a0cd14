import csv
import json
import sys

import pytest

from tests.research.paper_tables import titanic_like, write

DIABETES = ("--dataset", "diabetes", "--jobs", "1", "--quiet")


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_experiment_1_writes_its_rows_its_table_and_its_plot(maabo, tmp_path):
    code, out, _ = maabo("paper", "exp1", *DIABETES, "--seeds", 2, "--out", tmp_path / "made" / "here")

    head, *body = rows(tmp_path / "made" / "here" / "exp1-diabetes.csv")
    assert (code, head) == (0, ["arm", "trees", "seed", "rules"])
    assert {row[0] for row in body} == {"all", "maabo", "random", "single"}
    assert {row[2] for row in body} == {"0", "1"}
    assert "not printed" in out
    assert (tmp_path / "made/here/exp1-diabetes.md").read_text(encoding="utf-8").startswith("**Experiment 1, diabetes")
    assert (tmp_path / "made/here/exp1-diabetes.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_experiment_1_on_titanic_have_no_suffix(maabo, tmp_path):
    data = write(tmp_path, titanic_like(200))

    code, _, err = maabo("paper", "exp1", "--data", data, "--seeds", 1, "--jobs", 1, "--out", tmp_path)

    assert code == 0
    assert rows(tmp_path / "exp1.csv")[0] == ["arm", "trees", "seed", "rules"]
    assert len(rows(tmp_path / "exp1.csv")) == 1 + 18
    assert "this table has 200 rows, the paper's 1,309" in err


def test_the_same_seeds_give_the_same_file(maabo, tmp_path):
    for name in ("one", "other"):
        maabo("paper", "exp3", *DIABETES, "--seeds", 2, "--out", tmp_path / name)

    for name in ("exp3.csv", "exp3_rules.csv", "exp3.md", "exp3.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_appendix_2_needs_no_table(maabo, tmp_path):
    code, out, _ = maabo("paper", "app2", "--json", "--out", tmp_path)

    document = json.loads(out)
    assert code == 0
    assert [row["a"] for row in document["rows"]["app2"][:5]] == [1, 12, 18, 4, 0]
    assert [row["k"] for row in document["rows"]["app2"] if row["b"] == 0.5][1] == pytest.approx(1 / 44)
    assert {path.name for path in tmp_path.iterdir()} == {"app2.csv", "app2.md", "app2.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("exp1", "--seeds", "0"), "'--seeds': 0 is not in the range 1<=x<=10000"),
        (("exp1", "--seeds", "-3"), "'--seeds': -3"),
        (("exp1", "--seeds", "many"), "'many' is not a valid integer"),
        (("exp1", "--jobs", "0"), "'--jobs': 0"),
        (("exp2", "--data", "none.csv"), "none.csv"),
        (("exp1", "--dataset", "boston"), "boston"),
        (("exp1", "--dataset", "diabetes", "--data", "TABLE"), "runs on one table, but got 2"),
        (("app1", "--dataset", "diabetes", "--cluster"), "without --cluster"),
        (("app2", "--cluster"), "without --cluster"),
        (("app3", "--data", "OTHER"), "it has the columns of none of the paper's tables"),
        (("exp3", "--out", "TABLE"), "there is a file in its place"),
    ],
)
def test_a_mistake_prints_one_line_and_exits_with_2(maabo, tmp_path, arguments, message):
    table = write(tmp_path, titanic_like())
    other = write(tmp_path, titanic_like().drop(columns=["sex", "age"]), "other.csv")
    named = {"TABLE": str(table), "OTHER": str(other)}

    code, out, err = maabo("paper", *(named.get(each, each) for each in arguments))

    assert (code, out) == (2, "")
    assert message in err


def test_without_matplotlib_everything_but_the_plot_is_written(maabo, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "maabo_dist.research.paper.plotting", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)

    code, _, err = maabo("paper", "app2", "--out", tmp_path)

    assert code == 0
    assert "maabo-dist[plots]" in err
    assert {path.name for path in tmp_path.iterdir()} == {"app2.csv", "app2.md"}


def test_a_table_that_cannot_be_fetched_is_requested_with_data(maabo, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no way out")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)

    code, _, err = maabo("paper", "exp1", "--seeds", 1)

    assert code == 2
    assert "no way out" in err
    assert "--data" in err
