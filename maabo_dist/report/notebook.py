"""How rules show in a notebook: a small table of HTML with its styles in attributes, on light and on dark pages.

Ink and lines are the page's own (`currentColor`); names from data are escaped, and there is no script.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from maabo_dist.report.html.markup import Html, element, joined
from maabo_dist.report.wording import ALWAYS, class_text, condition_texts, rule_text
from maabo_dist.rules.rule import Rule

MOST_ROWS = 25
"""Rules that a table in a notebook shows."""

_CELL = "text-align:left;vertical-align:top;padding:.3em .9em .3em 0;background:none"
_LINE = "border:0;border-bottom:1px solid color-mix(in srgb, currentColor 22%, transparent)"
_SOFT = "opacity:.72"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MinedRule(Rule):
    """A rule that knows the names of its classes, and so can tell itself; equal to the same rule without them."""

    classes: tuple[str, ...]
    target: str

    @classmethod
    def of(cls, rule: Rule, classes: tuple[str, ...], target: str) -> "MinedRule":
        """The rule, with names."""
        return cls(**_plain(rule), classes=classes, target=target)

    @property
    def text(self) -> str:
        """The rule as a sentence: `IF sex = female AND fare > 48.2 THEN survived = 1`."""
        return rule_text(self, self.classes, self.target)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Rule) else NotImplemented

    __hash__ = Rule.__hash__

    def _repr_html_(self) -> str:
        return rules_table([self])


def rules_html(rules: Sequence[MinedRule], title: str, otherwise: str) -> str:
    """A title and the table of the rules; where there are none, why not."""
    heading = element("p", element("b", title), style="margin:0 0 .5em")
    shown = rules[:MOST_ROWS]
    more = f"… and {len(rules) - len(shown):,} more: get_rules() has them all." if len(shown) < len(rules) else ""
    parts = [rules_table(shown)] if rules else [element("p", otherwise)]
    tail = [element("p", more, style=f"margin:.5em 0 0;{_SOFT}")] if more else []
    return element("div", heading, *parts, *tail, style="color:inherit")


def rules_table(rules: Sequence[MinedRule]) -> Html:
    """A row a rule."""
    last = "held out" if any(rule.holdout for rule in rules) else "validation"
    way = "training → validation" + (" → held out" if last == "held out" else "")
    heads = [("", ""), ("If … then", ""), ("n", "training"), ("Precision", way), ("Lift", last)]
    return element(
        "table",
        element("thead", element("tr", *(_head(*head, number=place > 1) for place, head in enumerate(heads)))),
        element("tbody", *(_row(rule) for rule in rules)),
        style="border-collapse:collapse;color:inherit;background:none;border:0;font-size:inherit",
    )


def _head(label: str, hint: str, *, number: bool) -> Html:
    said = joined(
        [label, *([element("div", hint, style=f"font-weight:normal;font-size:.85em;{_SOFT}")] if hint else [])]
    )
    return element("th", said, scope="col", style=f"{_CELL};{_LINE}{f';{_NUMBER}' if number else ''}")


def _row(rule: MinedRule) -> Html:
    lift = (rule.holdout or rule.validation).lift
    precision = " → ".join(_two(value) for value in _precisions(rule))
    return element(
        "tr",
        element("th", rule.id, scope="row", style=f"{_CELL};{_LINE};font-weight:normal;{_SOFT}"),
        element(
            "td", _sentence(rule), style=f"{_CELL};{_LINE};max-width:42em;white-space:normal;overflow-wrap:anywhere"
        ),
        *(element("td", text, style=f"{_CELL};{_LINE};{_NUMBER}") for text in (f"{rule.n:,}", precision, _two(lift))),
        style="background:none",
    )


def _sentence(rule: MinedRule) -> Html:
    words = condition_texts(rule.conditions) or [ALWAYS]
    then = element("b", class_text(rule.classes[rule.label], rule.classes, rule.target))
    said = [joined([_small("and" if place else "if"), " ", word]) for place, word in enumerate(words)]
    return joined([*said, joined([_small("then"), " ", then])], " ")


def _small(word: str) -> Html:
    return element("span", word, style=_SOFT)


def _precisions(rule: Rule) -> Iterator[float | None]:
    yield rule.train.precision
    yield rule.validation.precision
    if rule.holdout is not None:
        yield rule.holdout.precision


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _plain(rule: Rule) -> dict[str, Any]:
    return {field.name: getattr(rule, field.name) for field in fields(Rule)}
