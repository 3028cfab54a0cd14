"""The summary: a line for each table, a line for each method, and the criteria with whether each is met."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from pandas.api.types import is_numeric_dtype

from bench.printing import Goal, console, format_verdict, print_table
from bench.quality.experiment import Check
from bench.real_tables.draws import draw_rows
from bench.real_tables.nulls import NULL_TABLES, Variant
from bench.real_tables.peers import PEERS
from bench.real_tables.records import Store
from bench.real_tables.registry import RealTable
from bench.real_tables.scoring import Record, returning_share, wilson_interval

OURS = "ours"
MAX_FINDINGS = 15
SMALL = (1000, 30)
"""Rows and columns up to which a run should take less than 3 s of CPU time."""


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
            rules=_mean(record["rules"] for record in done) or 0.0,
            most_rules=max((record["rules"] for record in done), default=0),
            missing_classes=_mean(a - b for a, b in zip(classes, used, strict=True)) or 0.0,
            holding=_mean(record["holding"] / record["rules"] for record in published),
            holm=_mean(record["holm"] / record["rules"] for record in published),
            lift=_mean(record["lift"] for record in published),
            covered=sum(record["covered"] for record in done) / len(records),
            overlap=max((r["overlap"] for r in done if r["overlap"] is not None), default=None),
            train_overlap=max((r["train_overlap"] for r in done if r["train_overlap"] is not None), default=None),
            returning=_mean(shares),
            cpu=_mean(record["cpu"] for record in done),
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
        our_lift = _mean(record.get("lift") for record in ours)
        peer_lift = _mean(record.get("lift") for record in theirs.values())
        return peer_lift is None or (our_lift is not None and our_lift >= peer_lift)

    def splits_of(self, table: str) -> list[tuple[Record, list[Record]]]:
        """Our record of each split, with the peers' records of the same split."""
        peers = [record for name in PEERS for record in self.records[table, name] if not record["failure"]]
        return [
            (record, [peer for peer in peers if peer["split"] == record["split"]])
            for record in self.records[table, OURS]
        ]


def print_summary(comparison: Comparison, store: Store) -> None:
    if not comparison.tables:
        known = ", ".join(store.versions(OURS)) or "none"
        console.print(f"There are no records of version {comparison.version}. Versions with records: {known}.")
        return
    _print_tables(comparison)
    _print_methods(comparison)
    checks = [*_checks(comparison), *_null_checks(store, comparison.version)]
    rows = [
        [
            check.what,
            f"{check.value:.3g}{check.unit}",
            f"{check.goal}{check.unit}",
            format_verdict(check.value, check.goal)[1],
        ]
        for check in checks
    ]
    print_table("Criteria", ["", "figure", "goal", ""], rows, _remarks(comparison))


def print_list(tables: Sequence[RealTable]) -> None:
    """Print the tables: size, classes, share of the smallest class, columns with text and with gaps."""
    columns = ["", "purpose", "rows", "columns", "classes", "smallest %", "text", "gaps", "target", "note"]
    rows = []
    for table in tables:
        draw = draw_rows(table, 0)
        cells, counts = draw.cells, np.unique(draw.classes, return_counts=True)[1]
        text = sum(not is_numeric_dtype(kind) for kind in cells.dtypes)
        shape = [f"{len(cells):,}", str(cells.shape[1]), "number" if table.numeric else str(len(counts))]
        shape += [f"{100 * counts.min() / counts.sum():.1f}", str(text), str(int(cells.isna().any().sum()))]
        rows.append([table.name, table.purpose, *shape, table.target, table.note])
    print_table("Real tables", columns, rows)


def _print_tables(comparison: Comparison) -> None:
    columns = ["ours", "runs", "rules", "no rule for", "hold %", "Holm %", "lift", "pysubgr.", "best peer"]
    columns += ["covered %", "overlap", "returns %", "CPU s"]
    rows = []
    for table in comparison.tables:
        ours = comparison.figures[table.name, OURS]
        refused = f"{ours.runs - len(ours.failures)}/{ours.runs}" if ours.failures else str(ours.runs)
        sub = comparison.figures.get((table.name, "pysubgroup"))
        rows.append(
            [
                table.name,
                refused,
                f"{ours.rules:.1f}",
                f"{ours.missing_classes:.1f}",
                *(_percent(ours.holding), _percent(ours.holm)),
                *(
                    _number(ours.lift),
                    _number(sub.lift if sub else None),
                    _number(_best_peer_lift(comparison, table.name)),
                ),
                _percent(ours.covered),
                _number(ours.train_overlap),
                _percent(ours.returning),
                _number(ours.cpu),
            ]
        )
    print_table(f"Version {comparison.version}, means over splits", columns, rows)


def _print_methods(comparison: Comparison) -> None:
    columns = ["means over tables", "tables", "failed", "rules", "most", "a class without", "hold %", "Holm %", "lift"]
    columns += ["covered %", "overlap", "returns %", "CPU s"]
    rows = []
    for method in (OURS, *PEERS):
        chosen = [f for table in comparison.tables if (f := comparison.figures.get((table.name, method)))]
        if not chosen:
            continue
        done = [figures for figures in chosen if len(figures.failures) < figures.runs]
        rows.append(
            [
                method,
                str(len(chosen)),
                f"{sum(len(f.failures) for f in chosen)}/{sum(f.runs for f in chosen)}",
                _number(_mean(f.rules for f in done)),
                str(max((f.most_rules for f in done), default=0)),
                str(sum(f.missing_classes > 0 for f in done)),
                *(_percent(_mean(f.holding for f in done)), _percent(_mean(f.holm for f in done))),
                _number(_mean(f.lift for f in done)),
                _percent(_mean(f.covered for f in done)),
                _number(_mean(f.train_overlap for f in done)),
                _percent(_mean(f.returning for f in done)),
                _number(_mean(f.cpu for f in done)),
            ]
        )
    print_table("Methods", columns, rows)


def _checks(comparison: Comparison) -> Iterable[Check]:
    ours = [comparison.figures[table.name, OURS] for table in comparison.tables]
    yield Check("tables the plain command refuses", sum(bool(f.failures) for f in ours), Goal(maximum=0))
    yield Check("splits empty although a peer has a rule after Holm", len(_empty_splits(comparison)), Goal(maximum=0))
    yield Check("splits with a peer's class (Holm) without ours", len(_missing_classes(comparison)), Goal(maximum=0))
    yield Check("most findings", max(f.most_rules for f in ours), Goal(maximum=MAX_FINDINGS))
    holding = comparison.values(OURS, lambda f: f.holding)
    yield Check("findings that hold, mean over tables", 100 * (_mean(holding) or 0), Goal(minimum=97), " %")
    compared = [table.name for table in comparison.tables if comparison.peers_of(table.name)]
    if compared:
        won = [comparison.beats(table, "pysubgroup") for table in compared]
        yield Check("tables with at least pysubgroup's lift", 100 * float(np.mean(won)), Goal(minimum=85), " %")
        best = [all(comparison.beats(table, name) for name in comparison.peers_of(table)) for table in compared]
        yield Check("tables with at least the best peer's lift", 100 * float(np.mean(best)), Goal(minimum=60), " %")
    yield Check(
        "unseen rows covered, mean over tables", 100 * float(np.mean([f.covered for f in ours])), Goal(minimum=60), " %"
    )
    overlap = max((f.train_overlap for f in ours if f.train_overlap is not None), default=0.0)
    yield Check("greatest Jaccard of two findings of a class, training rows", overlap, Goal(maximum=0.5))
    unseen = max((f.overlap for f in ours if f.overlap is not None), default=0.0)
    yield Check("… unseen rows", unseen, Goal(maximum=0.5))
    returning = 100 * (_mean(comparison.values(OURS, lambda f: f.returning)) or 0)
    yield Check("findings that return in other draws", returning, Goal(minimum=60), " %")
    others = [_mean(comparison.values(name, lambda f: f.returning)) or 0 for name in PEERS if name != "SIRUS"]
    if compared:
        yield Check("… beyond the best peer but SIRUS", returning - 100 * max(others), Goal(minimum=0), " points")
    differing = [r.get("differing_exports", 0) for t in comparison.tables for r in comparison.records[t.name, OURS]]
    yield Check("rules whose pandas export covers other rows than stated", sum(differing), Goal(maximum=0))
    times = [
        record["cpu"] for table in comparison.tables for record in comparison.records[table.name, OURS] if record["cpu"]
    ]
    yield Check("longest CPU time", max(times, default=0.0), Goal(maximum=10), " s")
    small = [
        record["cpu"]
        for table in comparison.tables
        for record in comparison.records[table.name, OURS]
        if record["cpu"] and record.get("shape") and all(a <= b for a, b in zip(record["shape"], SMALL, strict=True))
    ]
    size = f"{SMALL[0]:,} rows and {SMALL[1]} columns"
    yield Check(f"… of up to {size}", max(small, default=0.0), Goal(maximum=3), " s")


def _null_checks(store: Store, version: str) -> Iterable[Check]:
    for variant in Variant:
        runs = [record for name in NULL_TABLES for record in store.find(variant, name, version)]
        yield from _null_check(runs, variant)


def _null_check(runs: Sequence[Record], variant: Variant) -> Iterable[Check]:
    done = [record for record in runs if record["rules"] is not None]
    if done:
        published = sum(bool(record["rules"]) for record in done)
        low, high = wilson_interval(published, len(done))
        shuffled = "labels" if variant is Variant.ROWS else "labels of groups"
        what = f"shuffled {shuffled}, {len(done)} runs: publish anything ({100 * low:.1f} to {100 * high:.1f} %)"
        yield Check(what, 100 * published / len(done), Goal(maximum=5), " %")
        if refused := len(runs) - len(done):
            yield Check(f"… and refused, of {len(runs)}", refused, Goal(maximum=0))


def _empty_splits(comparison: Comparison) -> list[str]:
    return [
        f"{table.name}/{ours['split']}"
        for table in comparison.tables
        for ours, peers in comparison.splits_of(table.name)
        if not ours.get("rules") and any(peer["holm"] for peer in peers)
    ]


def _missing_classes(comparison: Comparison) -> list[str]:
    missing = []
    for table in comparison.tables:
        for ours, peers in comparison.splits_of(table.name):
            found = {name for peer in peers for name in peer["holm_classes"]}
            if lacking := found - set(ours.get("classes", ())):
                missing.append(f"{table.name}/{ours['split']} ({', '.join(sorted(lacking))})")
    return missing


def _best_peer_lift(comparison: Comparison, table: str) -> float | None:
    lifts = [f.lift for name in PEERS if (f := comparison.figures.get((table, name))) and f.lift is not None]
    return max(lifts, default=None)


def _remarks(comparison: Comparison) -> list[str]:
    """Why figures are as they are: refusals of ours, splits that miss a criterion, failures of peers."""
    ours = {table.name: comparison.figures[table.name, OURS].failures for table in comparison.tables}
    remarks = [f"{table}: {failures[0]}" for table, failures in ours.items() if failures]
    for what, where in (("empty", _empty_splits(comparison)), ("class missing", _missing_classes(comparison))):
        if where:
            remarks.append(f"{what}: {', '.join(where)}")
    for name in PEERS:
        failed = {
            t.name: f.failures
            for t in comparison.tables
            if (f := comparison.figures.get((t.name, name))) and f.failures
        }
        if failed:
            remarks.append(f"{name} failed: " + "; ".join(f"{t} ({f[0]}) {len(f)}×" for t, f in failed.items()))
    return remarks


def _peer_version(store: Store, method: str) -> str:
    return next(reversed(store.versions(method)), "")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
