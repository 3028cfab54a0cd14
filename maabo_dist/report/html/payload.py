"""The data that the script draws from, as JSON that is safe inside an HTML page."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from maabo_dist._util.text import printable
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import conditions_text, dropped_texts, predicted_text
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.report.figures import FigureData
from maabo_dist.rules.statistics import wilson

# <, > and & could begin or end markup; the two line separators end a line of script; a lone surrogate is invalid.
_RISKY = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def payload(document: ResultDocument, figures: FigureData | None) -> str:
    """Return the JSON text for a script element."""
    dataset = document.dataset
    entries = {} if figures is None else {entry["id"]: entry for entry in figures["rules"]}
    data = {
        "classes": [printable(name) for name in dataset.classes],
        "rates": [dataset.base_rates[name] for name in dataset.classes],
        "target": printable(dataset.target),
        "parts": dataset.parts.to_json(),
        "rules": [_rule(rule, document, entries.get(rule.id)) for rule in document.rules],
        "figures": None if figures is None else _figures(figures),
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _RISKY.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _rule(rule: RuleRecord, document: ResultDocument, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    alone = document.model_copy(update={"rules": (rule,)})
    return {
        "json": rule.to_json(),
        "own": document.dataset.classes.index(rule.label),
        "if": conditions_text(rule.premise),
        "then": predicted_text(rule, document.dataset),
        "columns": sorted({printable(condition.feature) for condition in rule.conditions}),
        "sql": to_sql(alone),
        "pandas": to_pandas(alone),
        "dropped": dropped_texts(rule.dropped),
        "displaced": [predicted_text(leaf, document.dataset) for leaf in rule.displaced],
        "intervals": {part: wilson(support.counts[rule.label], support.n) for part, support in rule.supports.items()},
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
