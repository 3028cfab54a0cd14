"""Experiment 2, robustness against columns of noise, and what Appendix 3 shares with it."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from maabo_dist._util.text import counted
from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import AT_ONCE, METHOD, Case, Experiment, Findings, Outcome, Result, Row, TableKey
from maabo_dist.research.paper.exp1 import NAMES
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, Series, in_percent, series, spread
from maabo_dist.research.paper.tables import MOST_NOISE, PaperTable

TREES = 110
NOISES = range(1, MOST_NOISE + 1)
SHOWN = (1, 5, 10, 15, 16, 20)
"""Numbers of noise columns that the table tells of; the plot and the CSV have all."""
X_LABEL = "Number of noise features"
_NOTE = (
    "Noise content is the share of noise among the columns that rules use; the paper plots a content and prints no "
    "figure of it. Means are over the seeds that give rules."
)

Points = dict[str, dict[int, list[Outcome]]]
"""Outcomes by arm and number of noise columns."""


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    arms = {"maabo": {}, "random": {"strategy": "random", "batch": AT_ONCE}}
    return [
        Case(
            arm,
            seed,
            TableKey(table.name, noise=noise, seed=seed),
            METHOD.model_copy(
                update={"max_depth": table.max_depth, "trees": TREES, "seed": seed, "split_seed": seed, **changes}
            ),
        )
        for table in tables
        for seed in range(seeds)
        for noise in NOISES
        for arm, changes in arms.items()
    ]


def noisy_row(case: Case, outcome: Outcome) -> Row:
    """A line of raw results: how much noise is in the rules."""
    return {
        "noise": case.table.noise,
        "arm": case.arm,
        "trees": outcome.trees,
        "seed": case.seed,
        "rules": len(outcome.rules),
        "noisy_rules": outcome.noisy_rules,
        "features_used": outcome.used,
        "noise_features_used": outcome.noise_used,
    }


def by_arm(results: Sequence[Result]) -> Points:
    """The outcomes, sorted."""
    found: Points = defaultdict(lambda: defaultdict(list))
    for case, outcome in results:
        found[case.arm][case.table.noise].append(outcome)
    return found


def rules_of(outcomes: Sequence[Outcome]) -> list[float]:
    """How many rules each has."""
    return [len(outcome.rules) for outcome in outcomes]


def noisy_share(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of the rules that have noise in them, of each that has rules."""
    return [outcome.noisy_rules / len(outcome.rules) for outcome in outcomes if outcome.rules]


def used_share(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of noise among the columns that rules use, of each that has rules."""
    return [outcome.noise_used / outcome.used for outcome in outcomes if outcome.used]


def curves(
    points: Points, names: dict[str, str], measure: Callable[[Sequence[Outcome]], Sequence[float]]
) -> tuple[Series, ...]:
    """A series for each arm over the number of noise columns."""
    return tuple(
        series(names[arm], {noise: measure(outcomes) for noise, outcomes in found.items()})
        for arm, found in points.items()
    )


def _findings(results: Sequence[Result]) -> Findings:
    points = by_arm(results)
    panels = (
        Panel("(1) Rules", X_LABEL, "Number of extracted rules", curves(points, NAMES, rules_of)),
        Panel("(2) Noise in the rules", X_LABEL, "Noise content rate", curves(points, NAMES, used_share), percent=True),
    )
    rows = [noisy_row(*result) for result in results]
    return Findings({"exp2": rows}, (_comparison(results, points),), panels)


def _comparison(results: Sequence[Result], points: Points) -> Comparison:
    name = results[0][0].table.name
    lines = [
        (
            NAMES[arm],
            str(noise),
            spread(rules_of(found[noise])),
            _printed(name, arm, noise),
            in_percent(used_share(found[noise])),
            in_percent(noisy_share(found[noise])),
        )
        for arm, found in points.items()
        for noise in SHOWN
    ]
    seeds = len(points["maabo"][NOISES[0]])
    return Comparison(
        f"Experiment 2, {name}: {TREES} trees beside columns of noise, {counted(seeds, 'seed')}",
        ("arm", "noise", "rules, ours", "rules, paper", "noise content", "rules with noise"),
        tuple(lines),
        (_NOTE,),
    )


def _printed(name: str, arm: str, noise: int) -> str:
    known = name == "titanic" and arm == "random" and noise > printed.EXP2_RANDOM_FROM
    return printed.EXP2_RANDOM if known else NOT_PRINTED


EXP2 = Experiment("exp2", "Robustness against noise features", seeds=50, cases=_cases, findings=_findings)
