"""Rules as a table: CSV for programs, Markdown for people."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import ConditionRecord
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import HoldoutRecord, RuleRecord
from maabo_dist.contract.wording import conditions_text, dropped_texts, predicted_text, stand_in_text
from maabo_dist.report.briefing import VERDICTS, finding_sentence, headline, in_order
from maabo_dist.report.summary import (
    adjusted_p_text,
    also_seen_text,
    no_rules_texts,
    verdict_text,
    with_failed_heading,
)

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
    writer.writerows(_csv_cells(rule, document.dataset) for rules in in_order(document) for rule in rules)
    return text.getvalue()


def to_markdown(document: ResultDocument) -> str:
    """The headline and a table of the findings, or a table of the paper's rules, as GitHub and most others show it."""
    columns = _markdown_columns(document)
    remarks = [f"**{title}** {_markdown_text(reason)}" for title, reason in no_rules_texts(document)]
    remarks += [_markdown_text(record.text) for record in document.missing_classes]
    if not document.rules:
        return "\n\n".join(remarks) + "\n"
    title = [f"**{_markdown_text(headline(document))}.**"] if document.lists_findings else []
    tables = [_markdown_table(rules, columns) for rules in in_order(document)]
    return "\n\n".join([*title, *with_failed_heading(tables, document, "**{}**\n\n"), *remarks]) + "\n"


def _csv_header(classes: Sequence[str]) -> list[str]:
    return [
        *("rule", "if", "then", "sentence"),
        *("evidence", "rows", "precision", "precision_low", "precision_high", "verdict", "adjusted_p", "certified_by"),
        *("n", "gini"),
        *(f"n[{name}]" for name in classes),
        *(f"train_{cell}" for cell in _SUPPORT_CELLS),
        *(f"validation_{cell}" for cell in _SUPPORT_CELLS),
        *(f"holdout_{cell}" for cell in _HELD_OUT_CELLS),
        *("unique", "most_similar", "similarity", "tree", "depth", "tree_score", "subset", "displaced"),
        *("p", "dropped", "dropped_p", "stand_ins"),
        *("stability", "returns", "repeats", "repeats_precision"),
    ]


def _csv_cells(rule: RuleRecord, dataset: DatasetInfo) -> list[object]:
    similar, source = rule.most_similar, rule.source
    return [
        rule.id,
        *(_defuse(conditions_text(rule.premise, exact=True)), _defuse(rule.label)),
        _defuse(finding_sentence(rule, dataset)),
        *_evidence_cells(rule),
        *(verdict_text(rule), *_cells(rule.certificate, ("p", "method"))),
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
        _defuse("; ".join(map(stand_in_text, rule.stand_ins))),
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


def _markdown_table(rules: Sequence[RuleRecord], columns: Sequence[_Column]) -> str:
    return "\n".join(
        [
            f"| {' | '.join(column.heading for column in columns)} |",
            f"|{'|'.join('--:' if column.number else '---' for column in columns)}|",
            *(f"| {' | '.join(column.cell(rule) for column in columns)} |" for rule in rules),
        ]
    )


def _markdown_columns(document: ResultDocument) -> list[_Column]:
    columns = [
        _Column("rule", lambda rule: rule.id, number=False),
        *(_finding_columns(document) if document.lists_findings else _paper_columns(document)),
    ]
    if document.repeats:
        columns.append(_Column("comes back", lambda rule: _rounded(rule.stability.share if rule.stability else None)))
    if any(rule.dropped for rule in document.rules):
        columns.append(
            _Column("dropped", lambda rule: _markdown_text(", ".join(dropped_texts(rule.dropped))), number=False)
        )
    return columns


def _paper_columns(document: ResultDocument) -> list[_Column]:
    return [
        _Column("if", lambda rule: _markdown_text(conditions_text(rule.premise)), number=False),
        _Column("then", lambda rule: _markdown_text(predicted_text(rule, document.dataset)), number=False),
        _Column("n", lambda rule: f"{rule.n:,}"),
        _Column("Gini", lambda rule: f"{rule.gini:.3f}"),
        _Column("precision (training)", lambda rule: _rounded(rule.train.precision)),
        _Column("(validation)", lambda rule: _rounded(rule.validation.precision)),
        _Column("(held out)", lambda rule: _rounded(rule.holdout.precision if rule.holdout else None)),
        _Column("lift (validation)", lambda rule: _rounded(rule.validation.lift)),
    ]


def _finding_columns(document: ResultDocument) -> list[_Column]:
    """The verdict and the sentence, as in the briefing; then the figures of unseen rows, if there are any."""
    searched = [
        _Column("searched rows", lambda rule: f"{rule.mined_n:,}"),
        _Column("precision (searched)", lambda rule: _rounded(rule.mined_precision)),
    ]
    unseen = [
        _Column("unseen rows", lambda rule: f"{rule.holdout.n:,}" if rule.holdout else ""),
        _Column("precision (unseen)", lambda rule: _rounded(rule.holdout.precision if rule.holdout else None)),
        _Column("95 % interval", lambda rule: _interval(rule.holdout)),
    ]
    return [
        _Column("verdict", lambda rule: VERDICTS[verdict_text(rule)].name.lower(), number=False),
        _Column("finding", lambda rule: _markdown_text(finding_sentence(rule, document.dataset)), number=False),
        *(unseen if document.dataset.parts.holdout else []),
        *searched,
        _Column("adjusted p", lambda rule: adjusted_p_text(rule).replace("<", "&lt;")),
        *([_Column("also", _markdown_also, number=False)] if any(map(also_seen_text, document.rules)) else []),
    ]


def _markdown_also(rule: RuleRecord) -> str:
    return _markdown_text((also_seen_text(rule) or "").removeprefix("also "))


def _interval(holdout: HoldoutRecord | None) -> str:
    if holdout is None or holdout.precision_low is None:
        return ""
    return f"{_rounded(holdout.precision_low)}–{_rounded(holdout.precision_high)}"


def _markdown_text(text: str) -> str:
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SIGNS.sub(r"\\\1", escaped)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
