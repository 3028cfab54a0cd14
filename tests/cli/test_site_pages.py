"""The commands and examples on the pages of the documentation site print what the pages show."""

import doctest
import re
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.servers import ROOT

PAGES = (
    "apply-and-check",
    "bundled-tables",
    "certification",
    "groups-and-time",
    "index",
    "install",
    "many-rows",
    "tutorial",
)
OMITTED = "…"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_EXAMPLE = re.compile(r"```pycon\n(.*?)```", re.DOTALL)


def read_page(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def commands(page):
    """Yield the commands of a page, each with the output shown below it."""
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def comparable(text):
    """Replace times, which vary, and white space, because lines are wrapped according to the times in them."""
    return re.sub(r"[\d.]+ m?s\b", "0 s", " ".join(text.split()))


def shows(expected, printed):
    """Return True if the output is the expected one, where a line with an ellipsis stands for any lines."""
    parts = re.split(rf"^{OMITTED}$", expected, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(comparable(part)) for part in parts)
    return re.fullmatch(rf"\s*{pattern}\s*", comparable(printed).replace("\n", " "), re.DOTALL) is not None


def visits(rows=600):
    """Three visits of each patient."""
    draw = np.random.default_rng(5)
    age, dose = np.repeat(draw.integers(20, 80, rows // 3), 3), draw.gamma(2, 20, rows)
    relapse = draw.random(rows) < 0.1 + 0.7 * ((age > 50) & (dose < 40))
    dates = pd.Timestamp("2025-01-01") + pd.to_timedelta(draw.integers(0, 500, rows), "D")
    frame = pd.DataFrame(
        {"patient": np.repeat(np.arange(rows // 3), 3), "date": dates.strftime("%Y-%m-%d"), "age": age}
    )
    return frame.assign(dose=dose, weight=draw.integers(1, 4, rows), relapse=np.where(relapse, "yes", "no"))


def customers(rows, seed, yearly=0.05):
    """Customers who leave if they pay much by the month or complained; some who pay by the year leave, too."""
    draw = np.random.default_rng(seed)
    contract = draw.choice(["monthly", "yearly"], rows, p=[0.6, 0.4])
    fee, calls = draw.gamma(4, 12, rows).round(2), draw.poisson(1.2, rows)
    since = pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.integers(0, 600, rows), "D")
    leaves = ((contract == "monthly") & (fee > 55)) | (calls >= 4)
    share = np.where(leaves, 0.85, np.where(contract == "yearly", yearly, 0.1))
    frame = pd.DataFrame({"customer": np.arange(rows) + 1000 * seed, "contract": contract, "fee": fee, "calls": calls})
    return frame.assign(since=since.strftime("%d.%m.%Y"), churned=np.where(draw.random(rows) < share, "yes", "no"))


def write_sales(folder, rows=60_000):
    """Customers of two years, in files of 15,000."""
    draw = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "months": draw.integers(1, 72, rows),
            "calls": draw.poisson(1.2, rows),
            "bill": draw.gamma(4, 12, rows).round(2),
            "plan": draw.choice(["basic", "family", "office"], rows),
            "region": draw.choice(["north", "south", "east", "west"], rows),
        }
    )
    leaves = (frame["calls"] >= 4) & (frame["months"] <= 12) & (draw.random(rows) < 0.7)
    frame["churned"] = np.where(leaves | (draw.random(rows) < 0.08), "yes", "no")
    for number, part in enumerate(np.array_split(np.arange(rows), 4)):
        path = folder / "sales" / f"year={2024 + number // 2}"
        path.mkdir(parents=True, exist_ok=True)
        frame.iloc[part].to_parquet(path / f"part-{number}.parquet", index=False)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A directory with the files of all pages."""
    folder = tmp_path_factory.mktemp("tables")
    visits().to_csv(folder / "visits.csv", index=False)
    customers(3000, seed=1).to_csv(folder / "customers.csv", index=False)
    customers(4000, seed=2).to_parquet(folder / "april.parquet")
    customers(4000, seed=3, yearly=0.3).to_csv(folder / "june.csv", index=False)
    write_sales(folder)
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(page, marks=[pytest.mark.slow] * (page == "certification")) for page in PAGES]
)
def test_the_commands_of_a_page_print_what_it_shows(maabo, tables, name, tmp_path, monkeypatch):
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "76")
    page = list(commands(read_page(name)))

    assert page
    for command, expected in page:
        program, *arguments = shlex.split(command)
        code, out, err = maabo(*arguments)

        assert (program, code) == ("maabo", 0), f"{command}: {err}"
        assert shows(expected, err + out), f"{command} printed:\n{err}{out}"


def test_the_python_example_of_the_tutorial_prints_what_it_shows():
    source = "\n".join(_EXAMPLE.findall(read_page("tutorial")))
    test = doctest.DocTestParser().get_doctest(source, {}, "tutorial", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(test)

    assert runner.tries >= 10
    assert runner.failures == 0


def test_every_page_with_a_command_is_tested():
    others = {"cli", "tables", "wide"}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if "```console\n" in path.read_text(encoding="utf-8")}

    assert pages - others == set(PAGES)


@pytest.mark.parametrize(
    ("expected", "same"),
    [("a\nb in 3 s\n", True), ("a\n…\n", True), ("…\nb in 1 s\n", True), ("a\nc\n", False), ("b\n…\n", False)],
)
def test_a_shown_output_may_omit_lines_but_not_change_them(expected, same):
    assert shows(expected, "a\nb in 1.5 s\n") is same
