"""Rules in a notebook: a small HTML table with its styles in attributes, for light and dark pages.

Text and lines have the colour of the page (`currentColor`); names from data are escaped, and there is no script.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from maabo_dist.contract.wording import ALWAYS, class_text, condition_texts
from maabo_dist.report.html.markup import Html, element, joined
from maabo_dist.report.summary import two_decimals
from maabo_dist.rules.rule import Rule, rule_text

# Rules shown in the table.
MAX_ROWS = 25

_CELL = "text-align:left;vertical-align:top;padding:.3em .9em .3em 0;background:none"
_LINE = "border:0;border-bottom:1px solid color-mix(in srgb, currentColor 22%, transparent)"
_SOFT = "opacity:.72"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MinedRule(Rule):
    """A rule with the names of its classes, which it shows in its text; equal to the same rule without them."""

    classes: tuple[str, ...]
    target: str

    @classmethod
    def of(cls, rule: Rule, classes: tuple[str, ...], target: str) -> "MinedRule":
        """Add the names to a rule."""
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
    """Return a title and the table of the rules, or `otherwise` if there are none."""
    heading = element("p", element("b", title), style="margin:0 0 .5em")
    hidden = len(rules) - MAX_ROWS
    more = f"… and {hidden:,} more: get_rules() has them all." if hidden > 0 else ""
    parts = [rules_table(rules[:MAX_ROWS])] if rules else [element("p", otherwise)]
    tail = [element("p", more, style=f"margin:.5em 0 0;{_SOFT}")] if more else []
    return element("div", heading, *parts, *tail, style="color:inherit")


def rules_table(rules: Sequence[MinedRule]) -> Html:
    """Return a table with a row for each rule."""
    last = "held out" if any(rule.holdout for rule in rules) else "validation"
    way = "training → validation" + (" → held out" if last == "held out" else "")
    heads = [("", ""), ("If … then", ""), ("n", "training"), ("Precision", way), ("Lift", last)]
    return element(
        "table",
        element("thead", element("tr", *(_head(*head, number=index > 1) for index, head in enumerate(heads)))),
        element("tbody", *(_row(rule) for rule in rules)),
        style="border-collapse:collapse;color:inherit;background:none;border:0;font-size:inherit",
    )


def _head(label: str, hint: str, *, number: bool) -> Html:
    content = joined(
        [label, *([element("div", hint, style=f"font-weight:normal;font-size:.85em;{_SOFT}")] if hint else [])]
    )
    return element("th", content, scope="col", style=f"{_CELL};{_LINE}{f';{_NUMBER}' if number else ''}")


def _row(rule: MinedRule) -> Html:
    lift = (rule.holdout or rule.validation).lift
    supports = [rule.train, rule.validation, *([rule.holdout] if rule.holdout else [])]
    precision = " → ".join(two_decimals(support.precision) for support in supports)
    return element(
        "tr",
        element("th", rule.id, scope="row", style=f"{_CELL};{_LINE};font-weight:normal;{_SOFT}"),
        element(
            "td", _sentence(rule), style=f"{_CELL};{_LINE};max-width:42em;white-space:normal;overflow-wrap:anywhere"
        ),
        *(
            element("td", text, style=f"{_CELL};{_LINE};{_NUMBER}")
            for text in (f"{rule.n:,}", precision, two_decimals(lift))
        ),
        style="background:none",
    )


def _sentence(rule: MinedRule) -> Html:
    words = condition_texts(rule.conditions) or [ALWAYS]
    then = element("b", class_text(rule.classes[rule.label], rule.classes, rule.target))
    texts = [joined([_small("and" if index else "if"), " ", word]) for index, word in enumerate(words)]
    return joined([*texts, joined([_small("then"), " ", then])], " ")


def _small(word: str) -> Html:
    return element("span", word, style=_SOFT)


def _plain(rule: Rule) -> dict[str, Any]:
    return {field.name: getattr(rule, field.name) for field in fields(Rule)}
