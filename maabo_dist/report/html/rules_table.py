"""The table of rules as static HTML; the script adds sorting, filtering and what a rule shows when it is opened."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maabo_dist.report.document import Document, conditions_of, predicted_text
from maabo_dist.report.html.markup import (
    Html,
    class_mark,
    counts_bar,
    counts_text,
    element,
    joined,
    precision_strip,
    swatch,
)
from maabo_dist.report.summary import no_rules_reason, returns_text
from maabo_dist.report.wording import ALWAYS, condition_texts
from maabo_dist.rules.statistics import wilson

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: `key` is what the script sorts by."""

    key: str
    label: str
    hint: str = ""
    """Below the label."""
    number: bool = True


def rules_section(document: Document) -> Html:
    """Heading, a place for the filters, and the table; or why there are no rules."""
    heading = element("h2", "Rules", id="rules-heading")
    if not document["rules"]:
        return _section(
            heading, element("p", element("b", "No rules."), " ", no_rules_reason(document), class_="empty")
        )
    return _section(
        heading,
        element(
            "p",
            "In the order in which they were chosen: pure first, then unlike those before. ",
            element("span", "Open one for its evidence. ", class_="scripted"),
            _lines_key(document),
            class_="hint",
        ),
        element("form", id="filters", class_="filters", hidden=True, role="search", aria_label="Filter the rules"),
        element("p", id="shown", class_="hint", role="status"),
        element(
            "table", _head(document), *_bodies(document), class_="rules", aria_labelledby="rules-heading", role="table"
        ),
    )


def columns(document: Document) -> list[Column]:
    """Those that this document fills."""
    tested, repeated = _tested(document), bool(document.get("repeats"))
    last = "held out" if tested else "validation"
    return [
        Column("order", "Rule", number=False),
        Column("text", "If … then", number=False),
        Column("purity", "Classes", "training", number=False),
        Column("n", "n", "training"),
        Column("gini", "Gini"),
        Column("train", "Precision", "training"),
        Column("validation", "Precision", "validation"),
        *([Column("holdout", "Precision", "held out")] if tested else []),
        Column("strip", "0 – 1", number=False),
        Column("lift", "Lift", last),
        *([Column("q", "q", "held out")] if tested else []),
        Column("unique", "Unique", "rows"),
        *([Column("stability", "Comes back")] if repeated else []),
    ]


def _section(*content: Html) -> Html:
    return element("section", *content, id="rules", aria_labelledby="rules-heading")


def _lines_key(document: Document) -> Html:
    """What the dots on the lines of precision are."""
    parts = [_key("train", "training"), _key("validation", "validation")]
    held = [_key("holdout", "held out with its 95 % interval")] if _tested(document) else []
    said = joined(["On the lines: ", joined([*parts, *held], ", "), "; the tick is the base rate."])
    return element("span", said, class_="lines")


def _key(part: str, label: str) -> Html:
    dot = element("circle", cx=5, cy=5, r=3.5, class_=part)
    picture = element("svg", dot, class_="dot strip-key", viewBox="0 0 10 10", aria_hidden="true")
    return element("span", picture, label, class_="key")


def _tested(document: Document) -> bool:
    return bool(document["dataset"]["parts"]["holdout"])


def _head(document: Document) -> Html:
    cells = (
        element(
            "th",
            element("span", column.label),
            *([" ", element("small", column.hint)] if column.hint else []),
            scope="col",
            role="columnheader",
            data_key=column.key,
            class_="number" if column.number else None,
        )
        for column in columns(document)
    )
    return element("thead", element("tr", *cells, role="row"), role="rowgroup")


def _bodies(document: Document) -> Iterator[Html]:
    """A body a rule: what is opened stays with it when rules are sorted."""
    for rule in document["rules"]:
        row = element("tr", *_cells(rule, document), role="row", class_="rule")
        yield element("tbody", row, id=rule["id"], role="rowgroup")


def _cells(rule: Mapping[str, Any], document: Document) -> Iterator[Html]:
    values = _values(rule, document)
    for column in columns(document):
        name = "th" if column.key == "order" else "td"
        yield element(
            name,
            values[column.key],
            role="rowheader" if name == "th" else "cell",
            scope="row" if name == "th" else None,
            class_=f"{column.key} number" if column.number else column.key,
            data_label=f"{column.label} {column.hint}".strip(),
        )


def _values(rule: Mapping[str, Any], document: Document) -> dict[str, str]:
    names = document["dataset"]["classes"]
    own, held, validation = names.index(rule["class"]), rule["holdout"], rule["validation"]
    counts = [rule["counts"][name] for name in names]
    return {
        "order": rule["id"],
        "text": sentence(rule, document),
        "purity": joined([counts_bar(counts, own), element("span", counts_text(rule["counts"]), class_="tally")]),
        "n": f"{rule['n']:,}",
        "gini": f"{rule['gini']:.3f}",
        "train": _precision(rule["train"], rule["class"], with_interval=False),
        "validation": _precision(validation, rule["class"], with_interval=held is None),
        "holdout": _precision(held, rule["class"]) if held else NOTHING,
        "strip": _strip(rule, document),
        "lift": _two_digits((held or validation)["lift"]),
        "q": _q(held),
        "unique": f"{rule['unique']:,}",
        "stability": returns_text(rule["stability"]) if rule.get("stability") else NOTHING,
    }


def sentence(rule: Mapping[str, Any], document: Document) -> Html:
    """IF … AND … THEN …, each condition unbroken where there is room."""
    names = document["dataset"]["classes"]
    parts = condition_texts(conditions_of(rule)) or [ALWAYS]
    own = names.index(rule["class"])
    mark = class_mark(own, own, len(names))
    words = [
        joined([element("i", "and" if place else "if"), " ", element("span", part)]) for place, part in enumerate(parts)
    ]
    then = element("b", swatch(mark), predicted_text(rule, document), class_="then")
    return joined([*words, joined([element("i", "then"), " ", then])], " ")


def _precision(part: Mapping[str, Any], name: str, *, with_interval: bool = True) -> Html:
    value = element("span", _two_digits(part["precision"]))
    low, high = wilson(part["counts"][name], part["n"])
    if not with_interval or low is None or high is None:
        return value
    return joined([value, element("small", f"{low:.2f}–{high:.2f}")], " ")


def _strip(rule: Mapping[str, Any], document: Document) -> Html:
    held = rule["holdout"]
    parts = {part: rule[part]["precision"] for part in ("train", "validation", "holdout") if rule[part]}
    low, high = wilson(held["counts"][rule["class"]], held["n"]) if held else (None, None)
    interval = None if low is None or high is None else (low, high)
    return precision_strip(parts, interval, document["dataset"]["base_rates"][rule["class"]] or 0.0)


def _q(held: Mapping[str, Any] | None) -> Html:
    if not held:
        return Html(NOTHING)
    text = "< 0.001" if held["q"] < 0.001 else f"{held['q']:.3f}"
    # A rule that chance explains as well is what should catch the eye.
    return element("span", text, class_="weak" if held["q"] > 0.05 else None)


def _two_digits(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
