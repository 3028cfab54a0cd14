"""The compared methods: each takes a table and returns rules, in the form of the scorer, and seconds."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd

from bench.quality.peer_client import PeerRule, Peers, Searcher
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.result import StopReason
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.mining.result import MiningResult, conclude
from maabo_dist.research.synthetic.generation import match_frame
from maabo_dist.research.synthetic.scoring import MinedRule
from maabo_dist.rules.publishing import TreePool
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import depth_search

OURS = {
    "auto": {"preset": "auto"},
    "all": {"preset": "auto", "all": True},
    "paper": {"preset": "paper"},
    "random": {"preset": "paper", "strategy": "random"},
}
"""Settings of our methods; `all` has every certified rule, and `random` draws the paper's trees at random."""
PRUNED = {"preset": "paper", "literals": "supported"}
"""Rules without unsupported conditions, selected by GS-MRM: the default before findings."""
PEERS = {"FIGS": "figs", "RuleFit": "rulefit", "SkopeRules": "skope", "pysubgroup": "pysubgroup"}
PEERS |= {
    "subgroups": "pysubgroup-own-bins",
    "RuleKit": "rulekit",
    "SIRUS": "sirus",
    "RIPPER": "ripper",
    "IREP": "irep",
}
TPE = "Optuna TPE"
TPE_TREES = 500
"""Its sampler slows down with every trial: 1,000 take a minute, 10,000 would take hours."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with two classes, and the seed and number of cores for a method."""

    frame: pd.DataFrame
    target: str
    seed: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Mined:
    rules: tuple[MinedRule, ...]
    seconds: float
    """From the table in memory to the rules."""
    cpu: float


Method = Callable[[Table], Mined]


def method(name: str, peers: Peers | None) -> Method | None:
    """The method with this name; None if it needs peers and there are none."""
    if name in OURS:
        return partial(mine_ours, OURS[name])
    if peers is None:
        return None
    return partial(_by_tpe, peers) if name == TPE else partial(_peers, peers, PEERS[name])


def mine_ours(settings: Mapping[str, object], table: Table) -> Mined:
    start, used = perf_counter(), _cpu_seconds()
    columns = prepare(table.frame, TableSettings(target=table.target)).columns
    result = mine(columns, MiningSettings(seed=table.seed, **settings), jobs=table.jobs)
    return Mined(mined_rules(result), perf_counter() - start, _cpu_seconds() - used)


def _peers(peers: Peers, name: str, table: Table) -> Mined:
    cells = table.frame.drop(columns=table.target)
    classes, labels = np.unique(table.frame[table.target].to_numpy(str), return_inverse=True)
    mined = peers.mine(name, cells, labels, table.seed, table.jobs)
    rules = translate_rules(mined.rules, cells, labels, tuple(classes.tolist()))
    return Mined(rules, mined.seconds, mined.cpu)


def _by_tpe(peers: Peers, table: Table) -> Mined:
    """Optuna proposes subsets, our depth search scores them, and GS-MRM chooses among their pruned leaves."""
    start, used = perf_counter(), _cpu_seconds()
    columns = prepare(table.frame, TableSettings(target=table.target)).columns
    settings = MiningSettings(seed=table.seed, trees=TPE_TREES, **PRUNED)
    with peers.searcher("optuna", columns.count, settings.subset_size, table.seed) as searcher:
        result = search_with_peer(columns, settings, searcher)
    return Mined(mined_rules(result), perf_counter() - start, _cpu_seconds() - used)


def search_with_peer(columns: Columns, settings: MiningSettings, searcher: Searcher) -> MiningResult:
    """Grow the subsets that a peer proposes; a subset with a repeated feature scores 0."""
    study = Study.build(columns, settings)
    pool = TreePool(study)
    for _ in range(study.plan.trees):
        subset = np.unique(searcher.ask())
        if len(subset) < study.plan.subset_size:
            searcher.tell(0.0)
            continue
        forest = depth_search(
            study.table, subset[None, :].astype(np.int32), settings.max_depth, whole=settings.whole_trees
        )
        pool.add(forest)
        searcher.tell(float(forest.best_scores[0]))
    return conclude(study, pool, StopReason.BUDGET, 0.0)


def _cpu_seconds() -> float:
    """CPU time of all threads, and of child processes that have ended."""
    return sum(os.times()[:4])


def mined_rules(result: MiningResult) -> tuple[MinedRule, ...]:
    return tuple(MinedRule(rule.id, rule.conditions, result.classes[rule.label]) for rule in result.rules)


def translate_rules(
    rules: list[PeerRule], cells: pd.DataFrame, labels: np.ndarray, classes: tuple[str, ...]
) -> tuple[MinedRule, ...]:
    """Convert a peer's rules; each gets the class that is most over-represented among the rows it covers."""
    names, base = list(cells.columns), np.bincount(labels, minlength=len(classes)) / len(labels)
    mined = []
    for number, rule in enumerate(rules, start=1):
        conditions = tuple(Condition(names[index], Op(op), threshold) for index, op, threshold in rule)
        counts = np.bincount(labels[match_frame(cells, conditions)], minlength=len(classes))
        lifts = counts / max(1, counts.sum()) / base
        mined.append(MinedRule(f"R{number}", conditions, classes[int(lifts.argmax())]))
    return tuple(mined)
