"""Appendix 2: the MAA function by the number of mismatches. Nothing is mined."""

from collections.abc import Sequence

from maabo_dist.research.paper import output, printed
from maabo_dist.research.paper.cases import Case, Experiment, Result
from maabo_dist.research.paper.tables import PaperTable
from maabo_dist.search.maa import mismatch_counts, mismatch_values

FEATURES, SIZE, H = 7, 4, 0.5
DAMPINGS = (0.1, 0.3, 0.5)  # values of b; the paper names 0.5 and mentions smaller ones


def _cases(tables: Sequence[PaperTable], seeds: int) -> list[Case]:  # noqa: ARG001 - the signature of all experiments
    return []


def _findings(results: Sequence[Result]) -> output.Findings:  # noqa: ARG001 - the signature of all experiments
    counts = mismatch_counts(FEATURES, SIZE)
    values = {b: mismatch_values(FEATURES, SIZE, H, b).tolist() for b in DAMPINGS}
    rows: list[output.Row] = [
        {"b": b, "m": m, "k": value, "a": counts[m]} for b, each in values.items() for m, value in enumerate(each)
    ]
    m = tuple(map(float, range(len(counts))))
    similarity = tuple(output.Series(f"b = {b}", m, tuple(each)) for b, each in values.items())
    subsets = (output.Series("subsets", m, tuple(map(float, counts))),)
    ticks = tuple(map(str, range(len(counts))))
    panels = (
        output.Panel("(1) Similarity", "Mismatches m", "Similarity k_m", similarity, log=True),
        output.Panel("(2) Subsets", "Mismatches m", "Number of feature subsets a_m", subsets, bars=True, ticks=ticks),
    )
    return output.Findings({"app2": rows}, (_comparison(counts, values),), panels)


def _comparison(counts: list[int], values: dict[float, list[float]]) -> output.Comparison:
    paper = {len(counts) - 1: str(printed.APP2_LAST_COUNT)}
    lines = [
        (str(m), *(f"{each[m]:.6f}" for each in values.values()), str(count), paper.get(m, output.NOT_PRINTED))
        for m, count in enumerate(counts)
    ]
    totals = {b: sum(a * k for a, k in zip(counts, each, strict=True)) for b, each in values.items()}
    sums = ", ".join(f"{value:.12g} for b = {b}" for b, value in totals.items())
    head = ("m", *(f"k_m, b = {b}" for b in values), "a_m, ours", "a_m, paper")
    title = f"Appendix 2: the MAA function at (D, D′, h) = ({FEATURES}, {SIZE}, {H})"
    return output.Comparison(title, head, tuple(lines), (f"Σ a_m k_m = {sums}; it must be 1.",))


APP2 = Experiment(
    "app2", "Numerical example of the MAA function", seeds=1, cases=_cases, findings=_findings, tables=(), jobs=False
)
