"""Rules for other programs: CSV, Markdown, SQL and pandas, each made from a result document.

Names come from data, and data may be hostile: every format escapes them by its own rules. CSV, SQL and pandas
carry the exact thresholds, so that they pick the very rows that the rule covers; Markdown is for reading.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from math import floor
from typing import NamedTuple

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import ISO_LAYOUT, Condition, ConditionRecord, DatePart, Op
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import HoldoutRecord, RuleRecord
from maabo_dist.contract.wording import conditions_text, day_text, dropped_texts, predicted_text
from maabo_dist.errors import SettingsError
from maabo_dist.report.summary import adjusted_p_text, evidence_text, no_rules_texts

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_MARKDOWN_SIGNS = re.compile(r"([\\`*\[\]|~$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z]))")
_SUPPORT_CELLS = ("n", "precision", "recall", "lift")
_STABILITY_CELLS = ("share", "returns", "repeats", "precision")
_HELD_OUT_CELLS = (*_SUPPORT_CELLS, "precision_low", "precision_high", "p", "q")


def to_csv(document: ResultDocument) -> str:
    """One line per rule after a header (RFC 4180); cells that look like formulas are escaped."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_csv_header(document.dataset.classes))
    writer.writerows(map(_csv_cells, document.rules))
    return text.getvalue()


def to_markdown(document: ResultDocument) -> str:
    """A table that GitHub and most other renderers show as it is meant."""
    columns = _markdown_columns(document)
    remarks = [f"**{title}** {_markdown_text(reason)}" for title, reason in no_rules_texts(document)]
    remarks += [_markdown_text(record.text) for record in document.missing_classes]
    if not document.rules:
        return "\n\n".join(remarks) + "\n"
    lines = [
        f"| {' | '.join(column.heading for column in columns)} |",
        f"|{'|'.join('--:' if column.number else '---' for column in columns)}|",
        *(f"| {' | '.join(column.cell(rule) for column in columns)} |" for rule in document.rules),
        *(f"\n{remark}" for remark in remarks),
    ]
    return "\n".join(lines) + "\n"


def to_sql(document: ResultDocument, table: str = "data") -> str:
    """One SELECT per rule, in SQL that every common database reads; comments say what to adapt for dates."""
    text = _comments(document, "--") + _sql_remarks(document)
    for rule in document.rules:
        where = "\n  AND ".join(map(_sql_condition, rule.premise)) or "1 = 1"
        text += (
            f"-- {_caption(rule, document.dataset)}\n"
            f"SELECT {_sql_text(rule.id)} AS rule, * FROM {_sql_name(table)}\nWHERE {where};\n"
        )
    return text


def to_pandas(document: ResultDocument) -> str:
    """One assignment per rule: `R1 = df[…]`, the rows of the DataFrame `df` that R1 covers."""
    return _comments(document, "#") + "".join(
        f"# {_caption(rule, document.dataset)}\n{rule.id} = {_pandas_rows(rule.premise)}\n" for rule in document.rules
    )


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


def _csv_header(classes: Sequence[str]) -> list[str]:
    return [
        *("rule", "if", "then"),
        *("evidence", "rows", "precision", "precision_low", "precision_high", "verdict", "adjusted_p", "certified_by"),
        *("n", "gini"),
        *(f"n[{name}]" for name in classes),
        *(f"train_{cell}" for cell in _SUPPORT_CELLS),
        *(f"validation_{cell}" for cell in _SUPPORT_CELLS),
        *(f"holdout_{cell}" for cell in _HELD_OUT_CELLS),
        *("unique", "most_similar", "similarity", "tree", "depth", "tree_score", "subset", "displaced"),
        *("p", "dropped", "dropped_p"),
        *("stability", "returns", "repeats", "repeats_precision"),
    ]


def _csv_cells(rule: RuleRecord) -> list[object]:
    similar, source = rule.most_similar, rule.source
    return [
        rule.id,
        *(_defuse(conditions_text(rule.premise, exact=True)), _defuse(rule.label)),
        *_evidence_cells(rule),
        *(rule.verdict.value, *_cells(rule.certificate, ("p", "method"))),
        *(rule.n, rule.gini),
        *rule.counts.values(),
        *_cells(rule.train, _SUPPORT_CELLS),
        *_cells(rule.validation, _SUPPORT_CELLS),
        *_cells(rule.holdout, _HELD_OUT_CELLS),
        *(rule.unique, *_cells(similar, ("rule", "similarity"))),
        *(source.tree, source.depth, source.score, _defuse("; ".join(source.subset))),
        rule.displaced_total,
        _p_values(rule.conditions),
        _defuse("; ".join(conditions_text([record.condition], exact=True) for record in rule.dropped)),
        _p_values(rule.dropped),
        *_cells(rule.stability, _STABILITY_CELLS),
    ]


def _evidence_cells(rule: RuleRecord) -> list[object]:
    """Which rows the figures are from, how many the rule covers, and its precision; its interval on held-out rows."""
    if rule.holdout:
        return ["held out", *_cells(rule.holdout, ("n", "precision", "precision_low", "precision_high"))]
    return ["mined", rule.mined_n, rule.mined_precision, None, None]


def _cells(record: object, fields: Iterable[str]) -> list[object]:
    """The fields of a record; empty cells where there is none."""
    return [None if record is None else getattr(record, field) for field in fields]


def _p_values(conditions: Iterable[ConditionRecord]) -> str:
    """One for each condition that was tested, in their order."""
    return "; ".join(f"{each.test.p:.3g}" for each in conditions if each.test and each.test.p is not None)


def _defuse(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet would run; a plain number such as the class -1 is safe."""
    risky = text.startswith(_FORMULA_STARTS) and not _PLAIN_NUMBER.fullmatch(text)
    return f"'{text}" if risky else text


class _Column(NamedTuple):
    """A column of the Markdown table, and how its cells are made."""

    heading: str
    cell: Callable[[RuleRecord], str]
    number: bool = True


def _markdown_columns(document: ResultDocument) -> list[_Column]:
    columns = [
        _Column("rule", lambda rule: rule.id, number=False),
        _Column("if", lambda rule: _markdown_text(conditions_text(rule.premise)), number=False),
        _Column("then", lambda rule: _markdown_text(predicted_text(rule, document.dataset)), number=False),
        *(_finding_columns(document) if document.lists_findings else _paper_columns()),
    ]
    if document.repeats:
        columns.append(_Column("comes back", lambda rule: _rounded(rule.stability.share if rule.stability else None)))
    if any(rule.dropped for rule in document.rules):
        columns.append(
            _Column("dropped", lambda rule: _markdown_text(", ".join(dropped_texts(rule.dropped))), number=False)
        )
    return columns


def _paper_columns() -> list[_Column]:
    return [
        _Column("n", lambda rule: f"{rule.n:,}"),
        _Column("Gini", lambda rule: f"{rule.gini:.3f}"),
        _Column("precision (training)", lambda rule: _rounded(rule.train.precision)),
        _Column("(validation)", lambda rule: _rounded(rule.validation.precision)),
        _Column("(held out)", lambda rule: _rounded(rule.holdout.precision if rule.holdout else None)),
        _Column("lift (validation)", lambda rule: _rounded(rule.validation.lift)),
    ]


def _finding_columns(document: ResultDocument) -> list[_Column]:
    """The figures of held-out rows first, if there are any."""
    mined = [
        _Column("rows (mined)", lambda rule: f"{rule.mined_n:,}"),
        _Column("precision (mined)", lambda rule: _rounded(rule.mined_precision)),
    ]
    held_out = [
        _Column("rows (held out)", lambda rule: f"{rule.holdout.n:,}" if rule.holdout else ""),
        _Column("precision (held out)", lambda rule: _rounded(rule.holdout.precision if rule.holdout else None)),
        _Column("95 % interval", lambda rule: _interval(rule.holdout)),
    ]
    return [
        *(held_out if document.dataset.parts.holdout else []),
        *mined,
        _Column("base rate", lambda rule: _rounded(document.dataset.base_rates[rule.label])),
        _Column("verdict", lambda rule: rule.verdict.value, number=False),
        _Column("adjusted p", lambda rule: adjusted_p_text(rule).replace("<", "&lt;")),
    ]


def _interval(holdout: HoldoutRecord | None) -> str:
    if holdout is None or holdout.precision_low is None:
        return ""
    return f"{_rounded(holdout.precision_low)}–{_rounded(holdout.precision_high)}"


def _markdown_text(text: str) -> str:
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SIGNS.sub(r"\\\1", escaped)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


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
    return f"{name} {sign} {_sql_text(value) if isinstance(value, str) else repr(value)}"


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
    mask = f"{cells} {condition.op.value} {condition.value!r}"
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
    times = f"pd.to_datetime({cells}{layout})"
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
