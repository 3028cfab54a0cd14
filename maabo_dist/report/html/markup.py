"""HTML elements and small figures. Text that is not `Html` is escaped, so that names from data remain text."""

from collections.abc import Iterable
from html import escape
from math import log10

from maabo_dist._util.text import printable
from maabo_dist.contract.result import DatasetInfo, ResultDocument
from maabo_dist.report.summary import FunnelStep, funnel_steps

Attribute = str | int | float | bool | None

_VOID = frozenset({"meta", "link", "input", "br", "hr"})


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


def escape_text(text: str) -> Html:
    """Return text from data as HTML: unprintable characters are spelled out, HTML characters escaped."""
    return Html(escape(printable(text)))


def joined(parts: Iterable[str], gap: str = "") -> Html:
    """Join the parts with a gap between them; those that are not HTML are escaped."""
    return Html(_html(gap).join(map(_html, parts)))


def element(name: str, /, *content: str, **attributes: Attribute) -> Html:
    """Return an element. `class_` is the attribute class, `aria_label` aria-label; False and None omit one."""
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(start if name in _VOID else f"{start}{joined(content)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape_text(_number(value))}"'


def _number(value: str | float) -> str:
    """Lengths in figures need no more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _html(text: str) -> str:
    return text if isinstance(text, Html) else escape_text(text)


# Classes that have a colour of their own; with more, a figure highlights one of them.
COLOURS = 8


def class_mark(place: int, own: int, classes: int) -> str:
    """Return the CSS class that colours a class in a figure of a rule that predicts class `own`."""
    if classes <= COLOURS:
        return f"c{place}"
    return "c0" if place == own else "rest"


def swatch(mark: str, radius: float = 5, class_: str = "dot") -> Html:
    """A dot in the colour of a class or of a part of the rows."""
    dot = element("circle", cx=5, cy=5, r=radius, class_=mark)
    return element("svg", dot, class_=class_, viewBox="0 0 10 10", aria_hidden="true")


def base_rates(dataset: DatasetInfo) -> Html:
    """One bar of the classes' shares among the training rows, and below it the names: the legend of the page."""
    rates = [dataset.base_rates[name] or 0.0 for name in dataset.classes]
    x, parts = 0.0, []
    for place, rate in enumerate(rates):
        mark = class_mark(place, 0, len(rates)) if len(rates) <= COLOURS else "rest"
        parts.append(element("rect", x=100 * x, y=0, width=100 * rate, height=10, class_=mark))
        x += rate
    bar = element("svg", *parts, class_="rates", viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")
    names = []
    for place, name in enumerate(dataset.classes):
        dot = swatch(f"c{place}") if len(rates) <= COLOURS else Html()
        share = element("b", f"{100 * rates[place]:.1f} %")
        names.append(element("li", dot, element("span", name, class_="name"), " ", share))
    return element("div", bar, element("ul", *names, class_="legend"), class_="base-rates")


def funnel(document: ResultDocument) -> Html:
    """Show the leaves that passed each filter, as bars on a logarithmic scale; the last one is the rules."""
    longest = log10(1 + max(document.funnel.leaves, 1))
    return element("ol", *(_step(step, longest) for step in funnel_steps(document)), class_="funnel")


def _step(step: FunnelStep, longest: float) -> Html:
    length = 100 * log10(1 + step.leaves) / longest
    bar = element("rect", x=0, y=0, width=length, height=10, class_="last" if step.key == "rules" else "step")
    return element(
        "li",
        element("span", f"{step.leaves:,}", class_="count"),
        element("svg", bar, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true"),
        element(
            "span",
            joined([element("b", step.label), *([element("small", step.meaning)] if step.meaning else [])], " "),
            class_="step-name",
        ),
    )
