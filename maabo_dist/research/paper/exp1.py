"""Experiment 1: how many rules are found, by the number of trees."""

from collections import defaultdict
from collections.abc import Sequence
from math import comb

from maabo_dist._util.text import counted
from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import AT_ONCE, METHOD, Case, Experiment, Findings, Result, Row, TableKey
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, Series, error, mean, series, spread
from maabo_dist.research.paper.tables import PaperTable
from maabo_dist.settings import MiningSettings

STEP = 10
NAMES = {"all": "A. All trees", "maabo": "B. MAABO-MT", "random": "C. Randomized trees", "single": "D. Single tree"}
_SUBSET = 3


def arms(features: int, max_depth: int) -> list[tuple[str, MiningSettings]]:
    """Every arm at every number of trees, for a table of so many features; seeds are yet to be set."""
    space = comb(features, _SUBSET)
    budgets = range(STEP, space, STEP)
    base = METHOD.model_copy(update={"max_depth": max_depth})
    return [
        ("all", base.model_copy(update={"strategy": "exhaustive", "trees": space, "batch": AT_ONCE})),
        *(("maabo", base.model_copy(update={"trees": trees})) for trees in budgets),
        *(
            ("random", base.model_copy(update={"strategy": "random", "trees": trees, "batch": STEP}))
            for trees in budgets
        ),
        ("single", base.model_copy(update={"strategy": "single"})),
    ]


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    return [
        Case(arm, seed, TableKey(table.name), settings.model_copy(update={"seed": seed, "split_seed": seed}))
        for table in tables
        for seed in range(seeds)
        for arm, settings in arms(table.features, table.max_depth)
    ]


def _findings(results: Sequence[Result]) -> Findings:
    rows: list[Row] = [
        {"arm": case.arm, "trees": outcome.trees, "seed": case.seed, "rules": len(outcome.rules)}
        for case, outcome in results
    ]
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for case, outcome in results:
        found[case.arm, outcome.trees].append(len(outcome.rules))
    name = results[0][0].table.name
    return Findings({"exp1": rows}, (_comparison(name, found),), (_panel(found),))


def _comparison(name: str, found: dict[tuple[str, int], list[float]]) -> Comparison:
    own = name == "titanic"
    lines = [
        (NAMES[arm], str(trees), spread(values), printed.EXP1.get(arm, NOT_PRINTED) if own else NOT_PRINTED)
        for (arm, trees), values in found.items()
    ]
    everything = max(trees for arm, trees in found if arm == "all")
    half = max((trees for arm, trees in found if arm == "maabo" and 2 * trees <= everything), default=None)
    if half is not None:
        lines.append(
            (
                "B of A",
                str(half),
                _share(mean(found["maabo", half]), mean(found["all", everything])),
                printed.EXP1_HALF if own else NOT_PRINTED,
            )
        )
    title = f"Experiment 1, {name}: rules extracted, mean ± 0.5 std of {counted(len(found['all', everything]), 'seed')}"
    return Comparison(title, ("arm", "trees", "ours", "paper"), tuple(lines))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} % of the rules" if whole else "–"


def _panel(found: dict[tuple[str, int], list[float]]) -> Panel:
    def of(arm: str) -> dict[float, Sequence[float]]:
        return {trees: values for (each, trees), values in found.items() if each == arm}

    def level(arm: str) -> Series:
        (values,) = of(arm).values()
        return Series(NAMES[arm], (), (mean(values),), (error(values),), level=True)

    curves = (series(NAMES[arm], of(arm)) for arm in ("maabo", "random"))
    return Panel("", "Number of trees", "Number of extracted rules", (level("all"), *curves, level("single")))


EXP1 = Experiment("exp1", "Effectiveness of MAABO-MT on extracting rules", seeds=50, cases=_cases, findings=_findings)
