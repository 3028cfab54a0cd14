"""Appendix 2: the MAA function by the number of mismatches. Nothing is mined for it."""

from collections.abc import Sequence

from maabo_dist.research.paper import printed
from maabo_dist.research.paper.case import Case, Experiment, Findings, Result, Row
from maabo_dist.research.paper.shown import NOT_PRINTED, Comparison, Panel, Series
from maabo_dist.research.paper.tables import PaperTable
from maabo_dist.search.maa import mismatch_counts, mismatch_values

FEATURES, SIZE, H = 7, 4, 0.5
DAMPINGS = (0.1, 0.3, 0.5)
"""Values of b; the paper names 0.5 and speaks of smaller ones."""
_X_LABEL = "Mismatches m"


def _no_cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:  # noqa: ARG001 - whatever they are
    return []


def _findings(results: Sequence[Result]) -> Findings:  # noqa: ARG001 - there are none
    counts = mismatch_counts(FEATURES, SIZE)
    values = {b: mismatch_values(FEATURES, SIZE, H, b).tolist() for b in DAMPINGS}
    rows: list[Row] = [
        {"b": b, "m": m, "k": value, "a": counts[m]} for b, each in values.items() for m, value in enumerate(each)
    ]
    return Findings({"app2": rows}, (_comparison(counts, values),), _panels(counts, values))


def _comparison(counts: list[int], values: dict[float, list[float]]) -> Comparison:
    last = len(counts) - 1
    lines = [
        (
            str(m),
            *(f"{each[m]:.6f}" for each in values.values()),
            str(count),
            str(printed.APP2_LAST_COUNT) if m == last else NOT_PRINTED,
        )
        for m, count in enumerate(counts)
    ]
    total = {b: sum(a * k for a, k in zip(counts, each, strict=True)) for b, each in values.items()}
    sums = ", ".join(f"{value:.12g} for b = {b}" for b, value in total.items())
    head = ("m", *(f"k_m, b = {b}" for b in values), "a_m, ours", "a_m, paper")
    title = f"Appendix 2: the MAA function at (D, D′, h) = ({FEATURES}, {SIZE}, {H})"
    return Comparison(title, head, tuple(lines), (f"Σ a_m k_m = {sums}; it must be 1.",))


def _panels(counts: list[int], values: dict[float, list[float]]) -> tuple[Panel, ...]:
    places = tuple(float(m) for m in range(len(counts)))
    similarity = tuple(Series(f"b = {b}", places, tuple(each)) for b, each in values.items())
    subsets = (Series("subsets", places, tuple(map(float, counts))),)
    ticks = tuple(str(m) for m in range(len(counts)))
    return (
        Panel("(1) Similarity", _X_LABEL, "Similarity k_m", similarity, log=True),
        Panel("(2) Subsets", _X_LABEL, "Number of feature subsets a_m", subsets, bars=True, ticks=ticks),
    )


APP2 = Experiment(
    "app2", "Numerical example of the MAA function", seeds=1, cases=_no_cases, findings=_findings, tables=(), jobs=False
)
