"""Rows that belong together: exchange the labels of whole groups, draw whole groups, and count what rows are worth.

Rows of one patient, customer or machine are alike. Whatever treats them as independent rows overrates evidence: a rule
that describes five patients well may cover a hundred rows. The unit is the group, therefore:

    splits     A group is in one part of the split.
    shuffles   Groups exchange their labels, all of a group at once, in their order. Only groups of about the same size
               exchange them (`strata`). Under the null hypothesis the labels of a group do not depend on its other
               columns, so that each exchange is as likely as the table itself, and a comparison with exchanged tables
               is exact. Where the sizes in a stratum differ, at most by a factor of two, labels are repeated in turn or
               cut off to fit; there it is also assumed that labels do not depend on this difference in size.
    tests      Counts of rows are divided by the design effect: m rows of a group whose labels correlate by r are worth
               m / (1 + (m − 1) r) independent ones.
"""

from collections.abc import Iterator
from math import fsum

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws

# Groups of one size are a stratum from so many on; fewer are joined by groups of the next sizes, up to this factor.
MIN_STRATUM, MAX_SIZE_RATIO = 10, 2

Ints = npt.NDArray[np.int64]


def strata(sizes: Ints) -> Ints:
    """(groups): the number of each group's stratum, from the numbers of rows of all groups."""
    result = np.zeros(len(sizes), np.int64)
    for number, (smallest, largest) in enumerate(_size_ranges(sizes)):
        result[(sizes >= smallest) & (sizes <= largest)] = number
    return result


def _size_ranges(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield the smallest and the largest size of each stratum, ascending."""
    distinct, counts = np.unique(sizes, return_counts=True)
    smallest = largest = members = 0
    for size, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        if members and (members >= MIN_STRATUM or size > MAX_SIZE_RATIO * smallest):
            yield smallest, largest
            members = 0
        if not members:
            smallest = size
        largest, members = size, members + count
    if members:
        yield smallest, largest


def exchange(groups: npt.NDArray[np.integer], stream: int) -> Ints:
    """(rows): the row whose label each row gets when groups exchange their labels, by the draws of a stream."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    stratum = strata(sizes)
    keys = draws.keys(stream, len(sizes))
    # The groups of each stratum one after another: as they are, and in the order of the draws.
    takers, givers = np.lexsort([np.arange(len(sizes)), stratum]), np.lexsort([keys, stratum])
    giver = np.empty(len(sizes), np.int64)
    giver[takers] = givers
    of_row = codes[order]
    position = np.arange(len(groups)) - starts[of_row]
    source = np.empty(len(groups), np.int64)
    source[order] = order[starts[giver[of_row]] + position % sizes[giver[of_row]]]
    return source


def choose_groups(groups: npt.NDArray[np.integer], count: int, rng: np.random.RandomState) -> npt.NDArray[np.bool_]:
    """(rows): True for the rows of randomly chosen whole groups, about `count` of them.

    Groups are taken in random order until the next one is too large; then one more if some group brings the number of
    rows nearer. At least one group is chosen and one is not, if there are two.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    taken = int(np.searchsorted(np.cumsum(sizes[order]), count, side="right"))
    taken = min(taken, len(sizes) - 1)
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[order[:taken]] = True
    rest = order[taken:]
    lacking = count - int(sizes[chosen].sum())
    best = rest[np.argmin(np.abs(sizes[rest] - lacking))]
    if len(rest) > 1 and (taken == 0 or abs(int(sizes[best]) - lacking) < abs(lacking)):
        chosen[best] = True
    return chosen[codes]


def design_effect(groups: npt.NDArray[np.integer], labels: npt.NDArray[np.integer], classes: int) -> float:
    """Return the number of rows that are worth one independent row: at least 1, at most the rows of a group.

    The correlation of labels within groups is that of the analysis of variance, over all classes together.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    rows, count = len(codes), len(sizes)
    if count in {0, 1, rows}:
        return max(1.0, float(rows)) if count == 1 else 1.0
    cells = np.bincount(codes * classes + labels, minlength=count * classes).reshape(count, classes)
    # Sums are exact, so that they are the same on every machine.
    squares = fsum(((cells.astype(np.float64) ** 2).sum(axis=1) / sizes).tolist())
    totals = cells.sum(axis=0)
    between = squares - int((totals * totals).sum()) / rows
    within = rows - squares
    square_sizes = int((sizes.astype(np.int64) ** 2).sum())
    usual_size = (rows - square_sizes / rows) / (count - 1)
    mean_between, mean_within = between / (count - 1), within / (rows - count)
    variance = mean_between + (usual_size - 1) * mean_within
    correlation = (mean_between - mean_within) / variance if variance > 0 else 0.0
    return 1 + (square_sizes / rows - 1) * min(1.0, max(0.0, correlation))


def effective_counts(counts: Ints, effect: float) -> Ints:
    """Return counts of rows as counts of independent rows, rounded."""
    return counts if effect == 1 else np.floor(counts / effect + 0.5).astype(np.int64)
