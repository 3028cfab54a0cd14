"""The table of rules as static HTML; the script adds sorting, filtering and the details of a rule."""

from collections.abc import Iterator
from dataclasses import dataclass

from maabo_dist._util.text import format_count
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import HoldoutRecord, RuleRecord, SupportRecord, Verdict
from maabo_dist.contract.wording import ALWAYS, condition_texts, predicted_text
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
from maabo_dist.report.summary import (
    FAILED_HEADING,
    TENTATIVE,
    adjusted_p_text,
    also_seen_text,
    no_rules_texts,
    returns_text,
    split_failed,
    two_decimals,
    verdict_text,
)
from maabo_dist.rules.statistics import wilson

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; the script sorts by its `key`."""

    key: str
    label: str
    # Below the label.
    hint: str = ""
    number: bool = True


def rules_section(document: ResultDocument) -> Html:
    """Return heading, container of the filters and table; or the reason why there are no rules."""
    heading = element("h2", "Rules", id="rules-heading")
    content = [
        element("p", element("b", title), " ", reason, class_="empty") for title, reason in no_rules_texts(document)
    ]
    if document.rules:
        hint = (
            _order_text(document),
            element("span", "Select a rule to see its evidence. ", class_="scripted"),
            _lines_key(document),
        )
        passed, failed = split_failed(document)
        bodies = [
            *(_body(rule, document) for rule in passed),
            *([_failed_heading(document)] if failed else []),
            *(_body(rule, document) for rule in failed),
        ]
        content = [
            element("p", *hint, class_="hint"),
            element("form", id="filters", class_="filters", hidden=True, role="search", aria_label="Filter the rules"),
            element("p", id="filter-status", class_="hint", role="status"),
            element("table", _head(document), *bodies, class_="rules", aria_labelledby="rules-heading", role="table"),
        ]
    missing = [element("p", record.text, class_="missing") for record in document.missing_classes]
    return element("section", heading, *content, *missing, id="rules", aria_labelledby="rules-heading")


def _order_text(document: ResultDocument) -> str:
    if document.lists_findings:
        return "The strongest first; each explains rows that those before it do not. "
    return "In the order of selection: the purest first, each dissimilar to those before it. "


def _body(rule: RuleRecord, document: ResultDocument) -> Html:
    """A table body for each rule, so that its details stay with it when rules are sorted."""
    row = element("tr", *_cells(rule, document), role="row", class_="rule")
    return element("tbody", row, id=rule.id, role="rowgroup")


def _failed_heading(document: ResultDocument) -> Html:
    """A table body between the findings and those that failed on held-out rows."""
    heading = element("th", FAILED_HEADING, scope="rowgroup", role="rowheader", colspan=len(columns(document)))
    return element("tbody", element("tr", heading, role="row"), class_="heading", role="rowgroup")


def columns(document: ResultDocument) -> list[Column]:
    """Return the columns for which this document has values."""
    tested, repeated, findings = _tested(document), document.repeats is not None, document.lists_findings
    last = "held out" if tested else "validation"
    return [
        Column("order", "Rule", number=False),
        Column("text", "If … then", number=False),
        *([Column("verdict", "Verdict", "unseen rows", number=False)] if findings else []),
        Column("purity", "Classes", "training", number=False),
        Column("n", "n", "training"),
        *([] if findings else [Column("gini", "Gini")]),
        Column("train", "Precision", "training"),
        Column("validation", "Precision", "validation"),
        *([Column("holdout", "Precision", "held out")] if tested else []),
        Column("strip", "0 – 1", number=False),
        Column("lift", "Lift", last),
        *([Column("q", "q", "held out")] if tested and not findings else []),
        *([Column("p", "p", "adjusted")] if findings else []),
        Column("unique", "Unique", "rows"),
        *([Column("stability", "Comes back")] if repeated else []),
    ]


def _lines_key(document: ResultDocument) -> Html:
    """The legend of the dots on the lines of precision."""
    parts = [_key("train", "training"), _key("validation", "validation")]
    holdout = [_key("holdout", "held out with its 95 % interval")] if _tested(document) else []
    text = joined(["On the lines: ", joined([*parts, *holdout], ", "), "; the tick is the base rate."])
    return element("span", text, class_="lines")


def _key(part: str, label: str) -> Html:
    return element("span", swatch(part, 3.5, "dot strip-key"), label, class_="key")


def _tested(document: ResultDocument) -> bool:
    return document.dataset.parts.holdout > 0


def _head(document: ResultDocument) -> Html:
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


def _cells(rule: RuleRecord, document: ResultDocument) -> Iterator[Html]:
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


def _values(rule: RuleRecord, document: ResultDocument) -> dict[str, str]:
    classes, holdout, effect = document.dataset.classes, rule.holdout, document.dataset.design_effect or 1.0
    bar = counts_bar([rule.counts[name] for name in classes], classes.index(rule.label))
    return {
        "order": rule.id,
        "text": joined([sentence(rule, document.dataset), *_also(rule)]),
        "verdict": _verdict(rule),
        "purity": joined([bar, element("span", counts_text(rule.counts), class_="tally")]),
        "n": f"{rule.n:,}",
        "gini": f"{rule.gini:.3f}",
        "train": _precision(rule.train, rule.label),
        "validation": _precision(rule.validation, rule.label, None if holdout else effect),
        "holdout": _precision(holdout, rule.label, effect) if holdout else NOTHING,
        "strip": precision_strip(rule, document.dataset.base_rates[rule.label] or 0.0),
        "lift": two_decimals(rule.best_evidence.lift),
        "q": _q(holdout),
        "p": adjusted_p_text(rule),
        "unique": f"{rule.unique:,}",
        "stability": returns_text(rule.stability),
    }


def _also(rule: RuleRecord) -> list[Html]:
    """Other wordings, in a line below the sentence."""
    text = also_seen_text(rule)
    return [] if text is None else [element("small", text, class_="also")]


def sentence(rule: RuleRecord, dataset: DatasetInfo) -> Html:
    """IF … AND … THEN …, each condition unbroken where there is room."""
    texts = condition_texts(rule.premise) or [ALWAYS]
    own = dataset.classes.index(rule.label)
    words = [
        joined([element("i", "and" if number else "if"), " ", element("span", text)])
        for number, text in enumerate(texts)
    ]
    mark = swatch(class_mark(own, own, len(dataset.classes)))
    then = element("b", mark, predicted_text(rule, dataset), class_="then")
    return joined([*words, joined([element("i", "then"), " ", then])], " ")


def _precision(support: SupportRecord, label: str, effect: float | None = None) -> Html:
    """The precision, and its interval if the design effect is given."""
    value = element("span", two_decimals(support.precision))
    low, high = (None, None) if effect is None else wilson(support.counts[label], support.n, effect)
    if low is None or high is None:
        return value
    return joined([value, element("small", f"{low:.2f}–{high:.2f}")], " ")


def _verdict(rule: RuleRecord) -> Html:
    weak = rule.verdict in {Verdict.WEAKER, Verdict.FAILED}
    text = verdict_text(rule)
    explained = TENTATIVE if text == "tentative" else None
    verdict = element("span", text, class_="weak" if weak else None, title=explained)
    if not rule.holdout or not rule.holdout.n:
        return verdict
    return joined([verdict, element("small", f"on {format_count(rule.holdout.n, 'row')}")], " ")


def _q(holdout: HoldoutRecord | None) -> Html:
    if holdout is None or holdout.q is None:
        return Html(NOTHING)
    text = "< 0.001" if holdout.q < 0.001 else f"{holdout.q:.3f}"
    # Highlight a rule that chance explains equally well.
    return element("span", text, class_="weak" if holdout.q > 0.05 else None)
