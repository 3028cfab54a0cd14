"""The criteria that the default run has to meet, and where it does not."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from bench.printing import Goal
from bench.quality.experiment import Check
from bench.real_tables.figures import OURS, Comparison, certain_classes, mean_of
from bench.real_tables.nulls import NULL_TABLES, Variant
from bench.real_tables.peers import PEERS
from bench.real_tables.records import Store
from bench.real_tables.scoring import Record, wilson_interval

MAX_FINDINGS = 15
SMALL = (1000, 30)
"""Rows and columns up to which a run should take less than 3 s of CPU time."""


def check_findings(comparison: Comparison) -> Iterable[Check]:
    ours = [comparison.figures[table.name, OURS] for table in comparison.tables]
    yield Check("tables the plain command refuses", sum(bool(f.failures) for f in ours), Goal(maximum=0))
    for together, how in ((True, "Holm over all peers"), (False, "Holm within the peer")):
        empty, lacking = empty_splits(comparison, together=together), lacking_classes(comparison, together=together)
        yield Check(f"splits empty although a peer has a certain rule ({how})", len(empty), Goal(maximum=0))
        yield Check("… without a class that a peer has a certain rule for", len(lacking), Goal(maximum=0))
    yield Check("most findings", max(f.most_rules for f in ours), Goal(maximum=MAX_FINDINGS))
    holding = comparison.values(OURS, lambda f: f.holding)
    yield Check("findings that hold, mean over tables", 100 * (mean_of(holding) or 0), Goal(minimum=97), " %")
    strong = [_strong_holding(comparison.records[table.name, OURS]) for table in comparison.tables]
    yield Check("… tentative ones aside", 100 * (mean_of(strong) or 0), Goal(minimum=97), " %")
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
    returning = 100 * (mean_of(comparison.values(OURS, lambda f: f.returning)) or 0)
    yield Check("findings that return in other draws", returning, Goal(minimum=60), " %")
    others = [mean_of(comparison.values(name, lambda f: f.returning)) or 0 for name in PEERS if name != "SIRUS"]
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


def _strong_holding(records: Sequence[Record]) -> float | None:
    """The share of findings that hold, tentative ones aside, as a mean over the splits that have any."""
    shares = []
    for record in records:
        holds = [each["holds"] for each in record.get("evidence", ()) if not each.get("tentative")]
        shares.append(float(np.mean(holds)) if holds else None)
    return mean_of(shares)


def check_nulls(store: Store, version: str) -> Iterable[Check]:
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


def empty_splits(comparison: Comparison, *, together: bool) -> list[tuple[str, int]]:
    """The splits on which ours published nothing although a peer has a certain rule."""
    return [
        (table.name, ours["split"])
        for table in comparison.tables
        for ours, peers in comparison.splits_of(table.name)
        if not ours.get("rules") and certain_classes(peers, together=together)
    ]


def lacking_classes(comparison: Comparison, *, together: bool) -> dict[tuple[str, int], set[str]]:
    """The splits on which ours has no rule for a class that a peer has a certain rule for."""
    lacking = {
        (table.name, ours["split"]): certain_classes(peers, together=together) - set(ours.get("classes", ()))
        for table in comparison.tables
        for ours, peers in comparison.splits_of(table.name)
    }
    return {split: names for split, names in lacking.items() if names}


def explain_figures(comparison: Comparison) -> list[str]:
    """Why figures are as they are: refusals of ours, splits that miss a criterion, failures of peers."""
    ours = {table.name: comparison.figures[table.name, OURS].failures for table in comparison.tables}
    remarks = [f"{table}: {failures[0]}" for table, failures in ours.items() if failures]
    if empty := empty_splits(comparison, together=True):
        remarks.append("empty: " + _count_splits((table, "") for table, _ in empty))
    if lacking := lacking_classes(comparison, together=True):
        pairs = ((table, f" ({', '.join(sorted(names))})") for (table, _), names in lacking.items())
        remarks.append("class missing: " + _count_splits(pairs))
    if nothing := [table.name for table in comparison.tables if _nothing_to_find(comparison, table.name)]:
        remarks.append(f"neither ours nor a certain rule of a peer, so that lifts mean nothing: {', '.join(nothing)}")
    for name in PEERS:
        failed = [
            f"{table.name} {len(figures.failures)}× ({figures.failures[0]})"
            for table in comparison.tables
            if (figures := comparison.figures.get((table.name, name))) and figures.failures
        ]
        if failed:
            remarks.append(f"{name}: " + "; ".join(failed))
    return remarks


def _count_splits(pairs: Iterable[tuple[str, str]]) -> str:
    counts = Counter(f"{table}{names}" for table, names in pairs)
    return ", ".join(f"{what} {count}×" for what, count in counts.items())


def _nothing_to_find(comparison: Comparison, table: str) -> bool:
    splits = comparison.splits_of(table)
    return any(peers for _, peers in splits) and not any(
        ours.get("rules") or certain_classes(peers, together=True) for ours, peers in splits
    )
