"""Where nothing is to be found: labels shuffled. Which share of the runs publishes a rule that evidence confirms?"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from bench.quality import methods
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.statistics import column, grouped, mean, share
from bench.show import Goal
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.settings import MiningSettings, TableSettings

USUAL_SEEDS, HOLDOUT, LEVEL = 100, 0.3, 0.05
TREES = 500
LOOSE = {"min_samples": 20, "gini": 0.9}
"""With the usual β and γ hardly a rule is published at all; these let many through, and leave it to the evidence."""
CASES = (("auto", "usual", {}), ("auto", "loose", LOOSE), ("paper", "loose", LOOSE))


def measure(run: Run) -> Iterator[Record]:
    tables = {"breast_cancer": load_bundled("breast_cancer"), "generated": _generated()}
    for seed in run.seeds_of(USUAL_SEEDS, quick=3):
        for table, (frame, settings) in tables.items():
            columns = prepare(_shuffled(frame, settings.target, seed), settings).columns
            for name, bar, more in CASES:
                wanted = {"seed": seed, "holdout": HOLDOUT, "trees": TREES, **methods.OURS[name], **more}
                result = mine(columns, MiningSettings(**wanted), jobs=run.jobs)
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
        rules = mean(column(done, "rules")).shown(".2f")
        rows.append([name, str(len(done)), rules, some.percent, confirmed.percent])
        if method == "auto":
            checks.append(Check(f"{name}: runs with a rule of q < {LEVEL}", 100 * confirmed.value, Goal(most=5), " %"))
    columns = ["", "runs", "rules a run", "runs with any rule %", f"runs with a rule of q < {LEVEL} %"]
    return Summary(columns, rows, checks)


def _cases(records: Sequence[Record]) -> dict:
    return grouped(records, lambda record: (record["table"], record["method"], record["bar"]))


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
    title="Nothing planted",
    about=f"Labels shuffled anew for each run, {TREES:,} trees, {HOLDOUT:.0%} of the rows held out; breast_cancer (30 "
    "features × 569 rows) and a generated table (200 × 1,000). *Loose* asks for "
    f"{LOOSE['min_samples']} rows and a Gini index below {LOOSE['gini']} of the greatest, so that there are rules "
    "whose q-value can err.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
