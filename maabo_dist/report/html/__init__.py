"""The HTML report: one self-contained file, made from a document and its figure data.

It sends no requests, and its own content security policy forbids any. Header and rules are plain HTML; one script
sorts, filters and expands rules and draws the figures, from data embedded in the page.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from maabo_dist._util.text import printable
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import (
    class_text,
    condition_text,
    conditions_text,
    dropped_texts,
    predicted_text,
    stand_in_text,
)
from maabo_dist.report.briefing import compare, finding_sentence
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.report.figures import FigureData
from maabo_dist.report.html.cards import findings_section
from maabo_dist.report.html.explained import explained_section
from maabo_dist.report.html.markup import Html, element, joined
from maabo_dist.report.html.sections import header, how_section, title_text, try_section
from maabo_dist.report.html.terms import explanations
from maabo_dist.rules.statistics import wilson

__all__ = ["MODULES", "briefing_script", "briefing_style", "content_policy", "report_page"]

# The modules of the script in `assets`, each after those that it imports.
MODULES = (
    *("data", "elements", "cards", "terms", "matcher", "trial", "histograms", "tree", "detail"),
    *("precision", "similarity", "coverage", "search", "front", "page"),
)

# Findings that a report shows. Those of `--all` may be thousands; the other formats have them all.
MAX_RULES = 200

# <, > and & could begin or end markup; the two line separators end a line of script; a lone surrogate is invalid.
_RISKY = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_MODULE_SYNTAX = re.compile(r"^(import .*\n|export (?=\w))", re.MULTILINE)


def report_page(document: ResultDocument, figures: FigureData | None = None) -> str:
    """Return the page; without figure data, or with that of other rules, it has fewer figures."""
    if figures is not None and figures["digest"] != document.digest:
        figures = None
    shown = document.model_copy(update={"rules": document.rules[:MAX_RULES]})
    body = [
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        element("div", id="tools"),
        element("main", _briefing(document, shown, figures)),
        element("script", Html(_payload(shown, figures)), type="application/json", id="data"),
        element("script", Html(_script())),
    ]
    return f"<!doctype html>\n{element('html', _head(document), element('body', *body), lang='en')}\n"


def _briefing(document: ResultDocument, shown: ResultDocument, figures: FigureData | None) -> Html:
    """Everything that the page of a job shows as well."""
    return element(
        "div",
        header(document),
        findings_section(shown, omitted=len(document.rules) - len(shown.rules)),
        explained_section(document),
        try_section(shown, with_rows=bool(figures and figures.get("examples"))),
        how_section(document, {} if figures is None else figures["versions"], with_figures=figures is not None),
        explanations(),
        id="briefing",
        class_="briefing",
    )


def content_policy() -> str:
    """Return the content security policy that is part of a page; servers may send it too."""
    script, style = _hash(_script()), _hash(_style())
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _head(document: ResultDocument) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=content_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"maabo {document.version}"),
        element("link", rel="icon", href="data:,"),
        element("title", joined([title_text(document), " · ", document.dataset.name])),
        element("style", Html(_style())),
    )


@cache
def _script() -> str:
    """The modules of the script as one: without imports and exports, since all names share one scope."""
    return f'"use strict";\n(() => {{\n{_join(MODULES)}}})();\n'


def _join(modules: Sequence[str]) -> str:
    return "".join(_MODULE_SYNTAX.sub("", _asset(f"{name}.js")) for name in modules)


def briefing_script() -> str:
    """Return a module for other pages: `startReport` runs the report whose element `briefing` a page contains."""
    front = f"const briefing = (() => {{\n{_join(MODULES[:-1])}return {{ startReport }};\n}})();\n"
    return f"{front}export const startReport = briefing.startReport;\n"


def briefing_style() -> str:
    """Return the style of the element `briefing`, which affects nothing else."""
    return _asset("briefing.css")


@cache
def _style() -> str:
    return briefing_style() + _asset("report.css")


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _payload(document: ResultDocument, figures: FigureData | None) -> str:
    """The data that the script draws from, as JSON that is safe inside a page."""
    dataset = document.dataset
    entries = {} if figures is None else {entry["id"]: entry for entry in figures["rules"]}
    data = {
        "classes": [printable(name) for name in dataset.classes],
        "rates": [dataset.base_rates[name] for name in dataset.classes],
        "target": printable(dataset.target),
        "noun": document.noun,
        "class_texts": [class_text(name, dataset.classes, dataset.target) for name in dataset.classes],
        "parts": dataset.parts.to_json(),
        "rules": [_rule(rule, document, entries.get(rule.id)) for rule in document.rules],
        "figures": None if figures is None else _figures(figures),
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _RISKY.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _rule(rule: RuleRecord, document: ResultDocument, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    alone = document.model_copy(update={"rules": (rule,), "missing_classes": ()})
    return {
        "json": rule.to_json(),
        "own": document.dataset.classes.index(rule.label),
        "if": conditions_text(rule.premise),
        "conditions": [condition_text(condition) for condition in rule.premise],
        "sentence": finding_sentence(rule, document.dataset),
        "share": f"in {' '.join(compare(rule, document.dataset).share_words)}",
        "then": predicted_text(rule, document.dataset),
        "columns": sorted({printable(condition.feature) for condition in rule.conditions}),
        "sql": to_sql(alone),
        "pandas": to_pandas(alone),
        "dropped": dropped_texts(rule.dropped),
        "stand_ins": [stand_in_text(record) for record in rule.stand_ins],
        "displaced": [predicted_text(leaf, document.dataset) for leaf in rule.displaced],
        "intervals": {
            part: wilson(support.counts[rule.label], support.n, document.dataset.design_effect or 1.0)
            for part, support in rule.supports.items()
        },
        "marks": [] if entry is None else _marks(rule, entry["histograms"]),
        "tree": None if entry is None else entry["tree"],
    }


def _marks(rule: RuleRecord, histograms: Sequence[int]) -> list[dict[str, Any]]:
    """For each histogram of a rule, the text and the numbers of the conditions that it shows."""
    numbers_of: dict[int, list[int]] = {}
    for number, histogram in enumerate(histograms):
        numbers_of.setdefault(histogram, []).append(number)
    premise = rule.premise
    return [
        {"histogram": index, "text": conditions_text([premise[number] for number in numbers]), "conditions": numbers}
        for index, numbers in numbers_of.items()
    ]


def _figures(figures: FigureData) -> dict[str, Any]:
    """The figure data without what is part of the rules already, and with printable names."""
    own = {
        key: value
        for key, value in figures.items()
        if key not in {"format", "digest", "versions", "rules", "histograms"}
    }
    names = [None if name is None else printable(name) for name in figures["classes"]]
    features = [entry | {"name": printable(entry["name"])} for entry in figures["use"]["features"]]
    examples = figures.get("examples")
    if examples:
        labelled = [field | {"label": printable(field["column"])} for field in examples["fields"]]
        own["examples"] = examples | {"fields": labelled}
    return own | {
        "rule_count": len(figures["rules"]),
        "classes": names,
        "histograms": [_histogram(histogram) for histogram in figures["histograms"]],
        "use": figures["use"] | {"features": features},
    }


def _histogram(histogram: Mapping[str, Any]) -> dict[str, Any]:
    """The histogram with a printable column name and printable `labels`; conditions name the raw `levels`."""
    labels = [None if level is None else printable(level) for level in histogram.get("levels", ())]
    return {**histogram, "column": printable(histogram["column"]), "labels": labels}
