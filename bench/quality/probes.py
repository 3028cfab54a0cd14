"""The estimate from probes and the true share of rules with a noise column, which is known on generated tables."""

from collections.abc import Iterator, Sequence

from bench.printing import Goal
from bench.quality.estimates import Estimate, group_by, mean, ratio, share, values
from bench.quality.experiment import Check, Experiment, Record, Run, Summary
from bench.quality.figure import Panel, Series
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.research.synthetic.scoring import MinedRule, score
from maabo_dist.settings import MiningSettings, TableSettings

DEFAULT_SEEDS, FIRST_SEED, ROWS = 20, 2000, 2000
NOTE = "A wide interval says little: consider the width together with the share of intervals that contain the truth."

CASES = {
    # name: (recipe, settings); wide and narrow tables, few and many probes, few and many random rules
    "paper, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"preset": "paper", "probes": 50, "trees": 2000, "gini": 0.4},
    ),
    "paper, 50 + 20": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"preset": "paper", "probes": 20, "trees": 2000, "gini": 0.4},
    ),
    "paper, 12 + 24": (
        {"features": 12, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"preset": "paper", "probes": 24, "trees": 2000, "gini": 0.4},
    ),
    "paper, 200 + 200": (
        {"features": 200, "conjunctions": (2, 3, 2), "coverage": (0.15,), "imbalance": 0.7},
        {"preset": "paper", "probes": 200, "trees": 4000, "gini": 0.4, "min_samples": 30},
    ),
    "paper, XOR, 200 + 200": (
        {"features": 200, "xor": 1, "xor_share": 0.5},
        {"literals": "paper", "probes": 200, "trees": 1000, "gini": 0.4},
    ),
    "supported, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"probes": 50, "trees": 2000, "gini": 0.4},
    ),
    "supported, 50 + 500": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"probes": 500, "trees": 2000, "gini": 0.4},
    ),
    "supported at 0.9, 50 + 50": (
        {"features": 50, "conjunctions": (2, 3, 2), "coverage": (0.15,)},
        {"significance": 0.9, "probes": 50, "trees": 2000, "gini": 0.5},
    ),
    "supported, XOR, 200 + 200": (
        {"features": 200, "conjunctions": (2, 3), "xor": 1},
        {"probes": 200, "trees": 1000, "gini": 0.4},
    ),
}


def measure(run: Run) -> Iterator[Record]:
    """Records of the tables that gave rules."""
    for case in list(CASES)[: 1 if run.quick else None]:
        for seed in run.seed_range(DEFAULT_SEEDS):
            yield from _trial(case, FIRST_SEED + seed, run.jobs)


def _trial(case: str, seed: int, jobs: int) -> Iterator[Record]:
    recipe, settings = CASES[case]
    table = generate(Recipe(rows=ROWS, seed=seed, **recipe))
    columns = prepare(table.frame, TableSettings(target="y")).columns
    result = mine(columns, MiningSettings(seed=seed, **settings), jobs=jobs)
    if not result.rules:
        return
    rules = [MinedRule(rule.id, rule.conditions, result.classes[rule.label]) for rule in result.rules]
    noisy, noise = score(rules, table.truth, fresh=0).totals["with_noise"], result.noise
    record: Record = {"case": case, "seed": seed, "rules": len(rules), "noisy": noisy, "with_probe": noise.with_probe}
    yield {**record, "estimate": noise.share, "low": noise.low, "high": noise.high}


def summarise(records: Sequence[Record]) -> Summary:
    groups = group_by(records, "case")
    columns = [
        "literals, columns + probes",
        "tables",
        "rules",
        "noisy %",
        "estimate %",
        "interval %",
        "contains the truth %",
    ]
    contained = _contains_truth(records)
    return Summary(
        columns,
        [_row(str(case), of) for case, of in groups.items()],
        [Check("interval contains the truth", 100 * contained.value, Goal(minimum=95), " %")],
        [NOTE],
    )


def _row(case: str, of: Sequence[Record]) -> list[str]:
    low, high = (100 * mean(values(of, name)).value for name in ("low", "high"))
    return [
        case,
        str(len(of)),
        mean(values(of, "rules")).format(".1f"),
        ratio(values(of, "noisy"), values(of, "rules")).percent,
        mean(values(of, "estimate")).percent,
        f"{low:.0f}–{high:.0f}",
        f"{100 * _contains_truth(of).value:.0f}",
    ]


def _contains_truth(records: Sequence[Record]) -> Estimate:
    return share([r["low"] - 1e-9 <= r["noisy"] / r["rules"] <= r["high"] + 1e-9 for r in records])


def panels(records: Sequence[Record]) -> list[Panel]:
    groups = group_by(records, "case")

    def bars(estimate) -> list[Series]:
        estimates = ((str(case), estimate(of)) for case, of in groups.items())
        return [Series(case, [100 * e.value], [100 * e.error]) for case, e in estimates]

    return [
        Panel("rules with a noise column", "%", bars(lambda of: ratio(values(of, "noisy"), values(of, "rules")))),
        Panel("as probes estimate it", "%", bars(lambda of: mean(values(of, "estimate")))),
        Panel("intervals that contain the truth", "%", bars(_contains_truth), goal=95),
    ]


PROBES = Experiment(
    name="probes",
    title="The estimate from probes, and the truth",
    about=f"Generated tables with {ROWS:,} rows, up to some hundred columns and probes; the paper's method publishes "
    "many rules with a noise column, and ours few. Tables without any rule are left out.",
    measure=measure,
    summarise=summarise,
    panels=panels,
)
