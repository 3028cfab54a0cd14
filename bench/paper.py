"""The paper's figures on the paper's tables, ours beside the printed ones."""

from statistics import fmean

from bench import show, tables
from bench.clock import stopwatch
from maabo_dist.data import load_bundled, prepare
from maabo_dist.mining import mine
from maabo_dist.settings import MiningSettings, TableSettings


def run(options) -> None:
    rows = [*_diabetes()]
    if options.titanic is None:
        show.console.print("The Titanic rows of the paper need the real table: --titanic FILE or MAABO_TITANIC.")
    else:
        rows = [*_titanic_tree(options.titanic), *rows, *_titanic_seeds(options.titanic, 10 if options.quick else 50)]
    show.table("7. The paper's figures", ["", "ours", "paper", "a run"], rows)


def _titanic_tree(path) -> list[tuple]:
    columns = prepare(tables.titanic_frame(path), TableSettings(target="survived", impute="mean")).columns
    result = mine(columns, MiningSettings(preset="paper", strategy="single", split_seed=5))
    return [
        ("Titanic, one tree, split seed 5: leaves", str(result.funnel.leaves), "16", ""),
        ("  rules, with their Gini indices", _rules(result), "n 108 (0.012)\nn 103 (0.114)", ""),
    ]


def _diabetes() -> list[tuple]:
    frame, settings = load_bundled("diabetes")
    result = mine(
        prepare(frame, settings).columns, MiningSettings(preset="paper", strategy="single", split_seed=2, max_depth=3)
    )
    return [
        ("diabetes, one tree, split seed 2: leaves", str(result.funnel.leaves), "8", ""),
        ("  rules, with their Gini indices", _rules(result), "n 89 (0.06)", ""),
    ]


def _titanic_seeds(path, seeds: int) -> list[tuple]:
    columns = prepare(tables.titanic_frame(path), TableSettings(target="survived", impute="median")).columns
    cases = [
        ("all 84 trees", {"strategy": "exhaustive", "trees": 84}, "6.4"),
        ("MAABO-MT, 40 trees", {"trees": 40}, "6.0"),
        ("random, 40 trees", {"strategy": "random", "trees": 40}, "3.3"),
        ("one tree", {"strategy": "single"}, "1.1"),
    ]
    rows, means = [], {}
    for name, wanted, printed in cases:

        def all_seeds(name=name, wanted=wanted):
            results = [
                mine(columns, MiningSettings(preset="paper", seed=seed, split_seed=seed, **wanted))
                for seed in range(seeds)
            ]
            means[name] = fmean(len(result.rules) for result in results)

        seconds = stopwatch(all_seeds)
        what = f"Titanic, mean rules of {seeds} splits: {name}"
        rows.append((what, f"{means[name]:.2f}", printed, show.time(seconds / seeds)))
    return rows


def _rules(result) -> str:
    return "\n".join(f"n {rule.n} ({rule.gini:.3f})" for rule in result.rules) or "none"
