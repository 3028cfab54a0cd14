"""Stability of rules: how far rules from different bootstraps of breast_cancer use the same features.

Three lists are compared, each cut at ten rules: those of one run in the order of selection; the same, with the simplest
first; and the consensus rules of repeats. The second shows how much of the consensus is due to its order.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from bench.printing import Goal
from bench.quality import methods
from bench.quality.estimates import Estimate, group_by, mean, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from maabo_dist.contract.conditions import Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import ConsensusRecord, RuleRecord
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.report.stability import mine_with_repeats
from maabo_dist.settings import MiningSettings, RepeatSettings

DEFAULT_SEEDS, BOOTSTRAPS, REPEATS, TOP = 3, 5, 20, 10
FIRST_SEED = 100
"""The definition and order of consensus rules were chosen on other bootstraps; these are for the measurement."""
PRESETS = ("auto", "paper")
GAP, JOIN = "; ", " + "


def measure(run: Run) -> Iterator[Record]:
    frame, table = load_bundled("breast_cancer")
    for seed in (FIRST_SEED + k for k in run.seed_range(DEFAULT_SEEDS)):
        for bootstrap in range(2 if run.quick else BOOTSTRAPS):
            rows = np.random.default_rng([seed, bootstrap, 1993]).integers(0, len(frame), len(frame))
            unseen = frame.drop(index=np.unique(rows))
            columns = prepare(frame.iloc[rows].reset_index(drop=True), table).columns
            for preset in PRESETS:
                settings = MiningSettings(**methods.OURS[preset], **({"trees": 100} if run.quick else {}))
                repeats = RepeatSettings(repeats=3 if run.quick else REPEATS)
                _, document = mine_with_repeats(columns, settings, repeats, jobs=run.jobs)
                for order, rules in _lists(document).items():
                    record: Record = {"method": preset, "order": order, "seed": seed, "bootstrap": bootstrap}
                    yield record | {"rules": len(rules)} | _of_top(rules[:TOP], unseen, table.target)


def _lists(document: ResultDocument) -> dict[str, Sequence[RuleRecord] | Sequence[ConsensusRecord]]:
    rules, repeats = document.rules, document.repeats
    simple = sorted(rules, key=lambda rule: (len(rule.conditions), -rule.train.n - rule.validation.n))
    return {"as selected": rules, "simplest first": simple, "consensus": repeats.consensus if repeats else ()}


def _of_top(rules: Sequence[RuleRecord | ConsensusRecord], unseen: pd.DataFrame, target: str) -> Record:
    precisions = [(unseen[target][_covered(rule, unseen)] == rule.label).mean() for rule in rules]
    present = [float(value) for value in precisions if not np.isnan(value)]
    sets = sorted({JOIN.join(sorted({each.feature for each in rule.conditions})) for rule in rules})
    return {
        "top": len(rules),
        "conditions": mean(len(rule.conditions) for rule in rules).value if rules else None,
        "feature_sets": len(sets),
        "features": GAP.join(sets),
        "unseen_precision": mean(present).value if present else None,
    }


def _covered(rule: RuleRecord | ConsensusRecord, frame: pd.DataFrame) -> pd.Series:
    covered = pd.Series(data=True, index=frame.index)
    for condition in rule.conditions:
        cells, bound = frame[condition.feature], condition.value
        covered &= cells > bound if condition.op is Op.ABOVE else cells <= bound
    return covered


def dice(one: set[str], other: set[str]) -> float | None:
    """The Dice coefficient of two sets; None if both are empty."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else None


def agreement(records: Sequence[Record]) -> Estimate:
    """The mean over pairs of bootstraps of a seed, then over seeds."""
    means = []
    for done in group_by(records, "seed").values():
        sets = [set(filter(None, str(record["features"] or "").split(GAP))) for record in done]
        means.append(mean(dice(one, other) for one, other in combinations(sets, 2)).value)
    return mean(means)


def summarise(records: Sequence[Record]) -> Summary:
    rows, checks = [], []
    for (method, order), done in _cases(records).items():
        name = f"{method}, {order}"
        rows.append([name, str(len(done)), agreement(done).format(".2f"), *_figures(done)])
        if (method, order) == ("auto", "consensus"):
            checks.append(Check(f"{name}: Dice of feature sets", agreement(done).value, Goal(minimum=0.7)))
    columns = ["", "bootstraps", "Dice", "rules", f"of the top {TOP}: feature sets", "conditions", "unseen precision"]
    return Summary(columns, rows, checks)


def _figures(done: Sequence[Record]) -> list[str]:
    specs = {"rules": ".1f", "feature_sets": ".1f", "conditions": ".2f", "unseen_precision": ".3f"}
    return [mean(values(done, name)).format(spec) for name, spec in specs.items()]


def _cases(records: Sequence[Record]) -> dict:
    return group_by(records, lambda record: (record["method"], record["order"]))


def panels(records: Sequence[Record]) -> list[Panel]:
    series = []
    for (method, order), done in _cases(records).items():
        estimate = agreement(done)
        ours = (method, order) == ("auto", "consensus")
        series.append(Series(f"{method}, {order}", [estimate.value], [estimate.error], ours=ours))
    return [Panel(f"breast_cancer, top {TOP}: Dice of feature sets", "", series, goal=0.7)]


STABILITY = Experiment(
    name="stability",
    title="Stability of rules",
    about=f"breast_cancer, {BOOTSTRAPS} bootstraps of its rows for each of {DEFAULT_SEEDS} seeds; on each, the first "
    f"{TOP} rules of a run in the order of selection, the same with the simplest first (fewest conditions, then most "
    f"rows), and the first {TOP} consensus rules of {REPEATS} repeats, in nearly the same order. *Dice*: the "
    "coefficient between the feature sets of the rules of two bootstraps, mean over the pairs of a seed; *unseen "
    "precision*: on the rows that the bootstrap did not draw.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
