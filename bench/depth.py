"""Depth search compared with scikit-learn: a loop (fit, predict and macro F1 for each depth), and one full fit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from bench import printing, tables
from bench.timing import time_interleaved
from maabo_dist.data.columns import Columns
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import depth_search

DEPTH = 5
SPINS = 25_000_000


class ScikitLearn:
    """scikit-learn on the same rows."""

    def __init__(self, columns: Columns) -> None:
        split = tables.split_of(columns)
        matrix = np.stack([columns.column(f) for f in range(columns.count)], axis=1)
        self.train, self.validation = matrix[split.train], matrix[split.validation]
        self.train_labels, self.validation_labels = columns.labels[split.train], columns.labels[split.validation]

    def fit(self, subset: np.ndarray, depth: int) -> DecisionTreeClassifier:
        tree = DecisionTreeClassifier(max_depth=depth, class_weight="balanced", random_state=0)
        return tree.fit(self.train[:, subset], self.train_labels)

    def scores(self, subset: np.ndarray) -> list[float]:
        predictions = [self.fit(subset, depth).predict(self.validation[:, subset]) for depth in range(1, DEPTH + 1)]
        return [f1_score(self.validation_labels, predicted, average="macro") for predicted in predictions]


def run(options) -> None:
    titanic, wide = tables.noisy_titanic(options.titanic), tables.generated(20_000, 200)
    block, sample, rounds = (512, 8, 3) if options.quick else (2000, 16, 5)
    name = "Titanic + 20 noise" if options.titanic else "like Titanic + 20 noise"
    cases = [
        (f"{name}, random", titanic, tables.random_subsets(titanic.count, 3, block), sample, 400, 30),
        (f"{name}, of a search", titanic, _subsets_of_a_run(titanic, block), sample, 400, 30),
        ("20,000 × 200 generated", wide, tables.random_subsets(200, 3, block // 10), sample // 8, 20, None),
    ]
    rows, blocks, notes = [], {}, []
    for name, columns, subsets, few, loop_goal, fit_goal in cases:
        peers, table = ScikitLearn(columns), tables.training(columns)
        taken = time_interleaved(_calls(table, subsets, peers, subsets[:few]), rounds)
        ours = taken["ours"].best / len(subsets)
        loop, fit = taken["loop"].best / few, taken["fit"].best / few
        rows.append((f"{name}: loop", ours, loop, loop / ours, printing.Goal(minimum=loop_goal)))
        rows.append(("  one fit", ours, fit, fit / ours, printing.Goal(minimum=fit_goal) if fit_goal else None))
        blocks[name] = (table, subsets)
        notes.append(f"{name}: {_agreement(table, peers, subsets[:few])}")
    notes += [
        "Random subsets, and those of a search. Ties between splits are broken otherwise by scikit-learn.",
        f"D′ = 3, p_max = {DEPTH}; best of {rounds} interleaved rounds after a warm-up; {block:,} subsets a round,",
        f"a tenth on the large table; the peers take the first {sample} of them, on the large table {sample // 8}.",
    ]
    printing.print_comparison("1. Depth search, a subset, one thread", "ours", "scikit-learn", rows, notes)
    _on_two_threads(blocks, 3 * rounds)


def _calls(table, subsets, peers: ScikitLearn, few) -> dict[str, Callable[[], object]]:
    return {
        "ours": lambda: depth_search(table, subsets, DEPTH),
        "loop": lambda: [peers.scores(subset) for subset in few],
        "fit": lambda: [peers.fit(subset, DEPTH) for subset in few],
    }


def _on_two_threads(blocks, rounds: int) -> None:
    """Compare with a loop in registers, which takes half the time on two idle cores."""
    with ThreadPoolExecutor(2) as pool:
        calls = {
            ("a loop in registers, as a measure", 1): lambda: (_spin(SPINS), _spin(SPINS)),
            ("a loop in registers, as a measure", 2): lambda: list(pool.map(_spin, [SPINS, SPINS])),
        }
        for name, (table, subsets) in blocks.items():
            calls[name, 1] = lambda t=table, s=subsets: depth_search(t, s, DEPTH)
            calls[name, 2] = lambda t=table, s=subsets: depth_search(t, s, DEPTH, pool=pool, pieces=8)
        taken = time_interleaved(calls, rounds)
    rows = []
    for name in (*blocks, "a loop in registers, as a measure"):
        count = len(blocks[name][1]) if name in blocks else 1
        one, two = taken[name, 1].best / count, taken[name, 2].best / count
        rows.append((name, two, one, one / two, None))
    notes = [f"Best of {rounds} interleaved rounds after a warm-up; the ratio at best is the one of the last row."]
    printing.print_comparison("1b. Depth search on two threads, a subset", "two threads", "one thread", rows, notes)


@numba.njit(nogil=True)
def _spin(count: int) -> int:
    state = 1
    for step in range(count):
        state ^= step * step + (state >> 3)
    return state


def _subsets_of_a_run(columns: Columns, count: int) -> np.ndarray:
    forest = mine(columns, MiningSettings(preset="paper", trees=count, max_depth=DEPTH), keep_trees=True).forest
    return forest.subsets


def _agreement(table, peers: ScikitLearn, subsets) -> str:
    ours = depth_search(table, subsets, DEPTH).scores
    theirs = np.array([peers.scores(subset) for subset in subsets])
    return f"{int((np.abs(ours - theirs) < 1e-12).sum())} of {ours.size} macro F1 equal scikit-learn's"
