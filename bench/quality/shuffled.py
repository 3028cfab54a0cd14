"""Shuffled labels, where there is nothing to find: the share of runs with a rule that held-out rows confirm."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from bench.printing import Goal
from bench.quality import methods
from bench.quality.estimates import group_by, mean, share, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.settings import MiningSettings, TableSettings

DEFAULT_SEEDS, HOLDOUT, LEVEL = 100, 0.3, 0.05
TREES = 500
LOOSE = {"min_samples": 20, "gini": 0.9}
"""With the default β and γ hardly any rule is published; with these many are, and held-out rows must reject them."""
CASES = (("auto", "usual", {}), ("auto", "loose", LOOSE), ("paper", "loose", LOOSE))


def measure(run: Run) -> Iterator[Record]:
    tables = {"breast_cancer": load_bundled("breast_cancer"), "generated": _generated()}
    for seed in run.seed_range(DEFAULT_SEEDS, quick=3):
        for table, (frame, settings) in tables.items():
            columns = prepare(_shuffled(frame, settings.target, seed), settings).columns
            for name, bar, more in CASES:
                options = {"seed": seed, "holdout": HOLDOUT, "trees": TREES, **methods.OURS[name], **more}
                result = mine(columns, MiningSettings(**options), jobs=run.jobs)
                best = min((rule.holdout.q for rule in result.rules), default=None)
                record: Record = {"table": table, "method": name, "bar": bar, "seed": seed}
                yield {**record, "rules": len(result.rules), "least_q": best, "seconds": result.search.seconds}


def _generated() -> tuple[pd.DataFrame, TableSettings]:
    return generate(Recipe(rows=1000, features=200, xor=1, seed=0)).frame, TableSettings(target="y")


def _shuffled(frame: pd.DataFrame, target: str, seed: int) -> pd.DataFrame:
    order = np.random.default_rng([seed, 5]).permutation(len(frame))
    return frame.assign(**{target: frame[target].to_numpy()[order]})


def summarise(records: Sequence[Record]) -> Summary:
    rows, checks = [], []
    for (table, method, bar), done in _cases(records).items():
        confirmed = share([_confirmed(record) for record in done])
        some = share([record["rules"] > 0 for record in done])
        name = f"{method}, {table}" + (", loose" if bar == "loose" else "")
        rules = mean(values(done, "rules")).format(".2f")
        rows.append([name, str(len(done)), rules, some.percent, confirmed.percent])
        if method == "auto":
            checks.append(
                Check(f"{name}: runs with a rule of q < {LEVEL}", 100 * confirmed.value, Goal(maximum=5), " %")
            )
    columns = ["", "runs", "rules a run", "runs with any rule %", f"runs with a rule of q < {LEVEL} %"]
    return Summary(columns, rows, checks)


def _cases(records: Sequence[Record]) -> dict:
    return group_by(records, lambda record: (record["table"], record["method"], record["bar"]))


def _confirmed(record: Record) -> bool:
    return record["least_q"] is not None and record["least_q"] < LEVEL


def panels(records: Sequence[Record]) -> list[Panel]:
    series = []
    for (table, method, bar), done in _cases(records).items():
        estimate = share([_confirmed(record) for record in done])
        name = f"{method}, {table}, {bar}"
        series.append(Series(name, [100 * estimate.value], [100 * estimate.error], ours=method == "auto"))
    return [Panel(f"labels shuffled: runs with a rule of q < {LEVEL}", "%", series, goal=5)]


SHUFFLED = Experiment(
    name="shuffled",
    title="Shuffled labels",
    about=f"Labels shuffled for each run, {TREES:,} trees, {HOLDOUT:.0%} of the rows held out; breast_cancer (30 "
    "features × 569 rows) and a generated table (200 × 1,000). *Loose* requires "
    f"{LOOSE['min_samples']} rows and a Gini index below {LOOSE['gini']} of the maximum, so that there are rules "
    "whose q-value can be wrong.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
