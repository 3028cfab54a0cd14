"""GS-MRM on pools of leaves as from 10⁴ to 10⁶ trees, and reading the leaves of trees."""

import numpy as np

from bench import printing, tables
from bench.timing import time_interleaved
from maabo_dist.rules.leaves import LeafFilter, Leaves, literal_width, reliable_leaves
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.selection import distinct_leaves, select_by_logic
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import depth_search

MAX_SECONDS = 60.0
"""A pool that would take longer is left out."""


def run(options) -> None:
    rows = []
    for features in (200, 2000):
        before = None
        for trees in (3000, 30_000) if options.quick else (10_000, 100_000, 1_000_000):
            leaves = _pool(trees, features)
            if before and 3 * before * len(leaves) > MAX_SECONDS:  # the time of a leaf may grow
                rows.append(
                    (
                        str(features),
                        printing.format_count(trees),
                        printing.format_count(len(leaves)),
                        *[""] * 3,
                        "left out",
                        *[""] * 4,
                    )
                )
                continue
            figures, each = _measure(leaves, rounds=3 if trees < 1_000_000 else 1)
            growth = each / before if before else None
            verdict = (
                (f"{growth:.2f}×", *printing.format_verdict(growth, printing.Goal(maximum=1.1)))
                if growth
                else ("", "", "")
            )
            rows.append(
                (
                    str(features),
                    printing.format_count(trees),
                    printing.format_count(len(leaves)),
                    *figures,
                    printing.format_time(each),
                    *verdict,
                )
            )
            before = each
    notes = [
        "Growth: seconds a leaf, relative to the row above; 1× is as fast as the leaves, 0.1 is for noise.",
        "Best of 3 interleaved rounds after a warm-up; the largest pools run once, warm.",
        _extraction(options),
    ]
    columns = ["D", "trees", "leaves", "distinct", "rules", "group", "select", "a leaf", "growth", "goal", ""]
    printing.print_table("4. GS-MRM on synthetic leaves", columns, rows, notes)


def _measure(leaves: Leaves, rounds: int) -> tuple[tuple, float]:
    """The cells of the table, and the seconds for each leaf."""
    distinct, selections, limit = distinct_leaves(leaves), [], MiningSettings(preset="paper").similarity

    def select():
        selections.append(select_by_logic(distinct.gini, distinct.logic, limit))

    taken = time_interleaved({"group": lambda: distinct_leaves(leaves), "select": select}, rounds, warm_up=rounds > 1)
    group, chosen = taken["group"].best, taken["select"].best
    figures = (
        printing.format_count(len(distinct)),
        printing.format_count(len(selections[-1].chosen)),
        printing.format_time(group),
        printing.format_time(chosen),
    )
    return figures, (group + chosen) / len(leaves)


def _pool(trees: int, features: int) -> Leaves:
    """One to four reliable leaves a tree, of one to five literals; the k-th most used feature comes up as often as 1/k.

    A leaf's literals come from its tree's three features, as in a search with D′ = 3; a feature that is used more often
    makes purer leaves.
    """
    random = np.random.default_rng(trees + features)
    share = 1 / np.arange(1, features + 1)
    ladder = np.cumsum(share / share.sum())
    tree = np.repeat(np.arange(trees), random.integers(1, 5, trees))
    subsets = np.searchsorted(ladder, random.random((trees, 3))).clip(max=features - 1)
    width, count = literal_width(3, 5), len(tree)
    picked = 2 * subsets[tree][np.arange(count)[:, None], random.integers(0, 3, (count, width))]
    picked += random.integers(0, 2, (count, width))
    picked[np.arange(width) >= random.integers(1, width + 1, count)[:, None]] = NO_LITERAL
    logic = np.sort(picked, axis=1).astype(np.int32)
    logic[:, 1:][logic[:, 1:] == logic[:, :-1]] = NO_LITERAL  # the same literal twice is one
    logic.sort(axis=1)
    size = random.integers(50, 400, count)
    gini = 0.15 * random.random(count) * (logic[:, 0] / (2 * features)) ** 0.1
    other = (size * gini / 2).astype(np.int64)
    return Leaves(
        logic=logic,
        bounds=np.where(logic == NO_LITERAL, 0.0, random.random((count, width))),
        counts=np.stack([size - other, other], axis=1).astype(np.int32),
        gini=gini,
        tree=tree,
        score=random.random(trees)[tree],
        seen=16 * trees,
        large=8 * trees,
    )


def _extraction(options) -> str:
    columns = tables.noisy_titanic(options.titanic)
    table = tables.training(columns)
    forest = depth_search(table, tables.random_subsets(columns.count, 3, 2000), 5)
    leaf_filter = LeafFilter(50, 0.15, table.weights)
    taken = time_interleaved({"leaves": lambda: reliable_leaves(forest, leaf_filter)}, 5)["leaves"]
    leaves = reliable_leaves(forest, leaf_filter)
    return (
        f"Reading the leaves of 2,000 Titanic trees: {taken.per(len(forest)):.2f} µs a tree "
        f"({leaves.seen / len(forest):.1f} leaves, {len(leaves) / len(forest):.2f} reliable)."
    )
