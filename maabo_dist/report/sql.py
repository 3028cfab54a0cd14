"""Rules as SQL: a query for each rule, or one CASE expression that predicts the class as `maabo apply` does.

Numbers are exact, so that the queries pick the very rows that rules match. Missing cells must be NULL in the database.
The SQL is standard, with comments on what to adapt for dates, or that of a database (`sql_dialects`).
"""

from math import ceil, floor
from typing import Literal, Protocol, get_args

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import day_text
from maabo_dist.errors import SettingsError
from maabo_dist.report.briefing import in_order
from maabo_dist.report.captions import comment_lines, rule_caption
from maabo_dist.report.summary import with_failed_heading

SqlDialect = Literal["standard", "duckdb", "postgresql", "sqlite", "bigquery", "snowflake"]
SqlForm = Literal["queries", "case"]
DIALECTS: tuple[SqlDialect, ...] = get_args(SqlDialect)
FORMS: tuple[SqlForm, ...] = get_args(SqlForm)


class SqlWriter(Protocol):
    """Writes parts of queries in the SQL of a database."""

    def name(self, name: str) -> str:
        """Return the name of a table or column, quoted."""
        ...

    def text(self, text: str) -> str:
        """Return a text, quoted."""
        ...

    def condition(self, condition: Condition) -> str:
        """Return a condition, in brackets if it has an OR. NULL satisfies no comparison."""
        ...

    def remarks(self, document: ResultDocument) -> list[str]:
        """Return remarks on what to adapt in the queries."""
        ...


def to_sql(
    document: ResultDocument, table: str = "data", dialect: SqlDialect = "standard", form: SqlForm = "queries"
) -> str:
    """Return one SELECT per rule, or one SELECT with a CASE expression, in the SQL of a database."""
    writer = _open_writer(dialect)
    remarks = "".join(f"-- {printable(remark)}\n" for remark in writer.remarks(document))
    text = comment_lines(document, "--") + remarks
    if form == "case":
        return text + _case_query(document, table, writer)
    parts = ["".join(_rule_query(rule, document, table, writer) for rule in rules) for rules in in_order(document)]
    return text + "".join(with_failed_heading(parts, document, "-- {}\n"))


def _open_writer(dialect: SqlDialect) -> SqlWriter:
    if dialect == "standard":
        return StandardWriter()
    try:
        from maabo_dist.report.sql_dialects import DialectWriter  # noqa: PLC0415 - sqlglot is optional, and takes 0.5 s
    except ImportError:
        raise SettingsError(
            f"SQL for {dialect} needs the package sqlglot. Install it with pip install 'maabo-dist[sql]', or use the "
            "dialect standard."
        ) from None
    return DialectWriter(dialect)


def _rule_query(rule: RuleRecord, document: ResultDocument, table: str, writer: SqlWriter) -> str:
    where = "\n  AND ".join(map(writer.condition, rule.premise)) or "1 = 1"
    return (
        f"-- {rule_caption(rule, document.dataset)}\n"  # not executed here; names and values are quoted  # nosec B608
        f"SELECT {writer.text(rule.id)} AS rule, * FROM {writer.name(table)}\nWHERE {where};\n"
    )


def _case_query(document: ResultDocument, table: str, writer: SqlWriter) -> str:
    """The first rule that matches decides, so that they are in the order in which rules decide."""
    from maabo_dist.rules.deciding import decision_order  # noqa: PLC0415 - loads numba

    order = decision_order(document.rules, document.dataset.design_effect or 1.0)
    branches = [_case_branch(document.rules[index], document, writer) for index in order]
    case = f"CASE\n{''.join(branches)}  END" if branches else "NULL"
    # Not executed here; names and values are quoted.
    return f"SELECT *,\n  {case} AS predicted\nFROM {writer.name(table)};\n"  # nosec B608


def _case_branch(rule: RuleRecord, document: ResultDocument, writer: SqlWriter) -> str:
    conditions = " AND ".join(map(writer.condition, rule.premise)) or "1 = 1"
    caption = rule_caption(rule, document.dataset)
    return f"    -- {caption}\n    WHEN {conditions} THEN {writer.text(rule.label)}\n"


class StandardWriter:
    """SQL that every common database reads."""

    def name(self, name: str) -> str:
        """Return the name of a table or column, quoted."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, text: str) -> str:
        """Return a text, quoted."""
        return "'" + text.replace("'", "''") + "'"

    def condition(self, condition: Condition) -> str:
        """Return a condition, in brackets if it has an OR."""
        name = self.name(condition.feature)
        if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
            return f"{name} IS {'NOT ' if condition.op is Op.IS_PRESENT else ''}NULL"
        text = self._comparison(name, condition)
        return f"({text} OR {name} IS NULL)" if condition.or_missing else text

    def remarks(self, document: ResultDocument) -> list[str]:
        """Return remarks on what to adapt in the queries."""
        parts = {each.part.part for rule in document.rules for each in rule.premise if each.part is not None}
        remarks = [*layout_remarks(document, self), *_text_remarks(document, self)]
        if parts & {"month", "weekday", "hour"}:
            remarks.append("EXTRACT is standard SQL; SQLite has strftime and SQL Server DATEPART instead.")
        if "weekday" in parts:
            remarks.append("ISODOW is the weekday, 1 on Mondays, in PostgreSQL and DuckDB; MySQL has WEEKDAY(…) + 1.")
        return remarks

    def _comparison(self, name: str, condition: Condition) -> str:
        sign, value = "<>" if condition.op is Op.IS_NOT else condition.op.value, condition.value
        if isinstance(value, tuple):
            return f"{name} {sign.upper()} ({', '.join(map(self.text, value))})"
        if condition.part is not None and isinstance(value, float | int):
            return self._date(name, condition.op, condition.part, value)
        return f"{name} {sign} {self.text(value) if isinstance(value, str) else number_text(value)}"

    def _date(self, name: str, op: Op, part: DatePart, value: float) -> str:
        """Compare dates and years with a date, which works for columns of dates and of ISO texts alike."""
        if (bound := date_bound(op, part, value)) is not None:
            sign, text = bound
            return f"{name} {sign} {self.text(text)}"
        field = "ISODOW" if part.part == "weekday" else part.part.upper()
        return f"EXTRACT({field} FROM CAST({name} AS TIMESTAMP)) {op.value} {number_text(part_bound(op, value))}"


def number_text(value: float | None) -> str:
    """The exact number; a whole one without a fraction."""
    return repr(value).removesuffix(".0")


def date_bound(op: Op, part: DatePart, value: float) -> tuple[str, str] | None:
    """Return the sign and the date to compare days and years with, such as `>= 2024-06-30`; None for other parts."""
    least = ceil(value) if op is Op.AT_LEAST else floor(value) + 1
    sign = "<" if op is Op.AT_MOST else ">="
    if part.part == "days":
        return sign, day_text(part, least)
    return (sign, f"{least:04d}-01-01") if part.part == "year" else None


def part_bound(op: Op, value: float) -> int:
    """Return the whole number to compare a part of dates with, in place of the value."""
    return ceil(value) if op is Op.AT_LEAST else floor(value)


def layout_remarks(document: ResultDocument, writer: SqlWriter) -> list[str]:
    """Remarks on columns whose texts are dates in a layout that the database does not read."""
    parts = {each.feature: each.part for rule in document.rules for each in rule.premise if each.part is not None}
    return [
        f"{writer.name(name)} holds texts such as {part.layout}: convert it to a date first."
        for name, part in parts.items()
        if part.layout != ISO_LAYOUT
    ]


def _text_remarks(document: ResultDocument, writer: SqlWriter) -> list[str]:
    """Remarks on columns whose texts are numbers, which not every database compares as such."""
    names = {each.feature: None for rule in document.rules for each in rule.premise if each.as_text}
    return [f"{writer.name(name)} holds texts: convert it to numbers first." for name in names]
