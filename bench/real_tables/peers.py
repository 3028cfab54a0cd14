"""The eight peers on a draw: one class against the rest, at most 20,000 training rows, 60 s of CPU time for a fit."""

import numpy as np

from bench.quality.peer_client import PeerError, PeerProcesses, PeerRule, PeerTimeoutError
from bench.real_tables.draws import Draw
from bench.real_tables.encoding import encode, fit_columns
from bench.real_tables.ours import Outcome
from bench.real_tables.scoring import FoundRule

PEERS = {
    "pysubgroup": "pysubgroup-wracc",
    "FIGS": "figs",
    "RuleFit": "rulefit",
    "SkopeRules": "skope",
    "RuleKit": "rulekit",
    "SIRUS": "sirus",
    "RIPPER": "ripper",
    "IREP": "irep",
}
"""The peers by the names of `bench.quality.peers.miners`."""
MAX_ROWS = 20_000
"""Training rows for a peer; more would take most of them longer than the limit."""
FIT_LIMIT = 60.0
"""Seconds of CPU time for a fit; a table with more than two classes takes one for each class."""


def mine_with_peer(name: str, draw: Draw, processes: PeerProcesses) -> Outcome:
    """All rules of a peer. It is a failure if one of its fits fails or takes too long."""
    columns = fit_columns(draw.cells.iloc[draw.train])
    matrix = encode(draw.cells, columns)
    rows = _sample(draw.train, draw.seed)
    names, labels = np.unique(draw.classes[rows], return_inverse=True)
    rules: list[FoundRule] = []
    seconds = cpu = 0.0
    for target in range(len(names)) if len(names) > 2 else [None]:
        fitted = labels if target is None else (labels == target).astype(np.int64)
        wanted = (0, 1) if target is None else (1,)
        try:
            mined = processes.mine(PEERS[name], matrix.iloc[rows], fitted, draw.seed, 1, wanted)
        except PeerTimeoutError as error:
            return Outcome(failure="timeout", message=str(error))
        except PeerError as error:
            return Outcome(failure="failed", message=str(error)[-600:])
        seconds, cpu = seconds + mined.seconds, cpu + mined.cpu
        rules += _found_rules(mined.rules, matrix, rows, labels, names, target)
    return Outcome(rules, seconds, cpu, details={"train_rows": len(rows)})


def _sample(train: np.ndarray, seed: int) -> np.ndarray:
    if len(train) <= MAX_ROWS:
        return train
    return np.sort(np.random.default_rng(seed).choice(train, MAX_ROWS, replace=False))


def _found_rules(
    rules: list[PeerRule],
    matrix: object,
    rows: np.ndarray,
    labels: np.ndarray,
    names: np.ndarray,
    target: int | None,
) -> list[FoundRule]:
    """Rules with the class that is most over-represented in their training rows; of one class's fit, its rules only."""
    values, columns = matrix.to_numpy(), list(matrix.columns)
    base = np.bincount(labels, minlength=len(names)) / len(labels)
    found = []
    for conditions in rules:
        mask = np.ones(len(values), bool)
        for index, op, threshold in conditions:
            mask &= values[:, index] <= threshold if op == "<=" else values[:, index] > threshold
        counts = np.bincount(labels[mask[rows]], minlength=len(names))
        lifts = counts / max(1, counts.sum()) / base
        if target is not None and lifts[target] <= 1:
            continue
        label = int(lifts.argmax()) if target is None else target
        text = " and ".join(f"{columns[index]} {op} {threshold:.6g}" for index, op, threshold in conditions)
        found.append(FoundRule(str(names[label]), text, mask))
    return found
