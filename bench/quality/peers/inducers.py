"""The peers that make lists and sets of rules for prediction: RuleKit, SIRUS, RIPPER and IREP; all with their defaults.

They speak of intervals that hold their lower end, their upper one or both, and of values that a cell must equal. What
goes out is the form of `bench.quality.peers.miners`: `<=` and `>` alone, on exactly the same rows.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

Condition = tuple[int, str, float]
Rule = list[Condition]


def rulekit() -> Callable[..., list[Rule]]:
    """The rules for both classes; Java runs before the clock does."""
    from rulekit import RuleKit
    from rulekit.classification import RuleClassifier

    RuleKit.init()

    def mined(X: np.ndarray, y: np.ndarray, seed: int, jobs: int) -> list[Rule]:  # noqa: ARG001 (nothing is drawn)
        model = RuleClassifier().fit(_numbered(X), np.where(y == 1, "one", "zero")).model
        premises = [rule._java_object.getPremise().getSubconditions() for rule in model.rules]  # noqa: SLF001
        return [[each for one in premise for each in _of_interval(one)] for premise in premises]

    return mined


def sirus() -> Callable[..., list[Rule]]:
    """Its rules say what holds if the conditions do and what holds else; the former counts."""
    from joblib import parallel_config
    from sirus import SirusClassifier

    def mined(X: np.ndarray, y: np.ndarray, seed: int, jobs: int) -> list[Rule]:
        with parallel_config("threading"):  # so that CPU time is that of this process
            model = SirusClassifier(random_state=seed, n_jobs=jobs).fit(X, y)
        return [[_strict(one.feature, one.op, one.value) for one in rule.conditions] for rule in model.rules_]

    return mined


def ripper() -> Callable[..., list[Rule]]:
    from wittgenstein import RIPPER

    return _of_wittgenstein(RIPPER)


def irep() -> Callable[..., list[Rule]]:
    from wittgenstein import IREP

    return _of_wittgenstein(IREP)


def _of_wittgenstein(learner: Callable[..., object]) -> Callable[..., list[Rule]]:
    """A list of rules for one class, all else being the other; so once for each. A rule without conditions is none."""

    def mined(X: np.ndarray, y: np.ndarray, seed: int, jobs: int) -> list[Rule]:  # noqa: ARG001 (it takes one core)
        rules = []
        for label in (0, 1):
            model = learner(random_state=seed)
            model.fit(_numbered(X), y=y, pos_class=label)
            rules += [[each for one in rule.conds for each in _of_bin(one.feature, one.val)] for rule in model.ruleset_]
        return [rule for rule in rules if rule]

    return mined


def _numbered(X: np.ndarray) -> object:
    """Columns are known by `f` and their number."""
    import pandas as pd

    return pd.DataFrame(X, columns=[f"f{place}" for place in range(X.shape[1])])


def _place(name: object) -> int:
    return int(str(name).removeprefix("f"))


def _of_interval(condition: object) -> list[Condition]:
    """An interval of Java's, either end of which may be open; where there is none stands the greatest number."""
    place, ends = _place(condition.getAttribute()), condition.getValueSet()
    low, high = float(ends.getLeft()), float(ends.getRight())
    found: list[Condition] = []
    if abs(low) < sys.float_info.max:
        found.append((place, ">", math.nextafter(low, -math.inf) if ends.contains(low) else low))
    if abs(high) < sys.float_info.max:
        found.append((place, "<=", high if ends.contains(high) else math.nextafter(high, -math.inf)))
    return found


def _of_bin(name: object, value: object) -> list[Condition]:
    """wittgenstein's conditions: `<3.5`, `3.5 - 7.0` and `>7.0` hold their upper end; a number must be met."""
    place, text = _place(name), str(value)
    if text.startswith("<"):
        return [(place, "<=", float(text[1:]))]
    if text.startswith(">"):
        return [(place, ">", float(text[1:]))]
    low, between, high = text.partition(" - ")
    if between:
        return [(place, ">", float(low)), (place, "<=", float(high))]
    return meeting(place, float(text))


def meeting(place: int, value: float) -> list[Condition]:
    """That a cell equals a value."""
    return [(place, ">", math.nextafter(value, -math.inf)), (place, "<=", value)]


def _strict(place: int, op: str, value: float) -> Condition:
    """`<` and `>=` as `<=` and `>`."""
    return int(place), "<=" if op == "<" else ">", math.nextafter(float(value), -math.inf)


INDUCERS = {"rulekit": rulekit, "sirus": sirus, "ripper": ripper, "irep": irep}
