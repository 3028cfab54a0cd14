"""Try a row: the matcher of the report decides as the program does, and the form shows what it decides."""

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Condition, DatePart, Op, condition_records
from maabo_dist.data.dates import ISO
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import figures_of
from maabo_dist.report.html import report_page
from maabo_dist.rules.matching import match_cells
from maabo_dist.settings import MiningSettings, TableSettings

pytestmark = pytest.mark.xdist_group("browser")

LEVELS = ("C", "Q", "S", "Zürich", "7", "true", "")
FIRST = "2023-02-27"
LAYOUTS = (ISO, "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%Y/%m/%d %H:%M:%S")


def draw_conditions(draw, layout):
    """A rule: up to three conditions of any kind."""
    part = DatePart(str(draw.choice(["year", "month", "weekday", "hour", "days"])), layout, FIRST)
    bound = {"year": 2023.5, "month": 6.5, "weekday": 3.5, "hour": 11.5, "days": 200.5}[part.part]
    missing, levels = bool(draw.integers(2)), tuple(draw.choice(LEVELS, int(draw.integers(1, 5)), replace=False))
    number = float(draw.choice([-1.5, 0.0, 0.1, 2.0, 1e9]))
    kinds = [
        Condition("age", Op.AT_MOST, number, missing),
        Condition("age", Op.ABOVE, number, missing),
        Condition("age", Op.AT_LEAST, number, missing),
        Condition("port", Op.IS, levels[0], missing),
        Condition("port", Op.IS_NOT, levels[0], missing),
        Condition("port", Op.IN, levels, missing),
        Condition("port", Op.NOT_IN, levels, missing),
        Condition("joined", Op.ABOVE, bound, missing, part),
        Condition("joined", Op.AT_MOST, bound, missing, part),
        Condition(str(draw.choice(["age", "port"])), Op.IS_MISSING, None),
        Condition(str(draw.choice(["age", "port"])), Op.IS_PRESENT, None),
    ]
    return [kinds[index] for index in draw.permutation(len(kinds))[: int(draw.integers(1, 4))]]


def draw_row(draw, layout):
    """A row as the table has it, and as the form has it: dates are written in another way there."""
    age = [None, -1.5, 0.0, 0.1, 0.1 + 2**-54, 2, 2.0000001, 1e9][int(draw.integers(8))]
    port = [None, *LEVELS, "elsewhere"][int(draw.integers(len(LEVELS) + 2))]
    moment = pd.Timestamp(FIRST) + pd.Timedelta(minutes=int(draw.integers(0, 800 * 24 * 60)))
    joined = None if draw.random() < 0.2 else moment
    text = None if joined is None else (joined.isoformat() if layout == ISO else joined.strftime(layout))
    cells = {"age": age, "port": port}
    return cells | {"joined": text}, cells | {"joined": None if joined is None else joined.isoformat()[:16]}


@pytest.fixture(scope="module")
def matcher(browser):
    """A page that has the functions of the matcher."""
    script = files("maabo_dist.report.html").joinpath("assets/matcher.js").read_text(encoding="utf-8")
    page = browser.new_context().new_page()
    page.add_script_tag(content=script.replace("export ", ""))
    yield page
    page.context.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_matcher_of_the_page_agrees_with_that_of_the_program(matcher, layout):
    draw = np.random.default_rng(7)
    rules = [draw_conditions(draw, layout) for _ in range(150)]
    rows = [draw_row(draw, layout) for _ in range(150)]

    matches = matcher.evaluate(
        """([rules, rows]) => rules.map((rule) =>
            rows.map((row) => !failingConditions(rule, new Map(Object.entries(row))).length))""",
        [[[record.to_json() for record in condition_records(rule)] for rule in rules], [form for _, form in rows]],
    )

    expected = match_cells(rules, [cells for cells, _ in rows])
    assert 0.1 < expected.mean() < 0.9
    assert matches == expected.tolist()


def make_table(rows=900):
    draw = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "calls": draw.poisson(3, rows),
            "spent": draw.gamma(2, 20, rows).round(2),
            "city": draw.choice(["Bern", "Bonn", "Lima", "Oslo", "Riga", "Rome"], rows),
            "joined": pd.Timestamp("2022-01-03") + pd.to_timedelta(draw.integers(0, 900, rows), unit="D"),
        }
    )
    churned = (frame["city"].isin(["Lima", "Oslo", "Rome"]) & (frame["calls"] > 2)) | (frame["joined"] > "2024-01-01")
    churned |= frame["spent"] > 90
    frame["joined"] = frame["joined"].dt.strftime("%d.%m.%Y")
    frame["churned"] = np.where(churned ^ (draw.random(rows) < 0.05), "yes", "no")
    for column in ("spent", "city", "joined"):
        frame.loc[draw.random(rows) < 0.1, column] = None
    return frame


def test_the_form_shows_for_any_row_which_findings_match_and_which_conditions_fail(opened, tmp_path):
    frame = make_table()
    table = prepare(frame, TableSettings(target="churned"))
    result = mine(table.columns, MiningSettings(trees="100%", holdout=0.2), keep_records=True)
    document = result_document(result, {"name": "customers"})
    path = tmp_path / "rules.html"
    path.write_text(report_page(document, figures_of(result, table.columns)), encoding="utf-8")
    used = {condition.feature for rule in document.rules for condition in rule.premise}
    assert {"city", "joined"} <= used
    rows = frame.sample(25, random_state=3).astype(object).where(lambda cells: cells.notna(), None).to_dict("records")
    premises = [rule.premise for rule in document.rules]
    expected = match_cells(premises, rows)

    page = opened(path)
    form = page.get_by_role("form", name="A row")
    for number, row in enumerate(rows):
        for column in used:
            enter(form.get_by_label(column, exact=True), column, row[column])

        shown = page.locator(".try-results .match").evaluate_all("items => items.map((item) => item.dataset.rule)")
        assert set(shown) == {rule.id for rule, hits in zip(document.rules, expected, strict=True) if hits[number]}
        for rule in document.rules:
            fails = page.locator(f".try-results [data-rule={rule.id}] .fails").count()
            assert fails == sum(not match_cells([[condition]], [row])[0, 0] for condition in rule.premise)


def enter(field, column, cell):
    """Enter a cell as a reader does."""
    if column == "city":
        field.select_option(label="missing" if cell is None else cell)
    elif column == "joined":
        field.fill("" if cell is None else pd.to_datetime(cell, format="%d.%m.%Y").strftime("%Y-%m-%d"))
    else:
        field.fill("" if cell is None else str(cell))


def test_the_form_begins_with_a_row_of_the_table_that_the_first_finding_covers(opened, tmp_path):
    frame = make_table()
    table = prepare(frame, TableSettings(target="churned"))
    result = mine(table.columns, MiningSettings(trees="100%"), keep_records=True)
    document, figures = result_document(result, {"name": "customers"}), figures_of(result, table.columns)
    path = tmp_path / "rules.html"
    path.write_text(report_page(document, figures), encoding="utf-8")

    page = opened(path)

    assert page.locator(".try-results [data-rule=R1]").get_attribute("class") == "match"
    fields, first = figures["examples"]["fields"], figures["examples"]["rows"][0]
    cells = {field["column"]: cell for field, cell in zip(fields, first["cells"], strict=True)}
    like = frame[frame["churned"] == table.columns.classes[first["class"]]]
    for field in fields:
        name, cell = field["column"], cells[field["column"]]
        if cell is None:
            like = like[like[name].isna()]
        elif field["kind"] == "date":
            like = like[pd.to_datetime(like[name], format="%d.%m.%Y") == pd.Timestamp(cell)]
        else:
            like = like[like[name] == cell]
    assert len(like) >= 1
    page.get_by_label("Start from").select_option(label="A row without a finding")
    assert page.get_by_role("heading", name="No finding matches this row").is_visible()
