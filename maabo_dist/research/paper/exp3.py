"""Experiment 3: which rules are found, on three tables, with half of all trees and with a single one."""

from collections import defaultdict
from collections.abc import Sequence
from math import comb
from statistics import median

from maabo_dist._util.text import counted
from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import (
    AT_ONCE,
    METHOD,
    Case,
    Experiment,
    Findings,
    FoundRule,
    Outcome,
    Result,
    Row,
    TableKey,
)
from maabo_dist.research.paper.exp1 import NAMES
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, Series, error, mean
from maabo_dist.research.paper.tables import PaperTable

_TITLES = {"titanic": "Titanic", "boston": "Boston", "diabetes": "Diabetes"}
_SUBSET = 3
_NOTE = (
    "Found is by how many searches, or whether by the single tree: a rule of the same class and columns, with the same "
    "n and the same Gini in two digits."
)

Sorted = dict[tuple[str, str], list[Outcome]]
"""Outcomes by table and arm, in the order of their seeds."""


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    """The split is the one with which the printed tree comes out; seeds are of the search."""
    cases = []
    for table in tables:
        space = comb(table.features, _SUBSET)
        base = METHOD.model_copy(
            update={"max_depth": table.max_depth, "split_seed": table.split_seed, "trees": space // 2}
        )
        random = base.model_copy(update={"strategy": "random", "batch": AT_ONCE})
        everything = random.model_copy(update={"strategy": "exhaustive", "trees": space})
        single = base.model_copy(update={"strategy": "single", "trees": None})
        key = TableKey(table.name, impute="mean")
        cases.append(Case("all", 0, key, everything))
        for seed in range(seeds):
            for arm, settings in (("maabo", base), ("random", random)):
                cases.append(Case(arm, seed, key, settings.model_copy(update={"seed": seed})))
        cases.append(Case("single", 0, key, single))
    return cases


def _findings(results: Sequence[Result]) -> Findings:
    found: Sorted = defaultdict(list)
    for case, outcome in results:
        found[case.table.name, case.arm].append(outcome)
    rows = {"exp3": [_row(*result) for result in results], "exp3_rules": _rule_rows(results)}
    return Findings(rows, (_sizes(found), _rules(found)), _panels(found))


def _row(case: Case, outcome: Outcome) -> Row:
    return {
        "dataset": case.table.name,
        "arm": case.arm,
        "trees": outcome.trees,
        "seed": case.seed,
        "leaves": outcome.leaves,
        "rules": len(outcome.rules),
    }


def _rule_rows(results: Sequence[Result]) -> list[Row]:
    return [
        {
            "dataset": case.table.name,
            "arm": case.arm,
            "seed": case.seed,
            "rule": rule.id,
            "class": rule.label,
            "n": rule.n,
            "gini": round(rule.gini, 4),
            "text": rule.text,
        }
        for case, outcome in results
        for rule in outcome.rules
    ]


def _sizes(found: Sorted) -> Comparison:
    lines = []
    for (table, arm), outcomes in found.items():
        leaves, rules = _range([each.leaves for each in outcomes]), _range([len(each.rules) for each in outcomes])
        size = printed.SIZES.get((table, arm))
        paper = (NOT_PRINTED, NOT_PRINTED) if size is None else (str(size.leaves), str(size.rules))
        trees = str(outcomes[0].trees)
        lines.append((_TITLES[table], NAMES[arm], trees, leaves, paper[0], rules, paper[1]))
    seeds = counted(max(map(len, found.values())), "seed")
    return Comparison(
        "Experiment 3: leaf nodes and extracted rules",
        ("dataset", "arm", "trees", "leaves, ours", "leaves, paper", "rules, ours", "rules, paper"),
        tuple(lines),
        (f"B and C: the median of {seeds} of the search, and the least and the most of them.",),
    )


def _range(values: Sequence[int]) -> str:
    """`462 (440–481)`, or one number where there is but one."""
    middle = f"{median(values):g}"
    return middle if min(values) == max(values) else f"{middle} ({min(values)}–{max(values)})"


def _rules(found: Sorted) -> Comparison:
    lines = [
        (
            f"{_TITLES[rule.table]} {rule.id}",
            f"{rule.label}: {rule.text}",
            str(rule.n),
            f"{rule.gini:.2f}",
            _having(rule, found[rule.table, rule.arm]),
            _having(rule, found[rule.table, "all"]) if rule.arm == "maabo" else "",
        )
        for rule in printed.RULES
        if (rule.table, rule.arm) in found
    ]
    return Comparison(
        "Experiment 3: the printed rules in ours",
        ("rule", "as the paper prints it", "n", "Gini", "found", "by all trees"),
        tuple(lines),
        (_NOTE,),
    )


def _having(rule: printed.PrintedRule, outcomes: Sequence[Outcome]) -> str:
    having = sum(any(_same(rule, each) for each in outcome.rules) for outcome in outcomes)
    return f"{having} of {len(outcomes)}" if len(outcomes) > 1 else ("yes" if having else "no")


def _same(rule: printed.PrintedRule, ours: FoundRule) -> bool:
    """By class, size, Gini index and columns: directions are the class's business, thresholds are not printed."""
    sizes = (rule.n, f"{rule.gini:.2f}") == (ours.n, f"{ours.gini:.2f}")
    return sizes and rule.features == {name.lower() for name in ours.features} and rule.upper == _upper(ours.label)


def _upper(label: str) -> bool:
    """Whether it is the class of survival, of high price or of high progression."""
    return label.lower() in {"1", "high"} or " > " in label


def _panels(found: Sorted) -> tuple[Panel, ...]:
    tables = list(dict.fromkeys(table for table, _ in found))

    def bars(arm: str, values: dict[str, list[float]]) -> Series:
        known = [(place, values[table]) for place, table in enumerate(tables)]
        return Series(
            NAMES[arm],
            tuple(place for place, _ in known),
            tuple(mean(each) for _, each in known),
            tuple(error(each) for _, each in known),
        )

    def panel(title: str, label: str, measure: str) -> Panel:
        taken = {
            arm: {table: [_measured(each, measure) for each in found[table, arm]] for table in tables} for arm in NAMES
        }
        ticks = tuple(_TITLES[table] for table in tables)
        return Panel(title, "", label, tuple(bars(arm, taken[arm]) for arm in NAMES), bars=True, ticks=ticks)

    return (
        panel("(1) Leaf nodes", "Leaf nodes size |L|", "leaves"),
        panel("(2) Rules", "Extracted rules size |L′|", "rules"),
    )


def _measured(outcome: Outcome, measure: str) -> float:
    return outcome.leaves if measure == "leaves" else len(outcome.rules)


EXP3 = Experiment(
    "exp3",
    "Details of rules extracted by MAABO-MT and GS-MRM",
    seeds=50,
    cases=_cases,
    findings=_findings,
    tables=("titanic", "boston", "diabetes"),
)
