"""Figures of methods on tables, from the records of their runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from bench.real_tables.peers import PEERS
from bench.real_tables.records import Store
from bench.real_tables.registry import RealTable
from bench.real_tables.scoring import Record, holm_passes, returning_share

OURS = "ours"


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The figures of a method for a table: means over its splits, None where there is nothing to average."""

    runs: int
    failures: tuple[str, ...]
    """Messages of the runs that failed."""
    rules: float
    most_rules: int
    missing_classes: float
    """Classes without a rule."""
    holding: float | None
    holm: float | None
    lift: float | None
    covered: float
    overlap: float | None
    """The greatest of all splits."""
    train_overlap: float | None
    returning: float | None
    cpu: float | None

    @classmethod
    def of(cls, records: Sequence[Record]) -> "TableFigures | None":
        if not records:
            return None
        done = [record for record in records if not record["failure"]]
        published = [record for record in done if record["rules"]]
        classes = [len(record["class_names"]) for record in done]
        used = [len(record["classes"]) for record in done]
        shares = [returning_share(one, other) for one, other in permutations(done, 2)]
        return cls(
            runs=len(records),
            failures=tuple(f"{record['failure']}: {record['message']}" for record in records if record["failure"]),
            rules=mean_of(record["rules"] for record in done) or 0.0,
            most_rules=max((record["rules"] for record in done), default=0),
            missing_classes=mean_of(a - b for a, b in zip(classes, used, strict=True)) or 0.0,
            holding=mean_of(record["holding"] / record["rules"] for record in published),
            holm=mean_of(record["holm"] / record["rules"] for record in published),
            lift=mean_of(record["lift"] for record in published),
            covered=sum(record["covered"] for record in done) / len(records),
            overlap=max((r["overlap"] for r in done if r["overlap"] is not None), default=None),
            train_overlap=max((r["train_overlap"] for r in done if r["train_overlap"] is not None), default=None),
            returning=mean_of(shares),
            cpu=mean_of(record["cpu"] for record in done),
        )


class Comparison:
    """All figures of some tables, for a version of ours."""

    def __init__(self, tables: Sequence[RealTable], store: Store, version: str, splits: int) -> None:
        self.version = version
        self.records: dict[tuple[str, str], list[Record]] = {}
        self.figures: dict[tuple[str, str], TableFigures] = {}
        for table in tables:
            for method in (OURS, *PEERS):
                found = store.find(method, table.name, version if method == OURS else _peer_version(store, method))
                found = [record for record in found if record["split"] < splits]
                self.records[table.name, method] = found
                if figures := TableFigures.of(found):
                    self.figures[table.name, method] = figures
        self.tables = [table for table in tables if (table.name, OURS) in self.figures]

    def values(self, method: str, read: Callable[[TableFigures], float | None]) -> list[float]:
        """A figure of a method for all tables that have it."""
        chosen = (self.figures.get((table.name, method)) for table in self.tables)
        read_values = (read(figures) for figures in chosen if figures)
        return [value for value in read_values if value is not None]

    def peers_of(self, table: str) -> list[str]:
        """The peers that have been run on a table."""
        return [name for name in PEERS if self.records[table, name]]

    def beats(self, table: str, peer: str) -> bool:
        """Whether our mean lift is at least the peer's, on the splits that both have been run on."""
        theirs = {record["split"]: record for record in self.records[table, peer]}
        ours = [record for record in self.records[table, OURS] if record["split"] in theirs]
        our_lift = mean_of(record.get("lift") for record in ours)
        peer_lift = mean_of(record.get("lift") for record in theirs.values())
        return peer_lift is None or (our_lift is not None and our_lift >= peer_lift)

    def splits_of(self, table: str) -> list[tuple[Record, list[Record]]]:
        """Our record of each split, with the peers' records of the same split."""
        peers = [record for name in PEERS for record in self.records[table, name] if not record["failure"]]
        return [
            (record, [peer for peer in peers if peer["split"] == record["split"]])
            for record in self.records[table, OURS]
        ]

    def best_peer_lift(self, table: str) -> float | None:
        lifts = [f.lift for name in PEERS if (f := self.figures.get((table, name))) and f.lift is not None]
        return max(lifts, default=None)


def certain_classes(peers: Sequence[Record], *, together: bool) -> set[str]:
    """The classes for which a peer has a rule that is significant on unseen rows, after Holm's correction.

    With `together` it is a correction for the rules of all peers. Without, each peer's rules are corrected for
    themselves: with eight peers, one of them then has such a rule in up to a third of the splits of a table in which
    there is nothing to find.
    """
    if not together:
        return {name for peer in peers for name in peer["holm_classes"]}
    evidence = [each for peer in peers for each in peer["evidence"]]
    passes = holm_passes(np.array([each["p"] for each in evidence]))
    return {each["class"] for each, certain in zip(evidence, passes, strict=True) if certain}


def _peer_version(store: Store, method: str) -> str:
    return next(reversed(store.versions(method)), "")


def mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
