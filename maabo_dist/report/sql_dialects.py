"""The SQL of databases, written by sqlglot: names, texts and functions as each of them wants them."""

import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.sql import SqlDialect, date_bound, layout_remarks, number_text, part_bound

_SIGNS: Final[dict[str, type[exp.Expression]]] = {
    Op.AT_MOST: exp.LTE,
    Op.ABOVE: exp.GT,
    Op.AT_LEAST: exp.GTE,
    Op.IS: exp.EQ,
    Op.IS_NOT: exp.NEQ,
    "<": exp.LT,
}
_NAMES: Final[dict[SqlDialect, str]] = {"postgresql": "postgres"}
# Levels that columns of booleans and numbers have, too.
_TYPED_LEVEL = re.compile(r"true|false|[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_POSTGRESQL_LAYOUT: Final = {
    "%d": "DD",
    "%m": "MM",
    "%b": "Mon",
    "%B": "Month",
    "%Y": "YYYY",
    "%y": "YY",
    "%H": "HH24",
    "%I": "HH12",
    "%M": "MI",
    "%S": "SS",
    "%p": "AM",
}
_SNOWFLAKE_LAYOUT: Final = _POSTGRESQL_LAYOUT | {"%b": "MON", "%B": "MMMM"}


# A text that is a number, for PostgreSQL. SQLite has no regular expressions: a text that is a number has a digit, and
# none of the patterns after the first.
_NUMBER: Final = "^ *[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)? *$"
_SQLITE_NUMBER: Final = ("*[0-9]*", "*[^-+.0-9eE]*", "*[0-9.][-+]*", "*.*.*", "*[eE]*[eE.]*", "*[-+eE]", "[eE]*")


class DialectWriter:
    """Writes the SQL of one database."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect, self._name = dialect, _NAMES.get(dialect, str(dialect))

    def name(self, name: str) -> str:
        """Return the name of a table or column, quoted."""
        return self._write(_identifier(name))

    def text(self, text: str) -> str:
        """Return a text, quoted."""
        return self._write(exp.Literal.string(text))

    def condition(self, condition: Condition) -> str:
        """Return a condition, in brackets if it has an OR."""
        column: exp.Expression = exp.Column(this=_identifier(condition.feature))
        if condition.as_text:
            column = self._text_numbers(column)
        if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
            return f"{self._write(column)} IS {'NOT ' if condition.op is Op.IS_PRESENT else ''}NULL"
        if condition.part is not None:
            column = self._dates(column, condition.part)
        holds = self._write(self._compare(column, condition))
        return f"({holds} OR {self._write(column)} IS NULL)" if condition.or_missing else holds

    def remarks(self, document: ResultDocument) -> list[str]:
        """Return remarks on what to adapt in the queries."""
        return layout_remarks(document, self) if self._dialect == "sqlite" else []

    def _write(self, expression: exp.Expression) -> str:
        return expression.sql(dialect=self._name)

    def _compare(self, column: exp.Expression, condition: Condition) -> exp.Expression:
        op, value = condition.op, condition.value
        if isinstance(value, str | tuple) or value is None:
            return self._compare_levels(column, condition)
        if condition.part is None:
            return _SIGNS[op](this=column, expression=self._number(value))
        if (bound := date_bound(op, condition.part, value)) is not None:
            return _SIGNS[bound[0]](this=column, expression=exp.Literal.string(bound[1]))
        part = self._recurring_part(column, condition.part)
        return _SIGNS[op](this=part, expression=exp.Literal.number(part_bound(op, value)))

    def _compare_levels(self, column: exp.Expression, condition: Condition) -> exp.Expression:
        levels = condition.value if isinstance(condition.value, tuple) else (str(condition.value),)
        if self._dialect == "bigquery" and all(map(_TYPED_LEVEL.fullmatch, levels)):
            column = exp.cast(column, "text")  # BigQuery compares no text with a boolean or a number
        values = [value for level in levels for value in self._spellings(level)]
        positive = condition.op in {Op.IS, Op.IN}
        if len(values) == 1:
            return _SIGNS[Op.IS if positive else Op.IS_NOT](this=column, expression=values[0])
        among = exp.In(this=column, expressions=values)
        return among if positive else exp.Not(this=among)

    def _spellings(self, level: str) -> Iterator[exp.Expression]:
        """Yield the values that a cell of this level may have. SQLite has 1 and 0 for booleans."""
        yield exp.Literal.string(level)
        if self._dialect == "sqlite" and level in {"true", "false"}:
            yield exp.Literal.number(int(level == "true"))

    def _number(self, value: float) -> exp.Expression:
        """The exact number. In DuckDB, 0.1 is a decimal, which is rounded if it is compared with a float of 32 bits."""
        text = number_text(abs(value))
        if self._dialect == "duckdb" and not text.isdigit() and "e" not in text:
            text += "e0"
        literal: exp.Expression = exp.Literal.number(text)
        return exp.Neg(this=literal) if value < 0 else literal

    def _text_numbers(self, column: exp.Expression) -> exp.Expression:
        """The numbers of a column of texts; NULL for other texts. The column may hold numbers, too."""
        text = exp.cast(column, "text")
        match self._dialect:
            case "postgresql":
                is_number = exp.RegexpLike(this=text, expression=exp.Literal.string(_NUMBER))
                return exp.Case().when(is_number, exp.cast(text, "double"))
            case "sqlite":
                patterns = map(exp.Literal.string, _SQLITE_NUMBER)
                first, *others = (exp.Glob(this=_call("TRIM", text), expression=pattern) for pattern in patterns)
                return exp.Case().when(exp.and_(first, *map(exp.not_, others)), exp.cast(column, "real"))
            case _:
                return exp.TryCast(this=text, to=exp.DataType.build("double"))

    def _dates(self, column: exp.Expression, part: DatePart) -> exp.Expression:
        """The column, read by its layout unless it holds dates or ISO texts. Texts that are no dates become NULL.

        PostgreSQL alone stops with an error, and SQLite reads no layouts.
        """
        if part.layout == ISO_LAYOUT:
            return column
        match self._dialect:
            case "duckdb":
                return _call("TRY_STRPTIME", column, exp.Literal.string(part.layout))
            case "postgresql":
                return _call("TO_TIMESTAMP", column, _layout(part.layout, _POSTGRESQL_LAYOUT))
            case "bigquery":
                parse = _call("PARSE_DATETIME", exp.Literal.string(part.layout), column)
                return exp.Dot(this=exp.var("SAFE"), expression=parse)
            case "snowflake":
                return _call("TRY_TO_TIMESTAMP", column, _layout(part.layout, _SNOWFLAKE_LAYOUT))
            case _:
                return column

    def _recurring_part(self, column: exp.Expression, part: DatePart) -> exp.Expression:
        """The month, weekday (1 on Mondays) or hour as a number."""
        if self._dialect == "sqlite":
            return _sqlite_part(column, part)
        time: exp.Expression = exp.cast(column, "timestamp") if part.layout == ISO_LAYOUT else column
        if part.part == "weekday" and self._dialect != "postgresql":
            return exp.DayOfWeekIso(this=time)
        field = "ISODOW" if part.part == "weekday" else part.part.upper()
        return exp.Extract(this=exp.var(field), expression=time)


def _sqlite_part(column: exp.Expression, part: DatePart) -> exp.Expression:
    directive = {"month": "%m", "weekday": "%w", "hour": "%H"}[part.part]
    number = exp.cast(_call("STRFTIME", exp.Literal.string(directive), column), "int")
    if part.part != "weekday":
        return number
    # 0 on Sundays: 6 more, modulo 7, is 0 on Mondays.
    shifted = exp.Paren(this=exp.Add(this=number, expression=exp.Literal.number(6)))
    remainder = exp.Mod(this=shifted, expression=exp.Literal.number(7))
    return exp.Add(this=remainder, expression=exp.Literal.number(1))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _call(function: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _layout(layout: str, directives: dict[str, str]) -> exp.Expression:
    for directive, text in directives.items():
        layout = layout.replace(directive, text)
    return exp.Literal.string(layout)
