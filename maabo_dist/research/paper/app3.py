"""Appendix 3: what a small sample of candidates saves, and what it costs."""

from collections.abc import Sequence

from maabo_dist._util.text import counted
from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import METHOD, Case, Experiment, Findings, Outcome, Result, Row, TableKey
from maabo_dist.research.paper.exp2 import (
    NOISES,
    TREES,
    X_LABEL,
    Points,
    by_arm,
    curves,
    noisy_row,
    noisy_share,
    rules_of,
    used_share,
)
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, in_percent, mean, spread
from maabo_dist.research.paper.tables import PaperTable

SAMPLES: dict[str, int | str] = {"10": 10, "100": 100, "1000": 1000, "all": "all"}
"""N_E, by the name of its arm."""
NAMES = {"10": "N_E = 10", "100": "N_E = 100", "1000": "N_E = 1000", "all": "N_E → ∞"}
_NOTE = (
    "Time is that of the processor, or on a cluster from the job's start to its end. The paper's figure is for no "
    "number of noise features in particular."
)


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    return [
        Case(
            arm,
            seed,
            TableKey(table.name, noise=noise, seed=seed),
            METHOD.model_copy(
                update={
                    "max_depth": table.max_depth,
                    "trees": TREES,
                    "top_features": (features + noise) // 5,
                    "candidates": sample,
                    "seed": seed,
                    "split_seed": seed,
                }
            ),
        )
        for table in tables
        for features in [table.features]
        for seed in range(seeds)
        for noise in NOISES
        for arm, sample in SAMPLES.items()
    ]


def _row(case: Case, outcome: Outcome) -> Row:
    row = noisy_row(case, outcome)
    candidates = {"candidates": row.pop("arm")}
    return {"noise": row.pop("noise"), **candidates, **row, "seconds": outcome.seconds}


def seconds_of(outcomes: Sequence[Outcome]) -> list[float]:
    """What each run took."""
    return [outcome.seconds for outcome in outcomes]


def _findings(results: Sequence[Result]) -> Findings:
    points = by_arm(results)
    panels = (
        Panel("(1) Time", X_LABEL, "Computation time (s)", curves(points, NAMES, seconds_of)),
        Panel("(2) Rules", X_LABEL, "Number of extracted rules", curves(points, NAMES, rules_of)),
        Panel("(3) Noise in the rules", X_LABEL, "Noise content rate", curves(points, NAMES, used_share), percent=True),
    )
    rows = [_row(*result) for result in results]
    return Findings({"app3": rows}, (_comparison(results, points),), panels)


def _comparison(results: Sequence[Result], points: Points) -> Comparison:
    name = results[0][0].table.name
    lines = [
        (
            NAMES[arm],
            str(noise),
            f"{1000 * mean(seconds_of(found[noise])):.0f} ms",
            _share(points, arm, noise),
            printed.APP3_TIME if (name, arm, noise) == ("titanic", "1000", NOISES[-1]) else NOT_PRINTED,
            spread(rules_of(found[noise])),
            in_percent(used_share(found[noise])),
            in_percent(noisy_share(found[noise])),
        )
        for arm, found in points.items()
        for noise in (1, 10, 20)
    ]
    return Comparison(
        f"Appendix 3, {name}: {TREES} trees, N_U = ⌊D/5⌋, {counted(len(points['all'][NOISES[0]]), 'seed')}",
        ("candidates", "noise", "time", "of N_E → ∞", "… paper", "rules", "noise content", "rules with noise"),
        tuple(lines),
        (_NOTE,),
    )


def _share(points: Points, arm: str, noise: int) -> str:
    whole = mean(seconds_of(points["all"][noise]))
    return f"{100 * mean(seconds_of(points[arm][noise])) / whole:.0f} %" if whole else "–"


APP3 = Experiment("app3", "Calculation cost", seeds=50, cases=_cases, findings=_findings)
