"""Rules for other programs: CSV, Markdown, SQL and pandas, each made from a result document.

Names come from data, and data may be hostile: every format escapes them by its own rules. CSV, SQL and pandas
carry the exact thresholds, so that they pick the very rows that the rule covers; Markdown is for reading.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, ConditionRecord, Op
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import conditions_text, dropped_texts, predicted_text
from maabo_dist.errors import SettingsError

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
    with_dropped = any(rule.dropped for rule in document.rules)
    repeated = document.repeats is not None
    lines = [
        "| rule | if | then | n | Gini | precision (training) | (validation) | (held out) | lift (validation) |"
        + (" comes back |" if repeated else "")
        + (" dropped |" if with_dropped else ""),
        "|---|---|---|--:|--:|--:|--:|--:|--:|" + ("--:|" if repeated else "") + ("---|" if with_dropped else ""),
        *(f"| {' | '.join(_markdown_cells(rule, document, with_dropped=with_dropped))} |" for rule in document.rules),
    ]
    return "\n".join(lines) + "\n"


def to_sql(document: ResultDocument, table: str = "data") -> str:
    """One SELECT per rule, in SQL that every common database reads."""
    text = ""
    for rule in document.rules:
        where = "\n  AND ".join(map(_sql_condition, rule.premise)) or "1 = 1"
        text += (
            f"-- {_caption(rule, document.dataset)}\n"
            f"SELECT {_sql_text(rule.id)} AS rule, * FROM {_sql_name(table)}\nWHERE {where};\n"
        )
    return text


def to_pandas(document: ResultDocument) -> str:
    """One assignment per rule: `R1 = df[…]`, the rows of the DataFrame `df` that R1 covers."""
    return "".join(
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
    precision = "" if rule.train.precision is None else f", precision {rule.train.precision:.3f}"
    return printable(f"{rule.id}: {predicted_text(rule, dataset)} (n {rule.n}{precision})")


def _csv_header(classes: Sequence[str]) -> list[str]:
    return [
        *("rule", "if", "then", "n", "gini"),
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


def _markdown_cells(rule: RuleRecord, document: ResultDocument, *, with_dropped: bool) -> list[str]:
    """`with_dropped` adds a column for dropped conditions."""
    return [
        rule.id,
        _markdown_text(conditions_text(rule.premise)),
        _markdown_text(predicted_text(rule, document.dataset)),
        f"{rule.n:,}",
        f"{rule.gini:.3f}",
        *(_rounded(part.precision if part else None) for part in (rule.train, rule.validation, rule.holdout)),
        _rounded(rule.validation.lift),
        *([_rounded(rule.stability.share if rule.stability else None)] if document.repeats else []),
        *([_markdown_text(", ".join(dropped_texts(rule.dropped)))] if with_dropped else []),
    ]


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
    sign = "<>" if condition.op is Op.IS_NOT else condition.op.value
    value = condition.value
    text = f"{name} {sign} {_sql_text(value) if isinstance(value, str) else repr(value)}"
    return f"({text} OR {name} IS NULL)" if condition.or_missing else text


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
    if isinstance(condition.value, str):
        return _pandas_level_mask(cells, condition)
    mask = f"{cells} {condition.op.value} {condition.value!r}"
    return f"({mask}) | {cells}.isna()" if condition.or_missing else mask


def _pandas_level_mask(cells: str, condition: Condition) -> str:
    """`isin` finds levels that a DataFrame holds as booleans or numbers, and never a missing cell."""
    mask = f"{cells}.isin({_spellings(str(condition.value))!r})"
    if condition.op is Op.IS:
        return f"{mask} | {cells}.isna()" if condition.or_missing else mask
    return f"~{mask}" if condition.or_missing else f"~{mask} & {cells}.notna()"


def _spellings(level: str) -> list[object]:
    """Return the values that a cell of this level may have: `true` is written for True as well, `3` for 3 and 3.0."""
    if level in {"true", "false"}:
        return [level, level == "true"]
    if not _PLAIN_NUMBER.fullmatch(level):
        return [level]
    return [level, int(level) if level.lstrip("+-").isdecimal() else float(level)]
