"""Experiments 1 and 3: the number of rules by the number of trees, and the rules of three tables."""

from collections.abc import Callable, Mapping, Sequence
from math import comb
from statistics import median

from maabo_dist._util.text import format_count
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.research.paper import output, printed
from maabo_dist.research.paper.cases import (
    Case,
    Experiment,
    Outcome,
    Result,
    TableKey,
    group_outcomes,
    method,
    rule_columns,
)
from maabo_dist.research.paper.tables import PaperTable
from maabo_dist.settings import MiningSettings

ARMS = {"all": "A. All trees", "maabo": "B. MAABO-MT", "random": "C. Randomized trees", "single": "D. Single tree"}
SUBSET_SIZE = 3
# Where no tree influences the choice of the next one, many are proposed together: same result, but faster.
LARGE_BATCH = 256

Measure = Callable[[Sequence[Outcome]], Sequence[float]]


def rule_counts(outcomes: Sequence[Outcome]) -> list[float]:
    """The number of rules of each outcome."""
    return [len(outcome.rules) for outcome in outcomes]


def curves(
    groups: Mapping[tuple[str, int], Sequence[Outcome]], names: Mapping[str, str], measure: Measure
) -> tuple[output.Series, ...]:
    """A series for each of the arms `names` over the number that outcomes are grouped by."""
    return tuple(
        output.mean_series(name, {x: measure(outcomes) for (each, x), outcomes in groups.items() if each == arm})
        for arm, name in names.items()
    )


# Experiment 1: the number of rules by the number of trees

TREE_STEP = 10


def exp1_arms(features: int, max_depth: int) -> list[tuple[str, MiningSettings]]:
    """Return every arm at every number of trees, for a table with this many features; seeds are set later."""
    space = comb(features, SUBSET_SIZE)
    budgets = range(TREE_STEP, space, TREE_STEP)
    random = {"strategy": "random", "batch": TREE_STEP}
    return [
        ("all", method(max_depth=max_depth, strategy="exhaustive", trees=space, batch=LARGE_BATCH)),
        *(("maabo", method(max_depth=max_depth, trees=trees)) for trees in budgets),
        *(("random", method(max_depth=max_depth, trees=trees, **random)) for trees in budgets),
        ("single", method(max_depth=max_depth, strategy="single")),
    ]


def _exp1_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    return [
        Case(arm, seed, TableKey(table.name), settings.model_copy(update={"seed": seed, "split_seed": seed}))
        for table in tables
        for seed in range(seeds)
        for arm, settings in exp1_arms(table.features, table.max_depth)
    ]


def _exp1_findings(results: Sequence[Result]) -> output.Findings:
    rows: list[output.Row] = [
        {"arm": case.arm, "trees": outcome.trees, "seed": case.seed, "rules": len(outcome.rules)}
        for case, outcome in results
    ]
    groups = group_outcomes(results, lambda case, outcome: (case.arm, outcome.trees))
    counts = {key: rule_counts(outcomes) for key, outcomes in groups.items()}
    (everything,) = (trees for arm, trees in groups if arm == "all")
    all_trees, single = (
        output.Series(
            ARMS[arm], (), (output.mean(counts[arm, trees]),), (output.mean_error(counts[arm, trees]),), level=True
        )
        for arm, trees in (("all", everything), ("single", 1))
    )
    searches = curves(groups, {arm: ARMS[arm] for arm in ("maabo", "random")}, rule_counts)
    panel = output.Panel("", "Number of trees", "Number of extracted rules", (all_trees, *searches, single))
    return output.Findings({"exp1": rows}, (_exp1_comparison(results[0][0].table.name, counts, everything),), (panel,))


def _exp1_comparison(table: str, counts: Mapping[tuple[str, int], list[float]], everything: int) -> output.Comparison:
    paper = printed.EXP1 if table == "titanic" else {}
    lines = [
        (ARMS[arm], str(trees), output.format_mean(values), paper.get(arm, output.NOT_PRINTED))
        for (arm, trees), values in counts.items()
    ]
    half = max((trees for arm, trees in counts if arm == "maabo" and 2 * trees <= everything), default=None)
    if half is not None:
        whole = output.mean(counts["all", everything])
        share = f"{100 * output.mean(counts['maabo', half]) / whole:.0f} % of the rules" if whole else "–"
        lines.append(("B of A", str(half), share, paper.get("half", output.NOT_PRINTED)))
    seeds = format_count(len(counts["all", everything]), "seed")
    title = f"Experiment 1, {table}: rules extracted, mean ± 0.5 std of {seeds}"
    return output.Comparison(title, ("arm", "trees", "ours", "paper"), tuple(lines))


# Experiment 3: the rules of three tables

_TITLES = {"titanic": "Titanic", "boston": "Boston", "diabetes": "Diabetes"}
_EXP3_NOTE = (
    "Found: the number of searches that found the rule, or whether the single tree has it. A rule is the same if class "
    "and columns, n, and Gini to two digits are."
)

TableOutcomes = Mapping[tuple[str, str], Sequence[Outcome]]  # outcomes by table and arm, in the order of their seeds


def _exp3_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    """The split is the one that reproduces the printed tree; seeds are those of the search."""
    cases = []
    for table in tables:
        space = comb(table.features, SUBSET_SIZE)
        base = method(max_depth=table.max_depth, split_seed=table.split_seed, trees=space // 2)
        random = base.model_copy(update={"strategy": "random", "batch": LARGE_BATCH})
        everything = random.model_copy(update={"strategy": "exhaustive", "trees": space})
        single = base.model_copy(update={"strategy": "single", "trees": None})
        key = TableKey(table.name, impute="mean")
        cases.append(Case("all", 0, key, everything))
        for seed in range(seeds):
            for arm, settings in (("maabo", base), ("random", random)):
                cases.append(Case(arm, seed, key, settings.model_copy(update={"seed": seed})))
        cases.append(Case("single", 0, key, single))
    return cases


def _exp3_findings(results: Sequence[Result]) -> output.Findings:
    groups = group_outcomes(results, lambda case, _: (case.table.name, case.arm))
    tables = list(dict.fromkeys(table for table, _ in groups))
    by_position = {(arm, tables.index(table)): outcomes for (table, arm), outcomes in groups.items()}

    def panel(title: str, label: str, measure: Measure) -> output.Panel:
        ticks = tuple(_TITLES[table] for table in tables)
        return output.Panel(title, "", label, curves(by_position, ARMS, measure), bars=True, ticks=ticks)

    panels = (
        panel("(1) Leaf nodes", "Leaf nodes size |L|", lambda outcomes: [each.leaves for each in outcomes]),
        panel("(2) Rules", "Extracted rules size |L′|", rule_counts),
    )
    rows: list[output.Row] = [
        {
            "dataset": case.table.name,
            "arm": case.arm,
            "trees": outcome.trees,
            "seed": case.seed,
            "leaves": outcome.leaves,
            "rules": len(outcome.rules),
        }
        for case, outcome in results
    ]
    return output.Findings({"exp3": rows, "exp3_rules": _rule_rows(results)}, (_sizes(groups), _rules(groups)), panels)


def _rule_rows(results: Sequence[Result]) -> list[output.Row]:
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


def _sizes(groups: TableOutcomes) -> output.Comparison:
    lines = []
    for (table, arm), outcomes in groups.items():
        leaves, rules = _range([each.leaves for each in outcomes]), _range([len(each.rules) for each in outcomes])
        paper = printed.SIZES.get((table, arm), (output.NOT_PRINTED, output.NOT_PRINTED))
        trees = str(outcomes[0].trees)
        lines.append((_TITLES[table], ARMS[arm], trees, leaves, str(paper[0]), rules, str(paper[1])))
    seeds = format_count(max(map(len, groups.values())), "seed")
    head = ("dataset", "arm", "trees", "leaves, ours", "leaves, paper", "rules, ours", "rules, paper")
    note = f"B and C: the median over {seeds} of the search, with the smallest and the largest value."
    return output.Comparison("Experiment 3: leaf nodes and extracted rules", head, tuple(lines), (note,))


def _range(values: Sequence[int]) -> str:
    """`462 (440–481)`, or a single number if all are equal."""
    middle = f"{median(values):g}"
    return middle if min(values) == max(values) else f"{middle} ({min(values)}–{max(values)})"


def _rules(groups: TableOutcomes) -> output.Comparison:
    lines = [
        (
            f"{_TITLES[rule.table]} {rule.id}",
            f"{rule.label}: {rule.text}",
            str(rule.n),
            f"{rule.gini:.2f}",
            _count_found(rule, groups[rule.table, rule.arm]),
            _count_found(rule, groups[rule.table, "all"]) if rule.arm == "maabo" else "",
        )
        for rule in printed.RULES
        if (rule.table, rule.arm) in groups
    ]
    head = ("rule", "as the paper prints it", "n", "Gini", "found", "by all trees")
    return output.Comparison("Experiment 3: the printed rules among ours", head, tuple(lines), (_EXP3_NOTE,))


def _count_found(rule: printed.PrintedRule, outcomes: Sequence[Outcome]) -> str:
    count = sum(any(_is_same(rule, each) for each in outcome.rules) for outcome in outcomes)
    return f"{count} of {len(outcomes)}" if len(outcomes) > 1 else ("yes" if count else "no")


def _is_same(rule: printed.PrintedRule, ours: RuleRecord) -> bool:
    """Compare class, size, Gini index and columns: directions follow from the class, thresholds are not printed."""
    sizes = (rule.n, f"{rule.gini:.2f}") == (ours.n, f"{ours.gini:.2f}")
    columns = {condition.partition("/")[0].lower() for condition in rule.text.split(", ")}
    # True for the class of survival, of a high price or of high progression
    upper = rule.label == "Survival" or rule.label.startswith("High")
    our_upper = ours.label.lower() in {"1", "high"} or " > " in ours.label
    return sizes and columns == {name.lower() for name in rule_columns(ours)} and upper == our_upper


EXP1 = Experiment("exp1", "Effectiveness of MAABO-MT on extracting rules", 50, _exp1_cases, _exp1_findings)
EXP3 = Experiment(
    "exp3", "Details of rules extracted by MAABO-MT and GS-MRM", 50, _exp3_cases, _exp3_findings, tuple(_TITLES)
)
