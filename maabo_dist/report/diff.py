"""The differences between the rules of two result documents.

    same class and conditions           in both: `same`, or `changed` where the evidence differs
    same key, other thresholds          `moved`
    all others                          only in one of them, with the most similar rule of the other

The key of a rule (`RuleKey`) holds neither thresholds nor `or_missing`. The similarity of two rules is the Simpson
coefficient of the literals of their keys: the share of the smaller set that is in the other one.
"""

from collections.abc import Callable, Hashable, Sequence
from math import log1p
from typing import Any

from maabo_dist.contract.conditions import Literal
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord

# Below this, no rule is named as similar.
MIN_SIMILARITY = 0.5

_EVIDENCE = ("n", "gini", "unique")
_SUPPORT = {"n", "precision", "lift"}
_PARTS = ("train", "validation", "holdout")


def diff_documents(one: ResultDocument, other: ResultDocument) -> dict[str, Any]:
    """Compare the rules of two documents; the result is plain JSON values."""
    same, left, right = _pair_up(
        one.rules, other.rules, lambda rule: (rule.label, frozenset(rule.premise)), lambda *_: 0.0
    )
    moved, left, right = _pair_up(left, right, lambda rule: rule.key, _distance)
    changed = [pair for pair in same if _evidence(pair[0]) != _evidence(pair[1])]
    return {
        "one": _document_entry(one),
        "other": _document_entry(other),
        "equal": one.digest == other.digest,
        "same": len(same) - len(changed),
        "changed": [_pair_entry(*pair) for pair in changed],
        "moved": [_pair_entry(*pair) for pair in moved],
        "only_in_one": _unpaired_entries(left, other.rules),
        "only_in_other": _unpaired_entries(right, one.rules),
    }


def simpson(one: frozenset[Literal], other: frozenset[Literal]) -> float:
    """Return the share of the smaller set that is in the other one; an empty set is in every set."""
    smaller = min(len(one), len(other))
    return len(one & other) / smaller if smaller else 1.0


def _pair_up(
    one: Sequence[RuleRecord],
    other: Sequence[RuleRecord],
    key: Callable[[RuleRecord], Hashable],
    distance: Callable[[RuleRecord, RuleRecord], float],
) -> tuple[list[tuple[RuleRecord, RuleRecord]], list[RuleRecord], list[RuleRecord]]:
    """Pair rules of equal key, the closest first; return the pairs and the unpaired rules of either side."""
    by_key: dict[Hashable, list[int]] = {}
    for index, rule in enumerate(other):
        by_key.setdefault(key(rule), []).append(index)
    candidates = [
        (distance(rule, other[index]), number, index)
        for number, rule in enumerate(one)
        for index in by_key.get(key(rule), [])
    ]
    partner: dict[int, int] = {}
    used: set[int] = set()
    for _, number, index in sorted(candidates):
        if number not in partner and index not in used:
            partner[number] = index
            used.add(index)
    return (
        [(one[number], other[index]) for number, index in sorted(partner.items())],
        [rule for number, rule in enumerate(one) if number not in partner],
        [rule for index, rule in enumerate(other) if index not in used],
    )


def _distance(one: RuleRecord, other: RuleRecord) -> float:
    """Return the distance between the thresholds, on a scale that compares large and small numbers."""
    old, new = _thresholds(one), _thresholds(other)
    return sum(log1p(abs(value - new[literal])) for literal, value in old.items() if literal in new)


def _thresholds(rule: RuleRecord) -> dict[Literal, float]:
    return {each.literal: each.value for each in rule.premise if isinstance(each.value, float)}


def _document_entry(document: ResultDocument) -> dict[str, Any]:
    dataset = document.dataset
    return {
        "digest": document.digest,
        "name": dataset.name,
        "target": dataset.target,
        "fingerprint": dataset.fingerprint,
        "rules": len(document.rules),
    }


def _pair_entry(one: RuleRecord, other: RuleRecord) -> dict[str, Any]:
    return {"one": _entry(one), "other": _entry(other)}


def _unpaired_entries(rules: Sequence[RuleRecord], others: Sequence[RuleRecord]) -> list[dict[str, Any]]:
    literals = [rule.key.literals for rule in others]
    return [{**_entry(rule), "similar": _most_similar(rule, others, literals)} for rule in rules]


def _most_similar(
    rule: RuleRecord, others: Sequence[RuleRecord], literals: Sequence[frozenset[Literal]]
) -> dict[str, Any] | None:
    own = rule.key.literals
    similarity, index = max(((simpson(own, each), -index) for index, each in enumerate(literals)), default=(0.0, 0))
    if similarity < MIN_SIMILARITY:
        return None
    nearest = others[-index]
    return {"id": nearest.id, "text": nearest.text, "class": nearest.label, "similarity": similarity}


def _entry(rule: RuleRecord) -> dict[str, Any]:
    conditions = [each.model_dump(mode="json", exclude={"test"}) for each in rule.conditions]
    return {"id": rule.id, "text": rule.text, "class": rule.label, "conditions": conditions, **_evidence(rule)}


def _evidence(rule: RuleRecord) -> dict[str, Any]:
    supports = {part: support.model_dump(include=_SUPPORT) for part, support in rule.supports.items()}
    return {name: getattr(rule, name) for name in _EVIDENCE} | dict.fromkeys(_PARTS) | supports
