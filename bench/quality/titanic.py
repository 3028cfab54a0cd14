"""Titanic with 20 noise columns: the paper's rules compared with those whose conditions the rows must support."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from bench.printing import Goal
from bench.quality import methods
from bench.quality.estimates import Estimate, group_by, mean, ratio, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings, TableSettings

DEFAULT_SEEDS, NOISE, HOLDOUT = 30, 20, 0.2
METHODS = ("paper", "auto", "all")


def reason_to_skip(run: Run) -> str | None:
    return None if run.titanic else "it needs the Titanic table: --titanic PATH"


def measure(run: Run) -> Iterator[Record]:
    frame = pd.read_csv(run.titanic)
    for seed in run.seed_range(DEFAULT_SEEDS, quick=2):
        columns = prepare(_with_noise(frame, seed), TableSettings(target="survived")).columns
        for name in METHODS:
            settings = MiningSettings(seed=seed, holdout=HOLDOUT, **methods.OURS[name])
            result = mine(columns, settings, jobs=run.jobs)
            noisy = [any(c.feature.startswith("noise") for c in rule.conditions) for rule in result.rules]
            record: Record = {"method": name, "seed": seed, "features": columns.count, "trees": result.search.trees}
            precisions = [rule.holdout.precision for rule in result.rules]
            yield {
                **record,
                "rules": len(noisy),
                "noisy": sum(noisy),
                "noise_free": len(noisy) - sum(noisy),
                "holdout_precision": None if not noisy else mean(precisions).value,
                "seconds": result.search.seconds,
            }


def _with_noise(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    random = np.random.default_rng([seed, 1912])
    return frame.assign(**{f"noise{k}": random.random(len(frame)) for k in range(NOISE)})


def summarise(records: Sequence[Record]) -> Summary:
    groups = group_by(records, "method")
    rows = [_row(str(name), done, groups["paper"]) for name, done in groups.items()]
    columns = ["", "seeds", "rules", "with noise %", "noise-free", "noise-free, % of paper's", "held-out precision"]
    return Summary(columns, rows, _checks(groups["auto"], groups["all"], groups["paper"]))


def _row(name: str, done: Sequence[Record], paper: Sequence[Record]) -> list[str]:
    return [
        name,
        str(len(done)),
        mean(values(done, "rules")).format(".1f"),
        _noisy(done).percent,
        mean(values(done, "noise_free")).format(".1f"),
        _noise_free_ratio(done, paper).format(".0f", 100),
        mean(values(done, "holdout_precision")).format(".3f"),
    ]


def _checks(auto: Sequence[Record], every: Sequence[Record], paper: Sequence[Record]) -> list[Check]:
    return [
        Check("auto: rules with a noise feature", 100 * _noisy(auto).value, Goal(maximum=5), " %"),
        Check("all: rules with a noise feature", 100 * _noisy(every).value, Goal(maximum=5), " %"),
        Check(
            "all: noise-free rules relative to the paper's",
            100 * _noise_free_ratio(every, paper).value,
            Goal(minimum=80),
            " %",
        ),
        Check("auto: held-out precision above the paper's, by", _gain(auto, paper).value, Goal(minimum=0)),
    ]


def _noisy(done: Sequence[Record]) -> Estimate:
    return ratio(values(done, "noisy"), values(done, "rules"))


def _noise_free_ratio(done: Sequence[Record], paper: Sequence[Record]) -> Estimate:
    return ratio(values(done, "noise_free"), values(paper, "noise_free"))


def _gain(auto: Sequence[Record], paper: Sequence[Record]) -> Estimate:
    pairs = zip(values(auto, "holdout_precision"), values(paper, "holdout_precision"), strict=True)
    return mean(one - other for one, other in pairs if one is not None and other is not None)


def panels(records: Sequence[Record]) -> list[Panel]:
    groups = group_by(records, "method")

    def bars(estimate, scale: float) -> list[Series]:
        estimates = ((str(name), estimate(done)) for name, done in groups.items())
        return [Series(n, [scale * e.value], [scale * e.error], ours=n == "auto") for n, e in estimates]

    return [
        Panel("rules with a noise feature", "%", bars(_noisy, 100), goal=5),
        Panel("noise-free rules", "", bars(lambda done: mean(values(done, "noise_free")), 1)),
        Panel("held-out precision", "", bars(lambda done: mean(values(done, "holdout_precision")), 1)),
    ]


TITANIC = Experiment(
    name="titanic",
    title=f"Titanic with {NOISE} noise columns",
    about=f"Noise and split are drawn for each seed; {HOLDOUT:.0%} of the rows are held out. `auto` "
    "is the short list of findings, and `all` every certified rule (`--all`).",
    measure=measure,
    summarise=summarise,
    panels=panels,
    reason_to_skip=reason_to_skip,
)
