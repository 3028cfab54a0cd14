"""The findings as cards: a sentence, a picture of its comparison, a verdict, and other wordings."""

from collections.abc import Sequence

from maabo_dist._util.text import format_count
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import condition_texts, predicted_text, stand_in_text
from maabo_dist.report.briefing import VERDICTS, Comparison, compare, covered_text, of_hundred, useful_order
from maabo_dist.report.html.markup import Html, class_mark, element, joined, swatch
from maabo_dist.report.html.terms import term, verdict_badge
from maabo_dist.report.summary import (
    FAILED_HEADING,
    no_rules_texts,
    p_value_text,
    returns_text,
    split_failed,
    verdict_text,
)

# Other wordings that a card lists; the evidence of the finding has them all.
MAX_WORDINGS = 5
_WIDTH, _TRACK, _HEIGHT = 356.0, 236.0, 44.0


def findings_section(document: ResultDocument, omitted: int = 0) -> Html:
    """Return the cards, those that failed apart from the others; or the reason why there are none.

    `omitted` is the number of findings that have no card.
    """
    more = f"{omitted:,} more {document.noun}{'' if omitted == 1 else 's'}: CSV and JSON have them all."
    reasons = [element("p", reason, class_="empty") for _, reason in no_rules_texts(document)]
    missing = [element("p", record.text, class_="missing") for record in document.missing_classes]
    cards = element("div", *(_card(rule, document) for rule in useful_order(document)), id="cards", class_="cards")
    return element(
        "section",
        element("h2", f"{document.noun.capitalize()}s", id="findings-heading", class_="quiet"),
        element("form", id="filters", class_="filters", hidden=True, role="search", aria_label="Filter the findings"),
        element("p", id="filter-status", class_="hint", role="status"),
        *([cards] if document.rules else []),
        *reasons,
        *([element("p", more, class_="hint")] if omitted else []),
        *missing,
        *_failed(document),
        id="findings",
        aria_labelledby="findings-heading",
    )


def _failed(document: ResultDocument) -> list[Html]:
    failed = split_failed(document)[1]
    if not failed:
        return []
    cards = (_card(rule, document) for rule in failed)
    return [
        element("h2", FAILED_HEADING, id="failed-heading"),
        element("p", "They passed every test on the rows that were searched, and failed on others.", class_="hint"),
        element("div", *cards, id="failed", class_="cards"),
    ]


def _card(rule: RuleRecord, document: ResultDocument) -> Html:
    comparison = compare(rule, document.dataset)
    top = element(
        "div",
        element("a", rule.id, href=f"#{rule.id}", class_="finding-id", aria_label=f"Link to {rule.id}"),
        *([verdict_badge(verdict_text(rule))] if document.lists_findings else []),
        *([element("span", f"comes back {returns_text(rule.stability)}", class_="tag")] if rule.stability else []),
        class_="finding-top",
    )
    return element(
        "article",
        top,
        element("h3", sentence(rule, comparison, document.dataset), class_="sentence", id=f"{rule.id}-sentence"),
        _comparison(rule, comparison, document.dataset),
        element(
            "div",
            element("p", covered_text(rule, document), *_adjusted_p(rule), class_="covered"),
            *_also(rule),
            class_="finding-more",
        ),
        element("div", class_="finding-tools scripted"),
        id=rule.id,
        class_=f"finding {_verdict_class(rule, document)}",
        aria_labelledby=f"{rule.id}-sentence",
    )


def _adjusted_p(rule: RuleRecord) -> list[str]:
    if rule.certificate is None:
        return []
    p = rule.certificate.p
    return [" · ", term("adjusted-p", "adjusted p"), f" {'' if p < 0.001 else '= '}{p_value_text(p)}"]


def _verdict_class(rule: RuleRecord, document: ResultDocument) -> str:
    return VERDICTS[verdict_text(rule)].name.lower().replace(" ", "-") if document.lists_findings else "rule"


def sentence(rule: RuleRecord, comparison: Comparison, dataset: DatasetInfo) -> Html:
    """The sentence of `finding_sentence`, with its parts marked: each condition unbroken where there is room."""
    conditions = [element("span", text, class_="condition") for text in condition_texts(rule.premise)]
    own = dataset.classes.index(rule.label)
    mark = swatch(class_mark(own, own, len(dataset.classes)))
    then = element("span", mark, predicted_text(rule, dataset), class_="then")
    share, noun = comparison.share_words
    opening = joined([element("b", f"{share[0].upper()}{share[1:]}"), " ", noun])
    premise = joined([" with ", joined(conditions, " and ")]) if conditions else ""
    return joined([opening, premise, " have ", then, "; usually ", element("b", of_hundred(comparison.base)), "."])


def _also(rule: RuleRecord) -> list[Html]:
    """Other wordings of the finding, folded."""
    total = max(rule.displaced_total, len(rule.stand_ins))
    if not rule.certificate or not total:
        return []
    texts: Sequence[str] = [*map(stand_in_text, rule.stand_ins), *(leaf.text for leaf in rule.displaced)]
    items = [element("li", text) for text in texts[:MAX_WORDINGS]]
    if len(texts) > MAX_WORDINGS or total > len(texts):
        items.append(element("li", "The evidence lists more.", class_="more"))
    summary = element("summary", f"Also seen as {format_count(total, 'other rule')} on nearly the same rows")
    return [element("details", summary, element("ul", *items), class_="also")]


def _comparison(rule: RuleRecord, comparison: Comparison, dataset: DatasetInfo) -> Html:
    """The share of the class where the rule holds, with its interval, above its usual share."""
    return element(
        "figure",
        _picture(comparison, class_mark((own := dataset.classes.index(rule.label)), own, len(dataset.classes))),
        element("figcaption", *_basis(comparison)),
        class_="comparison",
    )


def _picture(comparison: Comparison, mark: str) -> Html:
    share, usual = comparison.label, of_hundred(comparison.base)
    label = (
        f"{share} with these conditions, 95 % interval {comparison.low:.2f} to {comparison.high:.2f}; usually {usual}"
    )
    low, high = _at(comparison.low), _at(comparison.high)
    dots = []
    if comparison.unseen and comparison.mined is not None:
        dots.append(element("circle", cx=_at(comparison.mined), cy=13, r=3.5, class_="searched"))
    return element(
        "svg",
        element("rect", x=0, y=4, width=_TRACK, height=18, rx=3, class_="track"),
        element("rect", x=0, y=4, width=_at(comparison.share), height=18, rx=3, class_=mark),
        element("path", d=f"M{low:.1f} 13H{high:.1f}M{low:.1f} 8V18M{high:.1f} 8V18", class_="interval-edge"),
        element("path", d=f"M{low:.1f} 13H{high:.1f}M{low:.1f} 8V18M{high:.1f} 8V18", class_="interval"),
        *dots,
        element("text", _short(share), x=_TRACK + 10, y=18, class_="share"),
        element("rect", x=0, y=30, width=_TRACK, height=10, rx=3, class_="track"),
        element("rect", x=0, y=30, width=_at(comparison.base), height=10, rx=3, class_="usual"),
        element("text", f"{_short(usual)} usually", x=_TRACK + 10, y=39, class_="usually"),
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=label,
    )


def _at(share: float) -> float:
    return _TRACK * share


def _short(text: str) -> str:
    """`more than 99 of 100` becomes `> 99 of 100`, for which there is room."""
    return text.replace("more than ", "> ").replace("fewer than ", "< ")


def _basis(comparison: Comparison) -> list[str]:
    """The rows that the picture is about, and its interval in numbers."""
    rows = format_count(comparison.rows, "row")
    which = f"On {rows} the search never saw; " if comparison.unseen else f"On the {rows} that were searched; "
    low, high = round(100 * comparison.low), round(100 * comparison.high)
    texts = [which, term("interval", "95 % interval"), " ", element("span", f"{low}–{high}.", class_="unbroken")]
    if comparison.unseen and comparison.mined is not None:
        texts.append(f" Among searched rows: {round(100 * comparison.mined)} (circle).")
    if not comparison.is_clear:
        texts.append(" The interval includes the usual share.")
    return texts
