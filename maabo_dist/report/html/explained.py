"""What the findings explain together: shares of each class, and a picture of the rows that findings share."""

from collections.abc import Sequence

from maabo_dist._util.text import format_count
from maabo_dist.contract.coverage import ClassCoverage, CoverageInfo, OverlapRecord
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.wording import class_text
from maabo_dist.report.briefing import percent
from maabo_dist.report.html.markup import COLOURS, Html, class_mark, element, joined, swatch
from maabo_dist.report.summary import split_failed

# Classes in sight; the others are folded.
MAX_CLASSES = 8
# Combinations of findings in the picture.
MAX_COMBINATIONS = 14

_LABEL, _STEP, _LINE, _BARS = 118.0, 30.0, 24.0, 92.0


def explained_section(document: ResultDocument) -> Html:
    """Return the section; nothing for a document that does not say what its rules explain."""
    coverage = document.coverage
    if coverage is None or not coverage.compared:
        return Html()
    picture = [_overlap_figure(coverage, document)] if len(coverage.compared) > 1 else []
    return element(
        "section",
        element("h2", "What they explain", id="explained-heading"),
        element("div", _classes(coverage, document), *picture, class_="together"),
        id="explained",
        aria_labelledby="explained-heading",
    )


def _classes(coverage: CoverageInfo, document: ResultDocument) -> Html:
    most = sorted(coverage.classes, key=lambda each: -each.explained)
    first = element("ul", *(_class(each, document) for each in most[:MAX_CLASSES]), class_="explained")
    rest = most[MAX_CLASSES:]
    more = []
    if rest:
        summary = element("summary", f"{len(rest):,} more classes")
        more = [
            element("details", summary, element("ul", *(_class(each, document) for each in rest), class_="explained"))
        ]
    hint = f"Of all rows of each class, those that a {document.noun} about it covers; the rest is left unexplained."
    return element("div", element("h3", "By class"), element("p", hint, class_="hint"), first, *more)


def _class(coverage: ClassCoverage, document: ResultDocument) -> Html:
    dataset = document.dataset
    own = dataset.classes.index(coverage.label)
    mark = class_mark(own, own, len(dataset.classes))
    rules = [rule.id for rule in split_failed(document)[0] if rule.label == coverage.label]
    bar = element(
        "svg",
        element("rect", x=0, y=0, width=100, height=10, class_="unexplained"),
        element("rect", x=0, y=0, width=100 * coverage.share, height=10, class_=mark),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    left = coverage.rows - coverage.explained
    names = f"{', '.join(rules[:6])}{' …' if len(rules) > 6 else ''}" if rules else f"no {document.noun}"
    return element(
        "li",
        element(
            "div",
            element("span", swatch(mark), class_text(coverage.label, dataset.classes, dataset.target), class_="name"),
            element("b", percent(coverage.share)),
            class_="explained-top",
        ),
        bar,
        element(
            "small",
            f"{coverage.explained:,} of {format_count(coverage.rows, 'row')} by {names}; {left:,} left unexplained",
        ),
    )


def _overlap_figure(coverage: CoverageInfo, document: ResultDocument) -> Html:
    return element(
        "figure",
        element("h3", f"Which {document.noun}s share rows"),
        element(
            "p",
            f"Each column is a combination of {document.noun}s (dots); its bar has the rows that exactly these cover, "
            f"by class. The column without dots is what no {document.noun} covers.",
            class_="hint",
        ),
        element(
            "div",
            _overlap_picture(coverage, document),
            class_="scroll",
            tabindex=0,
            role="group",
            aria_label=f"Overlap of {document.noun}s",
        ),
        class_="overlap",
    )


def _overlap_picture(coverage: CoverageInfo, document: ResultDocument) -> Html:
    """An UpSet plot: bars of the rows of each combination above a grid of dots."""
    overlaps, rules = coverage.overlaps[:MAX_COMBINATIONS], coverage.compared
    width, top = _LABEL + _STEP * len(overlaps) + 8, _BARS + 26
    height = top + _LINE * len(rules) + 4
    most = max(each.rows for each in overlaps)
    sizes = {name: sum(each.rows for each in coverage.overlaps if name in each.rules) for name in rules}
    widest = max(sizes.values()) or 1
    parts = [
        *(_line(number, name, sizes[name] / widest, top, width) for number, name in enumerate(rules)),
        *(_column(number, each, most, rules, document, top) for number, each in enumerate(overlaps)),
    ]
    return element(
        "svg",
        *parts,
        width=width,
        height=height,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=_overlap_text(overlaps, document.noun),
    )


def _line(number: int, name: str, share: float, top: float, width: float) -> Html:
    """A finding: its id, a bar of the rows that it covers, and a band behind its dots."""
    y = top + _LINE * number
    return joined(
        [
            element("rect", x=0, y=y, width=width, height=_LINE, class_="band" if number % 2 == 0 else "no-band"),
            element("rect", x=_LABEL - 44 - 64 * share, y=y + 7, width=64 * share, height=10, class_="size", rx=2),
            element("text", name, x=_LABEL - 12, y=y + 16, text_anchor="end", class_="ink"),
        ]
    )


def _column(
    number: int, overlap: OverlapRecord, most: int, rules: Sequence[str], document: ResultDocument, top: float
) -> Html:
    """A combination: its bar by class, its number of rows, and its dots, connected by a line."""
    x, classes = _LABEL + _STEP * (number + 0.5), document.dataset.classes
    at, bars = _BARS + 14.0, []
    for place, name in enumerate(classes):
        high = _BARS * overlap.counts.get(name, 0) / most
        if high:
            mark = class_mark(place, place, len(classes)) if len(classes) <= COLOURS else "rest"
            bars.append(element("rect", x=x - 9, y=at - high, width=18, height=high, class_=mark))
        at -= high
    count = element("text", f"{overlap.rows:,}", x=x, y=at - 5, text_anchor="middle")
    dots = [top + _LINE * (place + 0.5) for place in range(len(rules))]
    members = [y for y, name in zip(dots, rules, strict=True) if name in overlap.rules]
    absent = [element("circle", cx=x, cy=y, r=5, class_="absent") for y in dots if y not in members]
    link = [element("path", d=f"M{x:g} {members[0]:g}V{members[-1]:g}", class_="link")] if len(members) > 1 else []
    return joined(
        [*bars, count, *absent, *link, *(element("circle", cx=x, cy=y, r=5, class_="member") for y in members)]
    )


def _overlap_text(overlaps: Sequence[OverlapRecord], noun: str) -> str:
    texts = [f"{' and '.join(each.rules) or f'no {noun}'}: {format_count(each.rows, 'row')}" for each in overlaps]
    return f"Rows by the {noun}s that cover them. {'; '.join(texts)}"
