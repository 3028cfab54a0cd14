"""Appendix 1: how much noise a single tree takes in, its depth and leaf size chosen on the validation rows."""

from collections import defaultdict
from collections.abc import Sequence

from maabo_dist._util.text import counted
from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import METHOD, Case, Experiment, Findings, Outcome, Result, Row, TableKey, TunedTree
from maabo_dist.research.paper.exp2 import X_LABEL
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, in_percent, mean, series, spread
from maabo_dist.research.paper.tables import MOST_NOISE, PaperTable, is_noise

NOISES = range(MOST_NOISE + 1)
LEAF_SIZES = tuple(range(1, 101))
SHOWN = (0, 1, 5, 10, 15, 20)
_NAME = "Single tree"
_NOTE = (
    "Noise content is the share of noise among the columns that a tree splits by. The paper plots F1 and noise, and "
    "prints no figure of them."
)


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:
    single = METHOD.model_copy(update={"strategy": "single", "max_depth": 5})
    return [
        Case(
            "single",
            seed,
            TableKey(table.name, noise=noise, seed=seed),
            single.model_copy(update={"seed": seed, "split_seed": seed}),
            LEAF_SIZES,
        )
        for table in tables
        for seed in range(seeds)
        for noise in NOISES
    ]


def _findings(results: Sequence[Result]) -> Findings:
    found: defaultdict[int, list[Outcome]] = defaultdict(list)
    for case, outcome in results:
        found[case.table.noise].append(outcome)
    rows = [_row(*result) for result in results]
    return Findings({"app1": rows}, (_comparison(results[0][0].table.name, found),), _panels(found))


def _row(case: Case, outcome: Outcome) -> Row:
    tree = _tree(outcome)
    return {
        "noise": case.table.noise,
        "seed": case.seed,
        "max_depth": tree.depth,
        "min_samples_leaf": tree.leaf_size,
        "macro_f1": outcome.score,
        "features_used": len(tree.features),
        "noise_features_used": sum(map(is_noise, tree.features)),
    }


def _tree(outcome: Outcome) -> TunedTree:
    if outcome.tree is None:
        raise ValueError("The outcome of a tuned tree has the tree.")
    return outcome.tree


def depths(outcomes: Sequence[Outcome]) -> list[float]:
    """The depth of each tree."""
    return [_tree(outcome).depth for outcome in outcomes]


def scores(outcomes: Sequence[Outcome]) -> list[float]:
    """The macro F1 of each tree."""
    return [outcome.score for outcome in outcomes if outcome.score is not None]


def noise_shares(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of noise among the columns that each tree splits by; a tree of one node has none."""
    used = [_tree(outcome).features for outcome in outcomes]
    return [sum(map(is_noise, features)) / max(1, len(features)) for features in used]


def tainted(outcomes: Sequence[Outcome]) -> list[float]:
    """1 for each tree with noise in it, else 0."""
    return [float(share > 0) for share in noise_shares(outcomes)]


def _comparison(name: str, found: dict[int, list[Outcome]]) -> Comparison:
    own = name == "titanic"
    lines = [
        (
            str(noise),
            spread(depths(found[noise])),
            printed.APP1_DEPTH if own else NOT_PRINTED,
            f"{mean(scores(found[noise])):.3f}",
            in_percent(noise_shares(found[noise])),
            in_percent(tainted(found[noise])),
        )
        for noise in SHOWN
    ]
    head = ("noise", "depth, ours", "depth, paper", "macro F1", "noise content", "trees with noise")
    return Comparison(
        f"Appendix 1, {name}: a single tree beside columns of noise, {counted(len(found[0]), 'seed')}",
        head,
        tuple(lines),
        (_NOTE,),
    )


def _panels(found: dict[int, list[Outcome]]) -> tuple[Panel, ...]:
    return (
        Panel("(1) Depth", X_LABEL, "Maximum depth", (series(_NAME, {n: depths(each) for n, each in found.items()}),)),
        Panel(
            "(2) Validation score",
            X_LABEL,
            "Macro F1 score",
            (series(_NAME, {n: scores(each) for n, each in found.items()}),),
        ),
        Panel(
            "(3) Noise in the trees",
            X_LABEL,
            "Rate of noise features",
            (series(_NAME, {n: noise_shares(each) for n, each in found.items()}),),
            percent=True,
        ),
    )


APP1 = Experiment(
    "app1",
    "Robustness of a decision tree against noise features",
    seeds=100,
    cases=_cases,
    findings=_findings,
    jobs=False,
)
