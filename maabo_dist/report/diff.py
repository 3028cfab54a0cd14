"""What is different between two lists of rules, each a result document.

    the same conditions and class        in both: `same`, or `changed` where the evidence is not
    the same literals, other thresholds  `moved`
    all others                           only in one of them, with the most similar rule of the other

A literal is a column with a sign and, for levels, the level: a threshold is no part of it. How similar two rules are is
the Simpson coefficient of their literals: the share of the smaller set that the other one has.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log1p
from typing import Any

from maabo_dist.report.document import Document

Rule = Mapping[str, Any]
Literal = tuple[str, str, str | None, bool]
SIMILAR = 0.5
"""Below this, no rule is named as similar."""

_EVIDENCE = ("n", "gini", "unique")
_PARTS = ("train", "validation", "holdout")
_SUPPORT = ("n", "precision", "lift")


def diff_documents(one: Document, other: Document) -> Document:
    """The rules of both, sorted into what became of them; as plain JSON values."""
    same, left, right = _paired(one["rules"], other["rules"], _whole, lambda *_: 0.0)
    moved, left, right = _paired(left, right, _key, _distance)
    changed = [_pair(*pair) for pair in same if _evidence(pair[0]) != _evidence(pair[1])]
    return {
        "one": _side(one),
        "other": _side(other),
        "equal": one["digest"] == other["digest"],
        "same": len(same) - len(changed),
        "changed": changed,
        "moved": [_pair(*pair) for pair in moved],
        "only_in_one": [_alone(rule, other["rules"]) for rule in left],
        "only_in_other": [_alone(rule, one["rules"]) for rule in right],
    }


def literals(rule: Rule) -> frozenset[Literal]:
    """What a rule demands, thresholds aside."""
    return frozenset(
        (each["feature"], each["op"], _level(each), bool(each.get("or_missing", False))) for each in rule["conditions"]
    )


def simpson(one: frozenset[Literal], other: frozenset[Literal]) -> float:
    """The share of the smaller set that the other one has; an empty set is in every set."""
    smaller = min(len(one), len(other))
    return len(one & other) / smaller if smaller else 1.0


def _paired(
    one: Sequence[Rule],
    other: Sequence[Rule],
    key: Callable[[Rule], Any],
    distance: Callable[[Rule, Rule], float],
) -> tuple[list[tuple[Rule, Rule]], list[Rule], list[Rule]]:
    """Rules of equal key in pairs, the closest first, and those of either side that are left."""
    places: dict[Any, list[int]] = {}
    for place, rule in enumerate(other):
        places.setdefault(key(rule), []).append(place)
    possible = [
        (distance(rule, other[place]), number, place)
        for number, rule in enumerate(one)
        for place in places.get(key(rule), [])
    ]
    taken: dict[int, int] = {}
    used: set[int] = set()
    for _, number, place in sorted(possible):
        if number not in taken and place not in used:
            taken[number] = place
            used.add(place)
    return (
        [(one[number], other[place]) for number, place in sorted(taken.items())],
        [rule for number, rule in enumerate(one) if number not in taken],
        [rule for place, rule in enumerate(other) if place not in used],
    )


def _whole(rule: Rule) -> Any:
    exact = frozenset(
        (each["feature"], each["op"], each["value"], bool(each.get("or_missing", False))) for each in rule["conditions"]
    )
    return rule["class"], exact


def _key(rule: Rule) -> Any:
    return rule["class"], literals(rule)


def _distance(one: Rule, other: Rule) -> float:
    """How far the thresholds moved, large and small numbers alike."""
    bounds = {(each["feature"], each["op"]): each["value"] for each in other["conditions"]}
    moves = [(each["value"], bounds[each["feature"], each["op"]]) for each in one["conditions"] if _level(each) is None]
    return sum(log1p(abs(old - new)) for old, new in moves if old is not None and new is not None)


def _level(condition: Mapping[str, Any]) -> str | None:
    return condition["value"] if isinstance(condition["value"], str) else None


def _side(document: Document) -> Document:
    dataset = document["dataset"]
    return {
        "digest": document["digest"],
        "name": dataset["name"],
        "target": dataset["target"],
        "fingerprint": dataset["fingerprint"],
        "rules": len(document["rules"]),
    }


def _pair(one: Rule, other: Rule) -> Document:
    return {"one": _shown(one), "other": _shown(other)}


def _alone(rule: Rule, others: Sequence[Rule]) -> Document:
    mine = literals(rule)
    best, nearest = max(
        ((simpson(mine, literals(each)), each) for each in others), key=lambda found: found[0], default=(0.0, None)
    )
    if nearest is None or best < SIMILAR:
        return {**_shown(rule), "similar": None}
    similar = {"id": nearest["id"], "text": nearest["text"], "class": nearest["class"], "similarity": best}
    return {**_shown(rule), "similar": similar}


def _shown(rule: Rule) -> Document:
    return {
        "id": rule["id"],
        "text": rule["text"],
        "class": rule["class"],
        "conditions": [{name: value for name, value in each.items() if name != "test"} for each in rule["conditions"]],
        **_evidence(rule),
    }


def _evidence(rule: Rule) -> Document:
    parts = {part: rule[part] and {cell: rule[part][cell] for cell in _SUPPORT} for part in _PARTS}
    return {name: rule[name] for name in _EVIDENCE} | parts
