import csv
import io
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from handmade import AGE, make_certified, make_document, make_held_out, make_record, make_repeated, make_rule

from maabo_dist.contract.conditions import Condition, ConditionTest, Op
from maabo_dist.contract.rules import Verdict
from maabo_dist.contract.selection import MissingClassRecord, MissingReason
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.briefing import in_order
from maabo_dist.report.document import result_document
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.report.tables import to_csv, to_markdown
from maabo_dist.settings import MiningSettings, TableSettings

HOSTILE = (
    'quote " and "" more',
    "it's; DROP TABLE data; --",
    "line\nbreak",
    "<script>alert(1)</script> & | pipe",
    "=HYPERLINK(1)",
    "[red]été🙂",
)
LEVELS = ("o'clock", 'say "hi"', "=1+1", "two\nlines", "<b>|</b>", "-3")


def hostile_table(rows=600):
    """Numbers, texts, booleans and missing cells in columns whose names try to break out of every format."""
    draw = np.random.default_rng(3)
    number, other = draw.normal(size=rows).round(2), draw.normal(size=rows) * 1e-7
    level = draw.choice(LEVELS, rows).astype(object)
    flag = draw.random(rows) < 0.5
    target = np.where((number > 0.3) & flag | (level == LEVELS[0]) | (other > 1e-7), "=yes", "no\nway")
    number[draw.random(rows) < 0.1] = np.nan
    level[draw.random(rows) < 0.1] = None
    columns = (number, other, level, flag, draw.normal(size=rows), draw.choice(["1", "2", "x"], rows))
    return pd.DataFrame({**dict(zip(HOSTILE, columns, strict=True)), "y": target})


@pytest.fixture(scope="module")
def mined():
    """The hostile table, its result document, and the number of rows that each rule covers."""
    frame = hostile_table()
    table = prepare(frame, TableSettings(target="y", missing_indicator=True))
    settings = MiningSettings(preset="paper", min_samples=5, gini=0.9, similarity=1.0, subset_size=3, trees="100%")
    result = mine(table.columns, settings)
    covered = {rule.id: rule.train.n + rule.validation.n for rule in result.rules}
    return frame, result_document(result, {"name": "hostile"}), covered


def rows_by_sql(frame, script):
    database = sqlite3.connect(":memory:")
    frame.astype({HOSTILE[3]: str}).replace({HOSTILE[3]: {"True": "true", "False": "false"}}).to_sql("data", database)
    statements = [statement for statement in script.split(";\n") if statement.strip()]
    return {rows[0][0]: rows for rows in (database.execute(statement).fetchall() for statement in statements)}


def rows_by_pandas(frame, script):
    names = {"df": frame, "pd": pd}
    exec(script, names)
    return {name: rows for name, rows in names.items() if name.startswith("R")}


def test_the_hostile_table_yields_rules_of_every_kind(mined):
    _, document, _ = mined
    conditions = [condition for rule in document.rules for condition in rule.conditions]

    assert {"<=", ">", "=", "!=", "is missing"} <= {condition.op for condition in conditions}
    assert any(condition.or_missing for condition in conditions)
    assert len({condition.feature for condition in conditions}) >= 5


def test_sql_selects_exactly_the_rows_that_each_rule_covers(mined):
    frame, document, covered = mined

    selected = rows_by_sql(frame, to_sql(document))

    assert {rule: len(rows) for rule, rows in selected.items()} == covered


def test_pandas_selects_the_same_rows_as_sql(mined):
    frame, document, covered = mined

    selected = rows_by_pandas(frame, to_pandas(document))
    by_sql = rows_by_sql(frame, to_sql(document))

    assert {rule: len(rows) for rule, rows in selected.items()} == covered
    assert all([row[1] for row in by_sql[rule]] == list(rows.index) for rule, rows in selected.items())


def test_texts_that_are_numbers_are_converted_where_they_are_compared():
    draw = np.random.default_rng(0)
    points = draw.integers(1, 100, 600)
    texts = np.where(draw.random(600) < 0.1, draw.choice(["?", "n.a."], 600), points.astype(str))
    frame = pd.DataFrame({"points": texts, "y": np.where((points > 60) | (texts == "?"), "high", "low")})

    result = mine(prepare(frame, TableSettings(target="y")).columns, MiningSettings(holdout=0.0))
    document = result_document(result, {"name": "points"})
    rows = rows_by_pandas(frame, to_pandas(document))

    covered = {rule.id: rule.train.n + rule.validation.n for rule in result.rules}
    assert {name: len(selected) for name, selected in rows.items()} == covered
    assert len(covered) >= 2
    assert '-- "points" holds texts: convert it to numbers first.' in to_sql(document)


def test_a_mined_csv_reads_back_with_one_row_a_rule(mined):
    _, document, _ = mined

    rows = list(csv.DictReader(io.StringIO(to_csv(document), newline="")))

    assert [row["rule"] for row in rows] == [rule.id for rule in document.rules]
    assert [float(row["gini"]) for row in rows] == [rule.gini for rule in document.rules]
    assert {row["then"] for row in rows} <= {"'=yes", "no\nway"}


@pytest.mark.parametrize(
    ("condition", "sql", "pandas"),
    [
        (AGE, '"age" <= 27.5', "df['age'] <= 27.5"),
        (
            Condition("age", Op.ABOVE, 0.1 + 0.2, or_missing=True),
            '("age" > 0.30000000000000004 OR "age" IS NULL)',
            "(df['age'] > 0.30000000000000004) | df['age'].isna()",
        ),
        (Condition("port", Op.IS, "C"), "\"port\" = 'C'", "df['port'].isin(['C'])"),
        (
            Condition("port", Op.IS_NOT, "C", or_missing=True),
            '("port" <> \'C\' OR "port" IS NULL)',
            "~df['port'].isin(['C'])",
        ),
        (Condition("port", Op.IS_NOT, "7"), "\"port\" <> '7'", "~df['port'].isin(['7', 7]) & df['port'].notna()"),
        (Condition("flag", Op.IS, "true"), "\"flag\" = 'true'", "df['flag'].isin(['true', True])"),
        (Condition("port", Op.IN, ("C", "Q")), "\"port\" IN ('C', 'Q')", "df['port'].isin(['C', 'Q'])"),
        (
            Condition("port", Op.NOT_IN, ("C", "7"), or_missing=True),
            "(\"port\" NOT IN ('C', '7') OR \"port\" IS NULL)",
            "~df['port'].isin(['C', '7', 7])",
        ),
        (Condition("age", Op.IS_MISSING, None), '"age" IS NULL', "df['age'].isna()"),
        (Condition("age", Op.IS_PRESENT, None), '"age" IS NOT NULL', "df['age'].notna()"),
        (Condition("age", Op.ABOVE, 3.0, as_text=True), '"age" > 3', "pd.to_numeric(df['age'], errors='coerce') > 3"),
        (
            Condition("age", Op.IS_MISSING, None, as_text=True),
            '"age" IS NULL',
            "pd.to_numeric(df['age'], errors='coerce').isna()",
        ),
    ],
)
def test_each_kind_of_condition_is_converted_to_an_expression(condition, sql, pandas):
    document = make_document(make_rule(condition))

    assert f"WHERE {sql};" in to_sql(document)
    assert f"R1 = df[{pandas}]" in to_pandas(document)


def test_a_rule_without_conditions_selects_every_row():
    document = make_document(make_rule())

    assert "WHERE 1 = 1;" in to_sql(document)
    assert "R1 = df\n" in to_pandas(document)


def test_the_name_of_the_sql_table_is_quoted():
    script = to_sql(make_document(make_rule(AGE)), table='my "own"; DROP TABLE x')

    assert 'FROM "my ""own""; DROP TABLE x"\n' in script


def test_a_comment_stays_on_its_line_whatever_the_class_is_called():
    document = make_document(make_rule(AGE), classes=("a", "b\n; DROP TABLE data"), target="y\r\nz")

    for script in (to_sql(document), to_pandas(document)):
        caption = script.splitlines()[0]
        assert caption.endswith(
            "y\\r\\nz = b\\n; DROP TABLE data (mined rows: 20, precision 0.800, not tested, adjusted p = 0.001)"
        )


def test_comments_contain_the_figures_of_held_out_rows_where_there_are_any():
    rule = make_certified(make_rule(AGE, holdout=make_held_out(), verdict=Verdict.WEAKER), p=1e-9)
    findings, paper = (make_document(rule, holdout=10), make_document(make_rule(AGE), preset="paper"))

    for script in (to_sql(findings), to_pandas(findings)):
        assert (
            "R1: survived = 1 (held-out rows: 10, precision 0.900, weaker than in training, adjusted p < 0.001)\n"
            in script
        )
    assert "R1: survived = 1 (mined rows: 20, precision 0.800, not tested)\n" in to_sql(paper)


def test_a_rule_that_covers_no_row_has_no_precision_in_its_comment():
    document = make_document(make_rule(AGE, holdout=make_held_out(counts=(0, 0)), verdict=Verdict.NOT_TESTED))

    assert "(held-out rows: 0, not tested, adjusted p = 0.001)" in to_sql(document)


def test_csv_contains_verdict_adjusted_p_and_the_figures_of_held_out_rows():
    tested = make_certified(make_rule(AGE, holdout=make_held_out()), p=0.0012)
    untested = make_certified(make_rule(AGE, number=2), p=0.002)
    fields = ("evidence", "rows", "precision", "precision_low", "precision_high", "verdict", "adjusted_p")

    rows = csv.DictReader(io.StringIO(to_csv(make_document(tested, untested))))
    (paper,) = csv.DictReader(io.StringIO(to_csv(make_document(make_rule(AGE), preset="paper"))))

    assert [[row[field] for field in fields] for row in rows] == [
        ["held out", "10", "0.9", "0.6", "0.98", "held up", "0.0012"],
        ["mined", "20", "0.8", "", "", "not tested", "0.002"],
    ]
    assert (paper["verdict"], paper["adjusted_p"], paper["certified_by"]) == ("not tested", "", "")


def test_markdown_has_the_figures_of_held_out_rows_first():
    tested = to_markdown(make_document(make_rule(AGE, holdout=make_held_out()), holdout=10)).splitlines()
    untested = to_markdown(make_document(make_certified(make_rule(AGE), p=1e-5))).splitlines()

    assert tested[0] == "**1 finding for survived; it held up on rows the search never saw.**"
    assert tested[2] == (
        "| rule | verdict | finding | unseen rows | precision (unseen) | 95 % interval | searched rows "
        "| precision (searched) | adjusted p |"
    )
    assert tested[4] == (
        "| R1 | held up | 9 of 10 unseen rows with age ≤ 27.5 have survived = 1; usually 50 of 100. | 10 | 0.90 "
        "| 0.60–0.98 | 20 | 0.80 | 0.001 |"
    )
    assert untested[2] == "| rule | verdict | finding | searched rows | precision (searched) | adjusted p |"
    assert untested[4] == (
        "| R1 | not tested | 80 of 100 rows with age ≤ 27.5 have survived = 1; usually 50 of 100. | 20 | 0.80 "
        "| &lt; 0.001 |"
    )


def test_exports_have_the_order_of_the_briefing():
    weak = make_rule(AGE, number=1, holdout=make_held_out((45, 55)), verdict=Verdict.WEAKER)
    failed = make_rule(AGE, number=2, holdout=make_held_out((9, 1)), verdict=Verdict.FAILED)
    document = make_document(weak, failed, make_rule(AGE, number=3, holdout=make_held_out()), holdout=100)

    order = [rule.id for rules in in_order(document) for rule in rules]

    assert order == ["R3", "R1", "R2"]
    assert [row["rule"] for row in csv.DictReader(io.StringIO(to_csv(document)))] == order
    for text, pattern in ((to_markdown(document), r"^\| (R\d)"), (to_sql(document), r"^-- (R\d)")):
        assert re.findall(pattern, text, re.MULTILINE) == order
    assert re.findall(r"^(R\d) =", to_pandas(document), re.MULTILINE) == order


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "＝1"])
def test_a_csv_cell_that_looks_like_a_formula_is_escaped(name):
    document = make_document(make_rule(Condition(name, Op.IS, "x")), classes=("0", name))

    row = next(csv.DictReader(io.StringIO(to_csv(document), newline="")))

    assert row["then"] == f"'{name}"
    assert row["if"][0] in "'\\"  # an apostrophe, or a tab that was spelled out
    assert row["subset"] == f"'{name}"


def test_negative_numbers_in_a_csv_stay_numbers():
    document = make_document(make_rule(Condition("x", Op.AT_MOST, -1.5), label=0), classes=("-1", "1"), target="y")

    row = next(csv.DictReader(io.StringIO(to_csv(document), newline="")))

    assert (row["if"], row["then"], row["n[-1]"]) == ("x ≤ -1.5", "-1", "2")


def test_markdown_escapes_characters_that_would_break_its_table():
    condition = Condition("<b>|\n*a*_b_ c_d `x` [y]", Op.IS, "&amp;")
    document = make_document(make_rule(condition, holdout=make_held_out()), holdout=10, preset="paper")

    row = to_markdown(document).splitlines()[2]

    assert r"&lt;b&gt;\|\\n\*a\*\_b\_ c_d \`x\` \[y\] = &amp;amp;" in row
    assert row.endswith("| survived = 1 | 10 | 0.125 | 0.80 | 0.80 | 0.90 | 1.75 |")


def test_without_rules_every_export_is_still_well_formed():
    document = make_document(min_precision=0.9)
    reason = "No findings. 12 certified rules were left out by --min-precision 0.9."

    assert to_sql(document) == f"-- {reason}\n"
    assert to_pandas(document) == f"# {reason}\n"
    assert len(to_csv(document).splitlines()) == 1
    assert to_markdown(document) == f"{reason.replace('No findings.', '**No findings.**')}\n"


def test_classes_without_a_finding_are_named_in_every_export_that_people_read():
    text = "No finding for a = \n;b: the nearest is IF x < 3; --all shows it."
    record = make_record(MissingClassRecord, "b", 9, MissingReason.EXCLUDED, 3, 1, None, text)
    document = make_document(make_rule(AGE)).model_copy(update={"missing_classes": (record,)})

    assert to_sql(document).startswith("-- No finding for a = \\n,b: the nearest is IF x < 3, --all shows it.\n-- R1:")
    assert to_pandas(document).startswith("# No finding for a = \\n,b: the nearest is IF x < 3, --all shows it.\n# R1:")
    assert to_markdown(document).endswith(
        "\n\nNo finding for a = \\\\n;b: the nearest is IF x &lt; 3; --all shows it.\n"
    )


def test_csv_and_markdown_contain_the_dropped_conditions_with_reasons():
    test = make_record(ConditionTest, 1.0, 0.2, 0.4)
    rule = make_rule(
        AGE, tests=(make_record(ConditionTest, 0.01, 0.001, 0.00012),), dropped=(AGE, AGE), dropped_tests=(test, test)
    )
    document = make_document(rule)

    (row,) = csv.DictReader(io.StringIO(to_csv(document)))

    assert (row["p"], row["dropped"], row["dropped_p"]) == ("0.00012", "age ≤ 27.5; age ≤ 27.5", "0.4; 0.4")
    assert "| age ≤ 27.5 (p = 0.4), age ≤ 27.5 (p = 0.4) |" in to_markdown(document)
    assert "dropped" not in to_markdown(make_document(make_rule(AGE)))


def test_csv_and_markdown_contain_the_stability_of_rules():
    document = make_repeated(make_document(make_rule(AGE)), 9)

    (row,) = csv.DictReader(io.StringIO(to_csv(document)))
    *_, header, _, line = to_markdown(document).splitlines()

    assert [row[name] for name in ("stability", "returns", "repeats", "repeats_precision")] == [
        "0.9",
        "9",
        "10",
        "0.875",
    ]
    assert header.endswith("| comes back |")
    assert line.endswith("| 0.90 |")
