"""HTML put together from elements: what is not `Html` already is escaped, so that a name from data stays a name."""

from collections.abc import Iterable
from html import escape

from maabo_dist.report.wording import one_line

Attribute = str | int | float | bool | None

_VOID = frozenset({"meta", "link", "input", "br", "hr"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def shown(text: str) -> Html:
    """Text from data as HTML: signs that do not print are spelled out, signs of HTML escaped."""
    return Html(escape(one_line(text)))


def joined(parts: Iterable[str], gap: str = "") -> Html:
    """The parts one after another, with a gap between them; those that are not HTML are escaped."""
    return Html(_html(gap).join(map(_html, parts)))


def element(name: str, /, *content: str, **attributes: Attribute) -> Html:
    """An element. `class_` is the attribute class, `aria_label` aria-label; False and None leave one out."""
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(start if name in _VOID else f"{start}{joined(content)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{shown(_number(value))}"'


def _number(value: str | float) -> str:
    """Lengths in pictures need no more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _html(text: str) -> str:
    return text if isinstance(text, Html) else shown(text)
