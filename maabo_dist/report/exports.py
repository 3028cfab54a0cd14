"""Rules for other programs, each made from a result document.

`sql` has queries, `polars_code` expressions, `tables` CSV and Markdown; pandas is here.

Names come from data, and data may be hostile: every format escapes them by its own rules. CSV, SQL and pandas
carry the exact thresholds, so that they pick the very rows that the rule covers; Markdown is for reading.
"""

import re
from collections.abc import Callable

from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, DatePart, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import SettingsError
from maabo_dist.report.briefing import in_order
from maabo_dist.report.captions import comment_lines, rule_caption
from maabo_dist.report.polars_code import to_polars
from maabo_dist.report.sql import SqlDialect, SqlForm, number_text, to_sql
from maabo_dist.report.summary import with_failed_heading
from maabo_dist.report.tables import to_csv, to_markdown

__all__ = ["export_rules", "to_pandas", "to_polars", "to_sql"]

_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def to_pandas(document: ResultDocument) -> str:
    """One assignment per rule: `R1 = df[…]`, the rows of the DataFrame `df` that R1 covers."""
    parts = [
        "".join(
            f"# {rule_caption(rule, document.dataset)}\n{rule.id} = {_pandas_rows(rule.premise)}\n" for rule in rules
        )
        for rules in in_order(document)
    ]
    return comment_lines(document, "#") + "".join(with_failed_heading(parts, document, "# {}\n"))


_WRITERS: dict[str, Callable[[ResultDocument], str]] = {
    "json": ResultDocument.to_text,
    "csv": to_csv,
    "markdown": to_markdown,
    "pandas": to_pandas,
    "polars": to_polars,
}


def export_rules(
    document: ResultDocument,
    form: str,
    table: str = "data",
    dialect: SqlDialect = "standard",
    sql_form: SqlForm = "queries",
) -> str:
    """Return the rules as json, csv, markdown, sql, pandas or polars.

    In SQL, `table` is the name of the table, `dialect` the database, and `sql_form` a query per rule or a CASE.
    """
    if form == "sql":
        return to_sql(document, table, dialect, sql_form)
    if form in _WRITERS:
        return _WRITERS[form](document)
    raise SettingsError(f"There is no export format {form!r}. Use json, csv, markdown, sql, pandas or polars.")


def _pandas_rows(conditions: tuple[Condition, ...]) -> str:
    if len(conditions) <= 1:
        return f"df[{_pandas_mask(conditions[0])}]" if conditions else "df"
    return f"df[{' & '.join(f'({_pandas_mask(condition)})' for condition in conditions)}]"


def _pandas_mask(condition: Condition) -> str:
    cells = f"df[{condition.feature!r}]"
    if condition.as_text:
        cells = f"pd.to_numeric({cells}, errors='coerce')"
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return f"{cells}.{'isna' if condition.op is Op.IS_MISSING else 'notna'}()"
    if isinstance(condition.value, str | tuple):
        return _pandas_level_mask(cells, condition)
    if condition.part is not None:
        mask = f"{_pandas_date(cells, condition.part)} {condition.op.value} {condition.value!r}"
        return f"({mask}) | {cells}.isna()" if condition.or_missing else mask
    mask = f"{cells} {condition.op.value} {number_text(condition.value)}"
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
