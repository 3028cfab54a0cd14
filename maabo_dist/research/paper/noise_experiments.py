"""Experiment 2 and the appendices: the noise in rules and trees from added noise columns, and the MAA function."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maabo_dist._util.text import format_count
from maabo_dist.research.paper import output, printed
from maabo_dist.research.paper.cases import (
    Case,
    Experiment,
    Outcome,
    Result,
    TableKey,
    TunedTree,
    group_outcomes,
    method,
)
from maabo_dist.research.paper.rule_experiments import ARMS, LARGE_BATCH, Measure, curves, rule_counts
from maabo_dist.research.paper.tables import MAX_NOISE, PaperTable, is_noise
from maabo_dist.search.maa import mismatch_counts, mismatch_values

NOISE_TREES = 110
NOISES = range(1, MAX_NOISE + 1)
NOISE_LABEL = "Number of noise features"


def noisy_rule_shares(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of rules with a noise column, for each outcome that has rules."""
    return [outcome.noisy_rules / len(outcome.rules) for outcome in outcomes if outcome.rules]


def noise_shares(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of noise among the columns that rules use, for each outcome that has rules."""
    return [outcome.noise_columns / outcome.columns for outcome in outcomes if outcome.columns]


def noise_cases(
    tables: Sequence[PaperTable],
    seeds: int,
    noises: Sequence[int],
    arms: Callable[[int], Mapping[str, Mapping[str, Any]]],
    leaf_sizes: tuple[int, ...] = (),
) -> list[Case]:
    """Every arm with every number of noise columns; `arms` returns each arm's settings for a number of features."""
    return [
        Case(
            arm,
            seed,
            TableKey(table.name, noise=noise, seed=seed),
            method(**{"max_depth": table.max_depth, "seed": seed, "split_seed": seed, **settings}),
            leaf_sizes,
        )
        for table in tables
        for features in [table.features]
        for seed in range(seeds)
        for noise in noises
        for arm, settings in arms(features + noise).items()
    ]


def noise_row(case: Case, outcome: Outcome) -> output.Row:
    """A line of raw results: the noise in the rules of a case."""
    return {
        "noise": case.table.noise,
        "arm": case.arm,
        "trees": outcome.trees,
        "seed": case.seed,
        "rules": len(outcome.rules),
        "noisy_rules": outcome.noisy_rules,
        "features_used": outcome.columns,
        "noise_features_used": outcome.noise_columns,
    }


# Experiment 2: robustness of the rules against noise columns

_EXP2_TABLE = (1, 5, 10, 15, 16, 20)  # numbers of noise columns in the table; the plot and the CSV file have all
_EXP2_NOTE = (
    "Noise content is the share of noise among the columns that rules use; the paper plots it but prints no figure. "
    "Means are over the seeds that give rules."
)


def _exp2_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    random = {"strategy": "random", "batch": LARGE_BATCH, "trees": NOISE_TREES}
    return noise_cases(tables, seeds, NOISES, lambda _: {"maabo": {"trees": NOISE_TREES}, "random": random})


def _exp2_findings(results: Sequence[Result]) -> output.Findings:
    groups = group_outcomes(results, lambda case, _: (case.arm, case.table.noise))
    names = {arm: ARMS[arm] for arm in ("maabo", "random")}
    content = curves(groups, names, noise_shares)
    panels = (
        output.Panel("(1) Rules", NOISE_LABEL, "Number of extracted rules", curves(groups, names, rule_counts)),
        output.Panel("(2) Noise in the rules", NOISE_LABEL, "Noise content rate", content, percent=True),
    )
    table = results[0][0].table.name
    paper = printed.EXP2_RANDOM if table == "titanic" else output.NOT_PRINTED
    lines = [
        (
            name,
            str(noise),
            output.format_mean(rule_counts(groups[arm, noise])),
            paper if arm == "random" and noise > printed.EXP2_RANDOM_FROM else output.NOT_PRINTED,
            output.format_percent(noise_shares(groups[arm, noise])),
            output.format_percent(noisy_rule_shares(groups[arm, noise])),
        )
        for arm, name in names.items()
        for noise in _EXP2_TABLE
    ]
    seeds = format_count(len(groups["maabo", NOISES[0]]), "seed")
    title = f"Experiment 2, {table}: {NOISE_TREES} trees, with added noise columns, {seeds}"
    head = ("arm", "noise", "rules, ours", "rules, paper", "noise content", "rules with noise")
    comparison = output.Comparison(title, head, tuple(lines), (_EXP2_NOTE,))
    return output.Findings({"exp2": [noise_row(*result) for result in results]}, (comparison,), panels)


# Appendix 1: the noise that a single tree takes in, its depth and leaf size chosen on the validation rows

LEAF_SIZES = tuple(range(1, 101))
_APP1_TABLE = (0, 1, 5, 10, 15, 20)
_APP1_NOTE = (
    "Noise content is the share of noise among the columns that a tree splits by. The paper plots F1 and noise but "
    "prints no figures."
)


def _app1_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    single = {"single": {"strategy": "single", "max_depth": 5}}
    return noise_cases(tables, seeds, range(MAX_NOISE + 1), lambda _: single, LEAF_SIZES)


def _app1_findings(results: Sequence[Result]) -> output.Findings:
    groups = group_outcomes(results, lambda case, _: case.table.noise)

    def panel(title: str, label: str, measure: Measure, *, percent: bool = False) -> output.Panel:
        series = output.mean_series("Single tree", {noise: measure(outcomes) for noise, outcomes in groups.items()})
        return output.Panel(title, NOISE_LABEL, label, (series,), percent=percent)

    panels = (
        panel("(1) Depth", "Maximum depth", _depths),
        panel("(2) Validation score", "Macro F1 score", _scores),
        panel("(3) Noise in the trees", "Rate of noise features", _tree_noise_shares, percent=True),
    )
    table = results[0][0].table.name
    lines = [
        (
            str(noise),
            output.format_mean(_depths(groups[noise])),
            printed.APP1_DEPTH if table == "titanic" else output.NOT_PRINTED,
            f"{output.mean(_scores(groups[noise])):.3f}",
            output.format_percent(_tree_noise_shares(groups[noise])),
            output.format_percent([float(share > 0) for share in _tree_noise_shares(groups[noise])]),
        )
        for noise in _APP1_TABLE
    ]
    title = f"Appendix 1, {table}: a single tree, with added noise columns, {format_count(len(groups[0]), 'seed')}"
    head = ("noise", "depth, ours", "depth, paper", "macro F1", "noise content", "trees with noise")
    comparison = output.Comparison(title, head, tuple(lines), (_APP1_NOTE,))
    return output.Findings({"app1": [_app1_row(*result) for result in results]}, (comparison,), panels)


def _app1_row(case: Case, outcome: Outcome) -> output.Row:
    (tree,) = _trees([outcome])
    return {
        "noise": case.table.noise,
        "seed": case.seed,
        "max_depth": tree.depth,
        "min_samples_leaf": tree.leaf_size,
        "macro_f1": outcome.score,
        "features_used": len(tree.features),
        "noise_features_used": sum(map(is_noise, tree.features)),
    }


def _trees(outcomes: Sequence[Outcome]) -> list[TunedTree]:
    return [outcome.tree for outcome in outcomes if outcome.tree is not None]


def _depths(outcomes: Sequence[Outcome]) -> list[float]:
    return [tree.depth for tree in _trees(outcomes)]


def _scores(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.score for outcome in outcomes if outcome.score is not None]


def _tree_noise_shares(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of noise among the columns that each tree splits by; 0 for a tree with a single node."""
    return [sum(map(is_noise, tree.features)) / max(1, len(tree.features)) for tree in _trees(outcomes)]


# Appendix 3: the time that a sample of the candidates saves, and what it costs

# The arms, which are named after the number of candidates N_E, and their labels.
_SAMPLES = {"10": "N_E = 10", "100": "N_E = 100", "1000": "N_E = 1000", "all": "N_E → ∞"}
_APP3_NOTE = (
    "Time is CPU time, or on a cluster the time from the start of the job to its end. The paper's figure is not for a "
    "particular number of noise features."
)


def _app3_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    def arms(features: int) -> dict[str, dict[str, Any]]:
        settings = {"trees": NOISE_TREES, "top_features": features // 5}
        return {arm: {**settings, "candidates": "all" if arm == "all" else int(arm)} for arm in _SAMPLES}

    return noise_cases(tables, seeds, NOISES, arms)


def _app3_findings(results: Sequence[Result]) -> output.Findings:
    groups = group_outcomes(results, lambda case, _: (case.arm, case.table.noise))
    content = curves(groups, _SAMPLES, noise_shares)
    panels = (
        output.Panel("(1) Time", NOISE_LABEL, "Computation time (s)", curves(groups, _SAMPLES, _seconds)),
        output.Panel("(2) Rules", NOISE_LABEL, "Number of extracted rules", curves(groups, _SAMPLES, rule_counts)),
        output.Panel("(3) Noise in the rules", NOISE_LABEL, "Noise content rate", content, percent=True),
    )
    table = results[0][0].table.name
    lines = [
        (
            name,
            str(noise),
            f"{1000 * output.mean(_seconds(groups[arm, noise])):.0f} ms",
            _time_share(groups[arm, noise], groups["all", noise]),
            printed.APP3_TIME if (table, arm, noise) == ("titanic", "1000", NOISES[-1]) else output.NOT_PRINTED,
            output.format_mean(rule_counts(groups[arm, noise])),
            output.format_percent(noise_shares(groups[arm, noise])),
            output.format_percent(noisy_rule_shares(groups[arm, noise])),
        )
        for arm, name in _SAMPLES.items()
        for noise in (1, 10, 20)
    ]
    seeds = format_count(len(groups["all", NOISES[0]]), "seed")
    title = f"Appendix 3, {table}: {NOISE_TREES} trees, N_U = ⌊D/5⌋, {seeds}"
    head = ("candidates", "noise", "time", "of N_E → ∞", "… paper", "rules", "noise content", "rules with noise")
    comparison = output.Comparison(title, head, tuple(lines), (_APP3_NOTE,))
    return output.Findings({"app3": [_app3_row(*result) for result in results]}, (comparison,), panels)


def _app3_row(case: Case, outcome: Outcome) -> output.Row:
    row = noise_row(case, outcome)
    return {"noise": row.pop("noise"), "candidates": row.pop("arm"), **row, "seconds": outcome.seconds}


def _seconds(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.seconds for outcome in outcomes]


def _time_share(outcomes: Sequence[Outcome], unsampled: Sequence[Outcome]) -> str:
    whole = output.mean(_seconds(unsampled))
    return f"{100 * output.mean(_seconds(outcomes)) / whole:.0f} %" if whole else "–"


# Appendix 2: the MAA function by the number of mismatches. Nothing is mined.

FEATURES, SIZE, H = 7, 4, 0.5
DAMPINGS = (0.1, 0.3, 0.5)  # values of b; the paper names 0.5 and mentions smaller ones


def _app2_findings(results: Sequence[Result]) -> output.Findings:  # noqa: ARG001 - the signature of all experiments
    counts = mismatch_counts(FEATURES, SIZE)
    values = {b: mismatch_values(FEATURES, SIZE, H, b).tolist() for b in DAMPINGS}
    rows: list[output.Row] = [
        {"b": b, "m": m, "k": value, "a": counts[m]} for b, each in values.items() for m, value in enumerate(each)
    ]
    m = tuple(map(float, range(len(counts))))
    similarity = tuple(output.Series(f"b = {b}", m, tuple(each)) for b, each in values.items())
    subsets = (output.Series("subsets", m, tuple(map(float, counts))),)
    ticks = tuple(map(str, range(len(counts))))
    panels = (
        output.Panel("(1) Similarity", "Mismatches m", "Similarity k_m", similarity, log=True),
        output.Panel("(2) Subsets", "Mismatches m", "Number of feature subsets a_m", subsets, bars=True, ticks=ticks),
    )
    return output.Findings({"app2": rows}, (_app2_comparison(counts, values),), panels)


def _app2_comparison(counts: list[int], values: dict[float, list[float]]) -> output.Comparison:
    paper = {len(counts) - 1: str(printed.APP2_LAST_COUNT)}
    lines = [
        (str(m), *(f"{each[m]:.6f}" for each in values.values()), str(count), paper.get(m, output.NOT_PRINTED))
        for m, count in enumerate(counts)
    ]
    totals = {b: sum(a * k for a, k in zip(counts, each, strict=True)) for b, each in values.items()}
    sums = ", ".join(f"{value:.12g} for b = {b}" for b, value in totals.items())
    head = ("m", *(f"k_m, b = {b}" for b in values), "a_m, ours", "a_m, paper")
    title = f"Appendix 2: the MAA function at (D, D′, h) = ({FEATURES}, {SIZE}, {H})"
    return output.Comparison(title, head, tuple(lines), (f"Σ a_m k_m = {sums}; it must be 1.",))


EXP2 = Experiment("exp2", "Robustness against noise features", 50, _exp2_cases, _exp2_findings)
APP1 = Experiment(
    "app1", "Robustness of a decision tree against noise features", 100, _app1_cases, _app1_findings, jobs=False
)
APP2 = Experiment(
    "app2",
    "Numerical example of the MAA function",
    1,
    lambda _tables, _seeds: [],
    _app2_findings,
    tables=(),
    jobs=False,
)
APP3 = Experiment("app3", "Calculation cost", 50, _app3_cases, _app3_findings)
