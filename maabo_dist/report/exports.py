"""Rules for other programs, each made from a result document: SQL and pandas here, CSV and Markdown in `tables`.

Names come from data, and data may be hostile: every format escapes them by its own rules. CSV, SQL and pandas
carry the exact thresholds, so that they pick the very rows that the rule covers; Markdown is for reading.
"""

import re
from collections.abc import Callable
from math import floor

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import day_text, predicted_text
from maabo_dist.errors import SettingsError
from maabo_dist.report.summary import evidence_text, no_rules_texts, split_failed, with_failed_heading
from maabo_dist.report.tables import to_csv, to_markdown

_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def to_sql(document: ResultDocument, table: str = "data") -> str:
    """One SELECT per rule, in SQL that every common database reads; comments say what to adapt for dates."""
    text = _comments(document, "--") + _sql_remarks(document)
    parts = ["".join(_sql_query(rule, document.dataset, table) for rule in rules) for rules in split_failed(document)]
    return text + "".join(with_failed_heading(parts, document, "-- {}\n"))


def to_pandas(document: ResultDocument) -> str:
    """One assignment per rule: `R1 = df[…]`, the rows of the DataFrame `df` that R1 covers."""
    parts = [
        "".join(f"# {_caption(rule, document.dataset)}\n{rule.id} = {_pandas_rows(rule.premise)}\n" for rule in rules)
        for rules in split_failed(document)
    ]
    return _comments(document, "#") + "".join(with_failed_heading(parts, document, "# {}\n"))


_WRITERS: dict[str, Callable[[ResultDocument], str]] = {
    "json": ResultDocument.to_text,
    "csv": to_csv,
    "markdown": to_markdown,
    "pandas": to_pandas,
}


def export_rules(document: ResultDocument, form: str, table: str = "data") -> str:
    """Return the rules as json, csv, markdown, sql or pandas; `table` is the name of the table in SQL."""
    if form == "sql":
        return to_sql(document, table)
    if form in _WRITERS:
        return _WRITERS[form](document)
    raise SettingsError(f"There is no export format {form!r}. Use json, csv, markdown, sql or pandas.")


def _caption(rule: RuleRecord, dataset: DatasetInfo) -> str:
    """A comment on one line, whatever the names contain."""
    return printable(f"{rule.id}: {predicted_text(rule, dataset)} ({evidence_text(rule)})")


def _comments(document: ResultDocument, sign: str) -> str:
    """Comment lines on classes without a finding, or on why there is no rule; without semicolons, as captions."""
    lines = [f"{title} {reason}" for title, reason in no_rules_texts(document)]
    lines += [record.text for record in document.missing_classes]
    return "".join(f"{sign} {printable(line).replace('; ', ', ').replace(';', ',')}\n" for line in lines)


def _sql_query(rule: RuleRecord, dataset: DatasetInfo, table: str) -> str:
    where = "\n  AND ".join(map(_sql_condition, rule.premise)) or "1 = 1"
    return (
        f"-- {_caption(rule, dataset)}\n"
        f"SELECT {_sql_text(rule.id)} AS rule, * FROM {_sql_name(table)}\nWHERE {where};\n"
    )


def _sql_condition(condition: Condition) -> str:
    """NULL satisfies no comparison; conditions that include missing cells add IS NULL."""
    name = _sql_name(condition.feature)
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return f"{name} IS {'NOT ' if condition.op is Op.IS_PRESENT else ''}NULL"
    text = _sql_comparison(name, condition)
    return f"({text} OR {name} IS NULL)" if condition.or_missing else text


def _sql_comparison(name: str, condition: Condition) -> str:
    sign, value = "<>" if condition.op is Op.IS_NOT else condition.op.value, condition.value
    if isinstance(value, tuple):
        return f"{name} {sign.upper()} ({', '.join(map(_sql_text, value))})"
    if condition.part is not None and isinstance(value, float | int):
        return _sql_date(name, condition.op, condition.part, floor(value))
    return f"{name} {sign} {_sql_text(value) if isinstance(value, str) else _number(value)}"


def _number(value: float | None) -> str:
    """The exact number; a whole one without a fraction."""
    return repr(value).removesuffix(".0")


def _sql_date(name: str, op: Op, part: DatePart, value: int) -> str:
    """Compare dates and years with a date, which works for columns of dates and of ISO texts alike."""
    sign = ">=" if op is Op.ABOVE else "<"
    if part.part == "days":
        return f"{name} {sign} {_sql_text(day_text(part, value + 1))}"
    if part.part == "year":
        return f"{name} {sign} '{value + 1:04d}-01-01'"
    field = "ISODOW" if part.part == "weekday" else part.part.upper()
    return f"EXTRACT({field} FROM CAST({name} AS TIMESTAMP)) {op.value} {value}"


def _sql_remarks(document: ResultDocument) -> str:
    """Comments on what differs between databases, or what the dates of the table look like."""
    conditions = dict.fromkeys(each for rule in document.rules for each in rule.premise if each.part is not None)
    parts = {each.part.part for each in conditions if each.part is not None}
    layouts = {each.feature: each.part.layout for each in conditions if each.part and each.part.layout != ISO_LAYOUT}
    remarks = [
        printable(f"-- {_sql_name(name)} holds texts such as {layout}: convert it to a date first.")
        for name, layout in layouts.items()
    ]
    if parts & {"month", "weekday", "hour"}:
        remarks.append("-- EXTRACT is standard SQL; SQLite has strftime and SQL Server DATEPART instead.")
    if "weekday" in parts:
        remarks.append("-- ISODOW is the weekday, 1 on Mondays, in PostgreSQL and DuckDB; MySQL has WEEKDAY(…) + 1.")
    return "".join(f"{remark}\n" for remark in remarks)


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _pandas_rows(conditions: tuple[Condition, ...]) -> str:
    if len(conditions) <= 1:
        return f"df[{_pandas_mask(conditions[0])}]" if conditions else "df"
    return f"df[{' & '.join(f'({_pandas_mask(condition)})' for condition in conditions)}]"


def _pandas_mask(condition: Condition) -> str:
    cells = f"df[{condition.feature!r}]"
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return f"{cells}.{'isna' if condition.op is Op.IS_MISSING else 'notna'}()"
    if isinstance(condition.value, str | tuple):
        return _pandas_level_mask(cells, condition)
    if condition.part is not None:
        mask = f"{_pandas_date(cells, condition.part)} {condition.op.value} {condition.value!r}"
        return f"({mask}) | {cells}.isna()" if condition.or_missing else mask
    mask = f"{cells} {condition.op.value} {_number(condition.value)}"
    return f"({mask}) | {cells}.isna()" if condition.or_missing else mask


def _pandas_level_mask(cells: str, condition: Condition) -> str:
    """`isin` finds levels that a DataFrame holds as booleans or numbers, and never a missing cell."""
    levels = condition.value if isinstance(condition.value, tuple) else (str(condition.value),)
    mask = f"{cells}.isin({[spelling for level in levels for spelling in _spellings(level)]!r})"
    if condition.op in {Op.IS, Op.IN}:
        return f"{mask} | {cells}.isna()" if condition.or_missing else mask
    return f"~{mask}" if condition.or_missing else f"~{mask} & {cells}.notna()"


def _pandas_date(cells: str, part: DatePart) -> str:
    layout = "" if part.layout == ISO_LAYOUT else f", format={part.layout!r}"
    times = f"pd.to_datetime({cells}{layout}, utc=True).dt.tz_localize(None)"
    if part.part == "days":
        return f"({times}.dt.normalize() - pd.Timestamp({part.first!r})).dt.days"
    return f"{times}.dt.day_of_week + 1" if part.part == "weekday" else f"{times}.dt.{part.part}"


def _spellings(level: str) -> list[object]:
    """Return the values that a cell of this level may have: `true` is written for True as well, `3` for 3 and 3.0."""
    if level in {"true", "false"}:
        return [level, level == "true"]
    if not _PLAIN_NUMBER.fullmatch(level):
        return [level]
    return [level, int(level) if level.lstrip("+-").isdecimal() else float(level)]
