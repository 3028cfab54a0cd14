"""Technical terms and verdicts as buttons that explain themselves in a popover; they work without a script."""

from typing import NamedTuple

from maabo_dist.report.briefing import VERDICTS
from maabo_dist.report.html.markup import Html, element

# Shown beside the name of a verdict, so that it does not depend on its colour.
_SIGNS = {"Held up": "✓", "Weaker": "↘", "Failed": "✕", "Not tested": "–", "Tentative": "~"}


class Explanation(NamedTuple):
    """The full name of a term, and what it means."""

    title: str
    text: str


TERMS = {
    "interval": Explanation(
        "95 % interval",
        "The rows are a sample. If more rows like these were drawn, the true share would lie in the 95 % interval "
        "(by Wilson's formula) for about 19 of 20 samples. Few rows make it wide.",
    ),
    "precision": Explanation(
        "Precision",
        "Of the rows that fit all conditions, the share that has the class of the finding. 1.00 is every row.",
    ),
    "recall": Explanation(
        "Recall",
        "Of the rows of the class, the share that fits all conditions: how much one finding explains.",
    ),
    "lift": Explanation(
        "Lift",
        "Precision divided by the usual share of the class. At 2, the class is twice as frequent under these "
        "conditions as among all rows; at 1 they make no difference.",
    ),
    "adjusted-p": Explanation(
        "Adjusted p-value",
        "The probability that chance alone would give any rule of the whole search as much evidence as this one has. "
        "It accounts for every rule that the search compared.",
    ),
    "certificate": Explanation(
        "Certificate",
        "A finding is certified if its adjusted p-value is small enough, by a bound on the number of possible rules "
        "or by repeating the search on shuffled labels. It says that the pattern is real, not that it is a cause.",
    ),
    "q": Explanation(
        "q-value",
        "The p-value of the test on held-out rows, corrected for the number of rules that were tested. Among rules "
        "with q below 0.05, at most some 5 % are expected to be false.",
    ),
    "gini": Explanation(
        "Gini index",
        "How mixed the classes are among the rows that fit: 0 if all have the same class, larger the more they are "
        "mixed. Trees choose their splits by it, with classes weighted equally.",
    ),
    "f1": Explanation(
        "Macro F1",
        "How well a tree predicts the validation rows: precision and recall of each class combined, averaged over "
        "the classes. 1 is perfect. The search prefers feature subsets with a high F1.",
    ),
    "space": Explanation(
        "Search space",
        "Every subset of the features that a tree may use. D is the number of features, D′ how many one tree uses, "
        "and |Ω| how many such subsets there are.",
    ),
    "digest": Explanation(
        "Digest",
        "A fingerprint of the rules (SHA-256). The same table, settings and seed give the same rules and the same "
        "digest on every machine.",
    ),
    "seed": Explanation(
        "Seed", "The number that all random draws are derived from. The same seed repeats the run exactly."
    ),
    "leaves": Explanation(
        "Leaves",
        "Where a decision tree ends. The path to a leaf is a rule: all conditions on the way, and its most "
        "favoured class.",
    ),
    "unique": Explanation("Only here", "Training rows that this finding covers and no other one does."),
}


def term(key: str, text: str) -> Html:
    """A term, which opens its explanation."""
    return element("button", text, type="button", class_="term", popovertarget=f"about-{key}")


def verdict_badge(verdict: str) -> Html:
    """The name of a verdict, which opens its meaning."""
    name = VERDICTS[verdict].name
    key = _key(name)
    sign = element("span", _SIGNS[name], aria_hidden="true")
    return element("button", sign, name, type="button", class_=f"badge {key}", popovertarget=f"about-{key}")


def explanations() -> Html:
    """The popovers that the buttons open, each once on a page."""
    verdicts = [_popover(_key(words.name), words.name, words.meaning) for words in VERDICTS.values()]
    return element("div", *verdicts, *(_popover(key, *texts) for key, texts in TERMS.items()), id="explanations")


def _key(name: str) -> str:
    return name.lower().replace(" ", "-")


def _popover(key: str, title: str, text: str) -> Html:
    return element("div", element("b", title), element("p", text), popover="auto", id=f"about-{key}", class_="about")
