"""Exports run on the engine that they are for, and select exactly the rows that rules match."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sqlglot
from handmade import make_document, make_rule
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import NullPool, create_engine

from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.rules import Verdict
from maabo_dist.errors import SettingsError
from maabo_dist.new_data.use import apply_rules
from maabo_dist.report.exports import export_rules, to_polars, to_sql
from maabo_dist.report.sql import DIALECTS, FORMS
from maabo_dist.rules.frame_matching import FrameMatcher
from tests import servers

NUMBER, TEXT, FLAG, DAY, MOMENT = (
    'we"ird `num\\ber`',
    "größe'; DROP TABLE x; -- 🙂",
    "select",
    "a day\nof 100%",
    "Moment {x}",
)
ISO_TEXT, GERMAN, AMERICAN = "iso text", "german", "american"
SCORE = "score in points"
SCORES = [
    "7",
    " 12.5 ",
    "-3",
    "+4",
    ".5",
    "6.",
    "1e2",
    "2.5E-1",
    "-",
    "?",
    "n/a",
    "",
    "1-2",
    "1.2.3",
    "e5",
    "3e",
    "12 kg",
    ".",
]
LEVELS = ["o'clock", 'say "hi"', "back\\slash", "two\nlines", "été🙂", "", "NULL", "true", "3", "%d", "a`b", "{0}"]
ENGINES = ("duckdb", "postgresql", "sqlite")


def a_frame(seed, rows=300):
    """Numbers at and next to thresholds, awkward texts, booleans and dates, all with missing cells."""
    rng = np.random.default_rng(seed)
    days = pd.Series(pd.Timestamp("2023-12-25") + pd.to_timedelta(rng.integers(0, 500, rows), unit="D"))
    moments = days + pd.to_timedelta(rng.integers(0, 24 * 60, rows), unit="m")
    frame = pd.DataFrame(
        {
            "row": np.arange(rows),
            NUMBER: rng.choice(np.array([*THRESHOLDS, *np.nextafter(THRESHOLDS, 9e9), -7.5, 12.0]), rows),
            "whole": pd.Series(rng.integers(-3, 4, rows), dtype="Int64"),
            TEXT: rng.choice(np.array(LEVELS, object), rows),
            FLAG: pd.Series(rng.random(rows) < 0.5, dtype="boolean"),
            DAY: days.dt.date,
            MOMENT: moments,
            ISO_TEXT: moments.dt.strftime("%Y-%m-%d %H:%M:%S"),
            GERMAN: moments.dt.strftime("%d.%m.%Y %H:%M"),
            AMERICAN: moments.dt.strftime("%b %d, %Y %I:%M %p"),
            SCORE: rng.choice(np.array(SCORES, object), rows),
        }
    )
    for name in frame.columns[1:]:
        frame[name] = frame[name].mask(pd.Series(rng.random(rows) < 0.15))
    return frame


THRESHOLDS = np.array([0.1, 1 / 3, 2.5, 1e-7, -0.30000000000000004, 123456789.12345679, 5e-324, 0.0])


def part(name, layout=ISO_LAYOUT):
    return DatePart(name, layout, "2024-01-01")


def conditions(seed, layouts=True):
    """Return conditions of every kind, each a rule."""
    rng = np.random.default_rng(seed)
    bounds = [Op.AT_MOST, Op.ABOVE, Op.AT_LEAST]
    some = lambda count: tuple(sorted(rng.choice(np.array(LEVELS, object), count, replace=False)))  # noqa: E731
    made = [Condition(NUMBER, op, float(value)) for op in bounds for value in THRESHOLDS]
    made += [Condition("whole", op, value) for op in bounds for value in (1.0, 0.5, -2.0)]
    made += [Condition(TEXT, op, level) for op in (Op.IS, Op.IS_NOT) for level in LEVELS]
    made += [Condition(TEXT, op, some(size)) for op in (Op.IN, Op.NOT_IN) for size in (1, 2, 5)]
    made += [Condition(FLAG, op, level) for op in (Op.IS, Op.IS_NOT) for level in ("true", "false")]
    made += [Condition(FLAG, Op.IN, ("false", "true"))]
    dates = [DAY, MOMENT, ISO_TEXT]
    for name in dates:
        made += [
            Condition(name, op, value, part=part(which))
            for op in bounds
            for which, value in (("days", 100.0), ("days", -3.5), ("year", 2024.0), ("month", 6.0), ("weekday", 5.0))
        ]
    made += [Condition(name, op, 12.0, part=part("hour")) for op in bounds for name in (MOMENT, ISO_TEXT)]
    if layouts:
        formats = {GERMAN: "%d.%m.%Y %H:%M", AMERICAN: "%b %d, %Y %I:%M %p"}
        made += [
            Condition(name, Op.ABOVE, value, part=part(which, layout))
            for name, layout in formats.items()
            for which, value in (("days", 100.0), ("year", 2024.0), ("weekday", 5.0), ("hour", 12.0), ("month", 6.5))
        ]
    made += [Condition(SCORE, op, value, as_text=True) for op in bounds for value in (7.0, 0.5, -3.0)]
    made += [replace(each, or_missing=True) for each in made]
    made += [Condition(SCORE, op, None, as_text=True) for op in (Op.IS_MISSING, Op.IS_PRESENT)]
    made += [Condition(name, op, None) for op in (Op.IS_MISSING, Op.IS_PRESENT) for name in (NUMBER, TEXT, FLAG, DAY)]
    return made


def document_of(rules, **fields):
    return make_document(*(make_rule(*each, number=n + 1, **fields) for n, each in enumerate(rules)))


def matched(rules, frame):
    """Return the rows of each rule, as rules/matching has them."""
    covered = FrameMatcher(rules).match(frame)
    return {f"R{number + 1}": set(np.flatnonzero(mask).tolist()) for number, mask in enumerate(covered)}


def statements(script):
    """Return the queries of a script; a level may hold a semicolon, but no line of a query ends with one."""
    return [query for query in script.split(";\n") if query.strip()]


@pytest.fixture(scope="module")
def postgres():
    if servers.postgres_programs() is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_POSTGRES") == "1" else pytest.skip
        complain("PostgreSQL is not installed; `apt-get install postgresql` installs it.")
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield create_engine(url, poolclass=NullPool)


class Engines:
    """Loads a frame into an engine, and runs queries."""

    def __init__(self, request):
        self._request = request

    def run(self, engine, frame, queries):
        return getattr(self, f"_{engine}")(frame, queries)

    def _duckdb(self, frame, queries):
        with duckdb.connect() as connection:
            connection.register("given", frame)
            connection.execute("CREATE TABLE data AS SELECT * FROM given")
            return [connection.execute(query).fetchall() for query in queries]

    def _sqlite(self, frame, queries):
        frame = frame.assign(**{DAY: frame[DAY].astype(str).mask(frame[DAY].isna())})
        frame[MOMENT] = frame[MOMENT].dt.strftime("%Y-%m-%d %H:%M:%S")
        with closing(sqlite3.connect(":memory:")) as connection:
            frame.to_sql("data", connection, index=False)
            return [connection.execute(query).fetchall() for query in queries]

    def _postgresql(self, frame, queries):
        engine = self._request.getfixturevalue("postgres")
        frame.to_sql("data", engine, index=False, if_exists="replace")
        with engine.connect() as connection:
            return [connection.exec_driver_sql(query).fetchall() for query in queries]


@pytest.fixture
def engines(request):
    return Engines(request)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_query_selects_the_rows_that_its_rule_matches(engines, engine, seed):
    frame = a_frame(seed)
    single = [(each,) for each in conditions(seed, layouts=engine != "sqlite")]
    rng = np.random.default_rng(seed)
    rules = single + [tuple(single[index][0] for index in rng.choice(len(single), 3)) for _ in range(40)]
    queries = statements(to_sql(document_of(rules), dialect=engine))

    results = engines.run(engine, frame, queries)

    expected = matched(rules, frame)
    assert len(results) == len(rules)
    for rule, rows in zip(rules, results, strict=True):
        name = f"R{rules.index(rule) + 1}"
        assert {row[1] for row in rows} == expected[name], rule
        assert {row[0] for row in rows} <= {name}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_case_expression_predicts_as_apply_does(engines, engine):
    frame = a_frame(3)
    rng = np.random.default_rng(3)
    single = [each for each in conditions(3, layouts=False) if not each.or_missing]
    rules = [
        make_rule(
            *(single[index] for index in rng.choice(len(single), 2)),
            number=number + 1,
            label=int(rng.integers(2)),
            counts=tuple(rng.integers(1, 50, 2).tolist()),
            verdict=Verdict.FAILED if number == 4 else Verdict.NOT_TESTED,
        )
        for number in range(12)
    ]
    document = make_document(*rules, classes=("o'no", "yes 🙂"))
    (query,) = statements(to_sql(document, dialect=engine, form="case"))

    (rows,) = engines.run(engine, frame, [query])

    by_row = {row[0]: row[-1] for row in rows}
    expected = apply_rules(document, frame)["predicted"]
    assert [by_row[row] for row in range(len(frame))] == [None if pd.isna(each) else each for each in expected]
    assert expected.nunique() == 2


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lazy", [False, True])
def test_polars_expressions_select_the_rows_that_rules_match(seed, lazy):
    frame = a_frame(seed)
    single = [(each,) for each in conditions(seed)]
    rng = np.random.default_rng(seed)
    rules = single + [tuple(single[index][0] for index in rng.choice(len(single), 3)) for _ in range(40)]
    document = document_of(rules)
    names = {}
    exec(to_polars(document), names)
    table = pl.from_pandas(frame)

    expected = matched(rules, frame)
    for number, rule in enumerate(rules):
        selected = (table.lazy() if lazy else table).filter(names[f"R{number + 1}"]).lazy().collect()
        assert set(selected["row"].to_list()) == expected[f"R{number + 1}"], rule
    predicted = table.with_columns(names["predicted"])["predicted"].to_list()
    assert predicted == [None if pd.isna(each) else each for each in apply_rules(document, frame)["predicted"]]


def test_nan_and_infinite_numbers_are_missing_in_polars():
    rules = [(Condition("x", Op.ABOVE, 1.0),), (Condition("x", Op.AT_MOST, 1.0, or_missing=True),)]
    names = {}
    exec(to_polars(document_of(rules)), names)
    table = pl.DataFrame({"x": [float("nan"), float("inf"), -float("inf"), 0.0, 2.0, None]})

    assert table.select(names["R1"].fill_null(False)).to_series().to_list() == [False, False, False, False, True, False]
    assert table.filter(names["R2"]).height == 5


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
@pytest.mark.parametrize("form", FORMS)
def test_other_dialects_can_be_parsed_back_to_the_same_names_and_texts(dialect, form):
    rules = [(each,) for each in conditions(1)]
    script = to_sql(document_of(rules), 'my "own" `table`', dialect, form)

    parsed = sqlglot.parse(script, dialect=dialect)

    assert len(parsed) == (1 if form == "case" else len(rules))
    columns = {column.name for query in parsed for column in query.find_all(sqlglot.exp.Column)}
    texts = {literal.this for query in parsed for literal in query.find_all(sqlglot.exp.Literal) if literal.is_string}
    assert columns - {"SAFE"} == {each.feature for (each,) in rules}
    assert {*LEVELS, "2024-04-11", "2025-01-01"} <= texts
    assert {table.name for query in parsed for table in query.find_all(sqlglot.exp.Table)} == {'my "own" `table`'}


def test_dates_in_the_words_of_each_dialect():
    weekday = document_of([(Condition("d", Op.ABOVE, 5.0, part=part("weekday")),)])
    german = document_of([(Condition("d", Op.ABOVE, 5.0, part=part("hour", "%d.%m.%Y %H:%M")),)])

    assert "(MOD(EXTRACT(DAYOFWEEK FROM CAST(`d` AS DATETIME)) + 5, 7) + 1) > 5" in to_sql(weekday, dialect="bigquery")
    assert 'DAYOFWEEKISO(CAST("d" AS TIMESTAMP)) > 5' in to_sql(weekday, dialect="snowflake")
    assert "EXTRACT(HOUR FROM SAFE.PARSE_DATETIME('%d.%m.%Y %H:%M', `d`)) > 5" in to_sql(german, dialect="bigquery")
    assert "TRY_TO_TIMESTAMP(\"d\", 'DD.MM.YYYY HH24:MI')" in to_sql(german, dialect="snowflake")
    assert "convert it to a date first" in to_sql(german, dialect="sqlite")


def test_booleans_of_bigquery_are_compared_as_text():
    document = document_of([(Condition("flag", Op.IS, "true"),), (Condition("a", Op.IS, "x"),)])

    assert "WHERE CAST(`flag` AS STRING) = 'true';" in to_sql(document, dialect="bigquery")
    assert "WHERE `a` = 'x';" in to_sql(document, dialect="bigquery")


@cache
def duck_database():
    """One database for all examples: opening it takes longer than a query."""
    return duckdb.connect()


@settings(max_examples=200)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_duckdb_reads_every_number_exactly(value):
    document = document_of([(Condition("x", Op.AT_LEAST, value),), (Condition("x", Op.AT_MOST, value),)])
    with np.errstate(over="ignore"):
        frame = pd.DataFrame({"x": [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf)]})
    database = duck_database()
    database.register("data", frame)
    least, most = (
        {row[1] for row in database.execute(query).fetchall()}
        for query in statements(to_sql(document, dialect="duckdb"))
    )

    finite = [each for each in frame["x"] if np.isfinite(each)]
    assert {each for each in least if np.isfinite(each)} == {each for each in finite if each >= value}
    assert {each for each in most if np.isfinite(each)} == {each for each in finite if each <= value}


def test_a_document_without_rules_predicts_nothing():
    document = make_document()
    names = {}
    exec(export_rules(document, "polars"), names)

    assert "NULL AS predicted" in export_rules(document, "sql", sql_form="case")
    assert pl.DataFrame({"a": [1]}).with_columns(names["predicted"])["predicted"].to_list() == [None]


def test_standard_sql_has_a_case_expression_too():
    rules = [(Condition("a", Op.ABOVE, 1.0),), (Condition("b", Op.IS, "x"), Condition("a", Op.AT_MOST, 3.0, True))]
    script = to_sql(document_of(rules, counts=(0, 30)), form="case")

    assert 'WHEN "b" = \'x\' AND ("a" <= 3 OR "a" IS NULL) THEN \'1\'' in script
    assert script.endswith('END AS predicted\nFROM "data";\n')


def test_a_dialect_without_its_package_is_explained(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "maabo_dist.report.sql_dialects", None)

    with pytest.raises(SettingsError, match=r"pip install 'maabo-dist\[sql\]'"):
        to_sql(make_document(), dialect="duckdb")


def test_the_options_offer_all_dialects_and_forms():
    from maabo_dist.cli.output import SQL_DIALECTS, SQL_FORMS

    assert (SQL_DIALECTS, SQL_FORMS) == (DIALECTS, FORMS)
