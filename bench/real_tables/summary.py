"""Print the summary: the tables, a line for each table and method, and the criteria with whether each is met."""

from collections.abc import Sequence

import numpy as np
from pandas.api.types import is_numeric_dtype

from bench.printing import console, format_verdict, print_table
from bench.real_tables.criteria import check_findings, check_nulls, explain_figures
from bench.real_tables.draws import draw_rows
from bench.real_tables.figures import OURS, Comparison, mean_of
from bench.real_tables.peers import PEERS
from bench.real_tables.records import Store
from bench.real_tables.registry import RealTable


def print_summary(comparison: Comparison, store: Store) -> None:
    if not comparison.tables:
        known = ", ".join(store.versions(OURS)) or "none"
        console.print(f"There are no records of version {comparison.version}. Versions with records: {known}.")
        return
    _print_tables(comparison)
    _print_methods(comparison)
    checks = [*check_findings(comparison), *check_nulls(store, comparison.version)]
    rows = [
        [
            check.what,
            f"{check.value:.3g}{check.unit}",
            f"{check.goal}{check.unit}",
            format_verdict(check.value, check.goal)[1],
        ]
        for check in checks
    ]
    print_table("Criteria", ["", "figure", "goal", ""], rows, explain_figures(comparison))


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
                    _number(comparison.best_peer_lift(table.name)),
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
                _number(mean_of(f.rules for f in done)),
                str(max((f.most_rules for f in done), default=0)),
                str(sum(f.missing_classes > 0 for f in done)),
                *(_percent(mean_of(f.holding for f in done)), _percent(mean_of(f.holm for f in done))),
                _number(mean_of(f.lift for f in done)),
                _percent(mean_of(f.covered for f in done)),
                _number(mean_of(f.train_overlap for f in done)),
                _percent(mean_of(f.returning for f in done)),
                _number(mean_of(f.cpu for f in done)),
            ]
        )
    print_table("Methods", columns, rows)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
