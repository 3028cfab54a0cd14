"""The peers that learn lists and sets of rules for prediction: RuleKit, SIRUS, RIPPER and IREP, with their defaults.

Their conditions are intervals that include their lower end, their upper end or both, and values that a cell must equal.
They are converted to the form of `bench.quality.peers.miners`: `<=` and `>` only, on exactly the same rows.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

Condition = tuple[int, str, float]
Rule = list[Condition]
Wanted = tuple[int, ...]
"""Classes to look for, for a peer that looks for one at a time."""


def rulekit() -> Callable[..., list[Rule]]:
    """The rules for both classes; Java is started before the timing."""
    from rulekit import RuleKit
    from rulekit.classification import RuleClassifier

    RuleKit.init()

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, *_: Wanted) -> list[Rule]:  # noqa: ARG001 (nothing is drawn)
        model = RuleClassifier().fit(_number_columns(X), np.where(y == 1, "one", "zero")).model
        premises = [rule._java_object.getPremise().getSubconditions() for rule in model.rules]  # noqa: SLF001
        return [[each for one in premise for each in interval_conditions(one)] for premise in premises]

    return mine_rules


def sirus() -> Callable[..., list[Rule]]:
    """A rule has a prediction for when its conditions hold and one for when they do not; only the first is used."""
    from joblib import parallel_config
    from sirus import SirusClassifier

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, *_: Wanted) -> list[Rule]:
        with parallel_config("threading"):  # so that this process measures the CPU time
            model = SirusClassifier(random_state=seed, n_jobs=jobs).fit(X, y)
        return [[convert_strict(one.feature, one.op, one.value) for one in rule.conditions] for rule in model.rules_]

    return mine_rules


def ripper() -> Callable[..., list[Rule]]:
    from wittgenstein import RIPPER

    return _of_wittgenstein(RIPPER)


def irep() -> Callable[..., list[Rule]]:
    from wittgenstein import IREP

    return _of_wittgenstein(IREP)


def _of_wittgenstein(learner: Callable[..., object]) -> Callable[..., list[Rule]]:
    """A list of rules for one class; it therefore runs once for each. Rules without conditions are dropped."""

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, wanted: Wanted) -> list[Rule]:  # noqa: ARG001 (it takes one core)
        rules = []
        for label in wanted:
            model = learner(random_state=seed)
            model.fit(_number_columns(X), y=y, pos_class=label)
            rules += [
                [each for one in rule.conds for each in bin_conditions(one.feature, one.val)] for rule in model.ruleset_
            ]
        return [rule for rule in rules if rule]

    return mine_rules


def _number_columns(X: np.ndarray) -> object:
    """A frame whose columns are named `f0`, `f1`, …"""
    import pandas as pd

    return pd.DataFrame(X, columns=[f"f{index}" for index in range(X.shape[1])])


def _column_index(name: object) -> int:
    return int(str(name).removeprefix("f"))


def interval_conditions(condition: object) -> list[Condition]:
    """Convert an interval of RuleKit, with ends that may be open; the largest number stands for no end."""
    index, ends = _column_index(condition.getAttribute()), condition.getValueSet()
    low, high = float(ends.getLeft()), float(ends.getRight())
    conditions: list[Condition] = []
    if abs(low) < sys.float_info.max:
        conditions.append((index, ">", math.nextafter(low, -math.inf) if ends.contains(low) else low))
    if abs(high) < sys.float_info.max:
        conditions.append((index, "<=", high if ends.contains(high) else math.nextafter(high, -math.inf)))
    return conditions


def bin_conditions(name: object, value: object) -> list[Condition]:
    """Convert a condition of wittgenstein: `<3.5`, `3.5 - 7.0`, `>7.0` (upper ends included), or a number to equal."""
    index, text = _column_index(name), str(value)
    if text.startswith("<"):
        return [(index, "<=", float(text[1:]))]
    if text.startswith(">"):
        return [(index, ">", float(text[1:]))]
    low, between, high = text.partition(" - ")
    if between:
        return [(index, ">", float(low)), (index, "<=", float(high))]
    return equals(index, float(text))


def equals(index: int, value: float) -> list[Condition]:
    """Conditions that hold where a cell equals a value."""
    return [(index, ">", math.nextafter(value, -math.inf)), (index, "<=", value)]


def convert_strict(index: int, op: str, value: float) -> Condition:
    """Convert `<` and `>=` to `<=` and `>`."""
    return int(index), "<=" if op == "<" else ">", math.nextafter(float(value), -math.inf)


INDUCERS = {"rulekit": rulekit, "sirus": sirus, "ripper": ripper, "irep": irep}
