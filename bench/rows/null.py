"""`python -m bench.rows.null`: how often a dataset without any rule publishes one, searched in a sample.

Labels are drawn without regard to the columns, anew for each run, in tables of ten times as many rows as are searched.
Chance may publish something in at most 5 % of the runs: the certificate is for the whole search, and counts all rows.
In half of the runs a class is so rare that all of its rows are in the sample.
"""

import argparse
import json
from time import perf_counter

import numpy as np
import pandas as pd

from bench.printing import Goal, console, format_time, format_verdict, print_table
from maabo_dist import MiningSettings, TableSettings, mine_dataset
from maabo_dist.rules.statistics import wilson

ROWS, SAMPLE = 40_000, 4_000
SHARES = {"balanced classes": (0.5, 0.5), "a class of 0.5 %": (0.695, 0.3, 0.005)}


def make_table(shares: tuple[float, ...], seed: int) -> pd.DataFrame:
    """Six numbers, two of them with few values, and two columns of text; the classes do not depend on them."""
    rng = np.random.default_rng([77, seed])
    frame = pd.DataFrame({f"x{index}": rng.normal(size=ROWS).round(3) for index in range(4)})
    for index in range(2):
        frame[f"k{index}"] = rng.integers(0, 20, ROWS)
    for index in range(2):
        frame[f"c{index}"] = rng.choice(list("abcdef"), ROWS)
    frame["y"] = rng.choice([f"class {index}" for index in range(len(shares))], ROWS, p=shares)
    return frame


def publishes(shares: tuple[float, ...], seed: int, trees: int) -> bool:
    """True if a run publishes a rule."""
    settings = MiningSettings(trees=trees, seed=seed)
    mined = mine_dataset(make_table(shares, seed), TableSettings(target="y"), settings, sample=SAMPLE)
    return bool(mined.result.rules)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rows.null", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="runs of each kind of table")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    rows, results = [], {}
    for name, shares in SHARES.items():
        start = perf_counter()
        seeds = range(options.first, options.first + options.runs)
        count = sum(publishes(shares, seed, options.trees) for seed in seeds)
        low, high = wilson(count, options.runs)
        share = count / options.runs
        verdict = format_verdict(100 * share, Goal(maximum=5))
        interval = f"{100 * (low or 0):.1f}–{100 * (high or 0):.1f} %"
        rows.append((name, f"{count} of {options.runs}", f"{100 * share:.1f} %", interval, *verdict))
        results[name] = {"published": count, "runs": options.runs, "seconds": perf_counter() - start}
    head = [f"{ROWS:,} rows, {SAMPLE:,} searched", "runs with a rule", "share", "95 % interval", "goal", ""]
    print_table("Labels without any rule", head, rows)
    console.print(json.dumps(results), style="dim", soft_wrap=True)
    console.print(f"{format_time(sum(each['seconds'] for each in results.values()))} in all", style="dim")


if __name__ == "__main__":
    main()
