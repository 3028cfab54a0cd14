"""The peers that mine rules, with their defaults unless stated otherwise.

A rule is returned as its conditions, the tightest of each feature and direction: `[feature index, op, threshold]`,
where op is `<=` or `>`. The caller determines its class from the rows, in the same way for every peer.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from time import perf_counter, process_time

import numpy as np

from bench.quality.peers.inducers import INDUCERS, Wanted, equals

Condition = tuple[int, str, float]
Rule = list[Condition]

QUANTILES = (0.35, 0.5, 0.65)
"""The quantiles at which pysubgroup cuts columns of planted tables; the planted thresholds are near one of them."""


def mine(method: str, table: Path, seed: int, jobs: int) -> dict[str, object]:
    """The rules of a table `X` (rows, features) with classes `y` (0 and 1), and the wall and CPU seconds it took.

    Peers that look for one class at a time look for the `wanted` classes.
    """
    return _timed(MINERS[method](), table, seed, jobs)


def serve(method: str) -> None:
    """Mine the tables named by the lines of the input; an error is the answer to its line."""
    miner = MINERS[method]()
    for line in sys.stdin:
        table, seed, jobs = line.rsplit(maxsplit=2)
        try:
            answer = _timed(miner, Path(table), int(seed), int(jobs))
        except Exception as error:  # noqa: BLE001 (an error of a peer is its result)
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def _timed(miner: Callable[..., list[Rule]], table: Path, seed: int, jobs: int) -> dict[str, object]:
    with np.load(table, allow_pickle=False) as arrays:
        X, y, wanted = arrays["X"], arrays["y"], tuple(arrays["wanted"].tolist())
    start, used = perf_counter(), process_time()
    rules = [tightest_conditions(rule) for rule in miner(X, y, seed, jobs, wanted)]
    return {"rules": rules, "seconds": perf_counter() - start, "cpu": process_time() - used}


def _figs() -> Callable[..., list[Rule]]:
    """Every leaf of every tree of the sum."""
    from imodels import FIGSClassifier

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, *_: Wanted) -> list[Rule]:
        model = FIGSClassifier(random_state=seed, n_jobs=jobs).fit(X, y)
        return [rule for tree in model.trees_ for rule in _leaves(tree, [])]

    return mine_rules


def _rulefit() -> Callable[..., list[Rule]]:
    """Without linear terms, which are not rules; only rules with a coefficient."""
    from imodels import RuleFitClassifier

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, *_: Wanted) -> list[Rule]:  # noqa: ARG001 (it takes one core)
        model = RuleFitClassifier(random_state=seed, include_linear=False).fit(X, y)
        weighed = zip(model.rules_without_feature_names_, model.coef, strict=True)
        return [_conditions(rule) for rule, weight in weighed if weight != 0]

    return mine_rules


def _skope() -> Callable[..., list[Rule]]:
    """It looks for one class and therefore runs once for each."""
    from imodels import SkopeRulesClassifier
    from joblib import parallel_config

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, wanted: Wanted) -> list[Rule]:
        with parallel_config("threading"):  # trees grow without the GIL, and this process measures the CPU time
            models = [SkopeRulesClassifier(random_state=seed, n_jobs=jobs).fit(X, y == label) for label in wanted]
        return [_conditions(rule) for model in models for rule in model.rules_without_feature_names_]

    return mine_rules


def _pysubgroup(own_bins: bool, exponent: float) -> Callable[..., list[Rule]]:
    """Beam search for subgroups of up to three conditions, once for each class; 10 of each are kept.

    With `own_bins`, columns are cut into intervals of about a fifth of the rows, which is its default; otherwise at
    `QUANTILES`, in both directions. The quality of a subgroup is its share of the rows to the `exponent`, times what
    its precision exceeds the base rate by. An exponent of 1 is WRAcc, which its documentation uses; with 0.5, subgroups
    are smaller and more precise.
    """
    import pandas as pd
    import pysubgroup as ps

    def mine_rules(X: np.ndarray, y: np.ndarray, seed: int, jobs: int, wanted: Wanted) -> list[Rule]:  # noqa: ARG001 (one core, nothing drawn)
        frame = pd.DataFrame(X, columns=[str(index) for index in range(X.shape[1])]).assign(y=y)
        cut = ps.create_numeric_selectors_for_attribute if own_bins else partial(_selectors, ps)
        selectors = [selector for name in frame.columns[:-1] for selector in cut(frame, name)]
        rules = []
        for label in wanted:
            target = ps.BinaryTarget("y", label)
            task = ps.SubgroupDiscoveryTask(
                frame, target, selectors, result_set_size=10, depth=3, qf=ps.StandardQF(exponent)
            )
            subgroups = ps.BeamSearch(beam_width=10).execute(task)
            rules += [selector_conditions(subgroup.selectors) for _, subgroup, _ in subgroups.results]
        return rules

    return mine_rules


MINERS = {
    "figs": _figs,
    "rulefit": _rulefit,
    "skope": _skope,
    "pysubgroup": partial(_pysubgroup, own_bins=False, exponent=0.5),
    "pysubgroup-own-bins": partial(_pysubgroup, own_bins=True, exponent=0.5),
    "pysubgroup-wracc": partial(_pysubgroup, own_bins=True, exponent=1.0),
    **INDUCERS,
}
PACKAGES = {"figs": "imodels", "rulefit": "imodels", "skope": "imodels"}
PACKAGES |= {"pysubgroup-own-bins": "pysubgroup", "pysubgroup-wracc": "pysubgroup"}
PACKAGES |= {"ripper": "wittgenstein", "irep": "wittgenstein"}
"""Miners whose name differs from that of their package."""


def unavailable() -> dict[str, str]:
    """The miners that are not available, each with the reason."""
    reasons = {name: _missing_part(name, PACKAGES.get(name, name)) for name in MINERS}
    return {name: reason for name, reason in reasons.items() if reason}


def _missing_part(miner: str, package: str) -> str | None:
    if find_spec(package) is None:
        return f"the package {package} is not installed"
    if miner == "rulekit" and which("java") is None:
        return "it needs Java, which is not installed (Debian: default-jre-headless)"
    return None


def _leaves(node: object, above: Rule) -> Iterable[Rule]:
    if node.left is None:
        if above:
            yield tightest_conditions(above)
        return
    index, threshold = int(node.feature), float(node.threshold)
    yield from _leaves(node.left, [*above, (index, "<=", threshold)])
    yield from _leaves(node.right, [*above, (index, ">", threshold)])


def _conditions(rule: object) -> Rule:
    """Convert a rule of imodels, which names features X_0, X_1, …; no row has a value equal to a threshold."""
    terms = ((int(name.removeprefix("X_")), op[0], float(value)) for (name, op), value in rule.agg_dict.items())
    return tightest_conditions([(index, "<=" if sign == "<" else ">", value) for index, sign, value in terms])


def tightest_conditions(conditions: Rule) -> Rule:
    bounds: dict[tuple[int, str], float] = {}
    for index, op, value in conditions:
        bound = bounds.get((index, op), value)
        bounds[index, op] = min(bound, value) if op == "<=" else max(bound, value)
    return [(index, op, value) for (index, op), value in bounds.items()]


def _selectors(ps: object, frame: object, name: str) -> list[object]:
    cuts = np.unique(np.quantile(frame[name].to_numpy(), QUANTILES))
    return [ps.IntervalSelector(name, *ends) for cut in cuts.tolist() for ends in ((-math.inf, cut), (cut, math.inf))]


def selector_conditions(selectors: Iterable[object]) -> Rule:
    """Convert selectors of pysubgroup: intervals without their upper bound, or single values of columns with few."""
    conditions: Rule = []
    for selector in selectors:
        index = int(selector.attribute_name)
        if hasattr(selector, "attribute_value"):
            conditions += equals(index, float(selector.attribute_value))
            continue
        if math.isfinite(selector.lower_bound):
            conditions.append((index, ">", math.nextafter(selector.lower_bound, -math.inf)))
        if math.isfinite(selector.upper_bound):
            conditions.append((index, "<=", math.nextafter(selector.upper_bound, -math.inf)))
    return tightest_conditions(conditions)
