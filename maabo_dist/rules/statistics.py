"""What the rows say of a rule: on the rows it was made from, on the validation rows, and on rows never seen."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maabo_dist.rules.rule import HeldOut, Support

Z_95 = 1.959963984540054


def support(covered: npt.NDArray[np.bool_], labels: npt.NDArray[np.int32], label: int, classes: int) -> Support:
    """How a rule that predicts `label` and covers these rows does on them."""
    counts = np.bincount(labels[covered], minlength=classes)
    n, of_class = int(counts.sum()), int((labels == label).sum())
    precision = int(counts[label]) / n if n else None
    return Support(
        rows=len(labels),
        n=n,
        counts=tuple(counts.tolist()),
        precision=precision,
        recall=int(counts[label]) / of_class if of_class else None,
        lift=precision * len(labels) / of_class if precision is not None and of_class else None,
    )


def held_out(supports: Sequence[Support], labels: Sequence[int], of_class: npt.NDArray[np.int64]) -> list[HeldOut]:
    """Add intervals and tests to the supports of all published rules on the held-out rows.

    `of_class` counts the held-out rows of each class. The q-values correct for as many tests as there are rules.
    """
    p_values = [fisher(part, label, int(of_class[label])) for part, label in zip(supports, labels, strict=True)]
    tests = zip(supports, labels, p_values, benjamini_hochberg(p_values), strict=True)
    return [_tested(part, label, p, q) for part, label, p, q in tests]


def _tested(part: Support, label: int, p: float, q: float) -> HeldOut:
    low, high = wilson(part.counts[label], part.n)
    return HeldOut(
        rows=part.rows,
        n=part.n,
        counts=part.counts,
        precision=part.precision,
        recall=part.recall,
        lift=part.lift,
        precision_low=low,
        precision_high=high,
        p=p,
        q=q,
    )


def wilson(hits: int, n: int) -> tuple[float, float] | tuple[None, None]:
    """The 95 % Wilson interval of a share."""
    if n == 0:
        return None, None
    share, z2 = hits / n, Z_95 * Z_95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def fisher(part: Support, label: int, of_class: int) -> float:
    """One-sided Fisher test: how likely are this many hits, or more, if the rule told nothing."""
    from scipy.stats import hypergeom  # costs half a second; only held-out rows need it

    return float(min(1.0, hypergeom.sf(part.counts[label] - 1, part.rows, of_class, part.n)))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the false discovery rate at which each test would be called."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    ranks = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) / ranks) if len(p) else []
    return [float(value) for value in np.minimum(adjusted, 1.0)]
