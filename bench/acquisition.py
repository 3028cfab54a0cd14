"""The acquisition with growing histories, compared with a matrix product; and the history from which counting pays."""

import numpy as np

from bench import printing, tables
from bench.timing import time_interleaved
from maabo_dist.search.guide import ScoreGuide
from maabo_dist.search.space import ProposedSubsets, SubsetSpace
from maabo_dist.search.tally import ENTERS_HIGH, ENTERS_LOW, ContainmentTally, direct_overlaps

SHAPES = ((100, 3), (1000, 3), (100, 5))
SIZES = (1000, 10_000, 100_000, 1_000_000)
CANDIDATES, FEW = 4096, 64
MAX_MATRIX = 40_000_000
ALPHA, H, B = 0.25, 0.5, 0.5
NOTES = (
    f"{CANDIDATES:,} candidates a call, {FEW} for the product; best of 9 interleaved rounds after a warm-up.",
    "The product: membership @ history.T in float32, then b to the power of the mismatches; where the",
    "history's matrix has at most 4·10⁷ cells. D = 100, D′ = 3 has only 161,700 subsets. The goal is on",
    "the greatest over the smallest of a shape.",
)


def run(options) -> None:
    rows = []
    for features, size in SHAPES:
        rows += _flatness(features, size, SIZES[:3] if options.quick else SIZES)
    columns = ["D, D′", "|V|", "ours", "product", "ratio", "to |V| = 10³", "goal", ""]
    printing.print_table("2. Acquisition, a candidate", columns, rows, NOTES)
    _crossover((3, 5, 8) if options.quick else range(3, 13))


def _flatness(features: int, size: int, sizes) -> list[tuple]:
    space = SubsetSpace(features, (size,))
    sizes = [count for count in sizes if count + CANDIDATES < space.count]
    subsets = tables.random_subsets(features, size, sizes[-1] + CANDIDATES)
    history, candidates = subsets[:-CANDIDATES], subsets[-CANDIDATES:]
    calls = {}
    for count in sizes:
        guide, index = _guide(space, history[:count])
        calls["ours", count] = lambda guide=guide, index=index: guide.acquisition(index, candidates)
        if count * features <= MAX_MATRIX:
            product = MatrixProduct(history[:count], features, size)
            calls["product", count] = lambda product=product: product.acquisition(candidates[:FEW])
    taken = time_interleaved(calls, 9)
    ours = [taken["ours", count].best / CANDIDATES for count in sizes]
    rows = []
    for count, mine in zip(sizes, ours, strict=True):
        theirs = taken["product", count].best / FEW if ("product", count) in taken else None
        rows.append(
            (
                f"{features}, {size}" if count == sizes[0] else "",
                f"{count:,}",
                printing.format_time(mine),
                printing.format_time(theirs) if theirs else "–",
                f"{theirs / mine:,.0f}×" if theirs else "",
                f"{mine / ours[0]:.2f}×",
                *(
                    printing.format_verdict(max(ours) / min(ours), printing.Goal(maximum=1.5))
                    if count == sizes[-1]
                    else ("", "")
                ),
            )
        )
    return rows


def _guide(space: SubsetSpace, history) -> tuple[ScoreGuide, ProposedSubsets]:
    """A guide that has learned the history in batches, as in a search."""
    guide, index, random = ScoreGuide(space, ALPHA, H, B), ProposedSubsets(space.sizes), np.random.default_rng(0)
    index.add(history)
    for positions in np.array_split(np.arange(len(history)), max(1, len(history) // 4096)):
        guide.expect(history[positions])
        guide.learn(index, positions, random.random(len(positions)))
    return guide, index


class MatrixProduct:
    """The baseline: every candidate with every evaluated subset, by one product of membership matrices."""

    def __init__(self, history, features: int, size: int) -> None:
        self.size, self.features = size, features
        self.member = self._membership(history)
        self.high = max(1, int(ALPHA * len(history)))

    def _membership(self, subsets) -> np.ndarray:
        member = np.zeros((len(subsets), self.features), np.float32)
        np.put_along_axis(member, subsets.astype(np.int64), 1, axis=1)
        return member

    def acquisition(self, candidates) -> np.ndarray:
        shared = self._membership(candidates) @ self.member.T
        density = np.float32(B) ** (self.size - 1 - shared)
        return density[:, : self.high].mean(axis=1) / density[:, self.high :].mean(axis=1)


def _crossover(sizes) -> None:
    """Counting costs 2^D′ look-ups for each candidate and as many updates for each subset that is added or moved."""
    columns = ["D′", "D", "look-up a\ncandidate", "update a\nsubset", "direct\na pair"]
    columns += ["even at |V|,\nlook-ups", "even at |V|,\nwith updates", "memory\na subset"]
    notes = ["Above these |V| counting is cheaper. With updates: batches of 256, 1,024 candidates each."]
    rows = [_even(size) for size in sizes]
    printing.print_table("2b. Containment counts, or a pass over the history", columns, rows, notes)


def _even(size: int) -> tuple:
    features = min(1000, (1 << 64 // (size - 1)) - 1)  # subsets of a subset are packed into 64 bits
    count = 10_000 if size <= 8 else 2000
    subsets = tables.random_subsets(features, size, count + 512)
    history, candidates = subsets[:count], subsets[count:]
    moves = np.where(np.arange(count) % 4 == 0, ENTERS_HIGH, ENTERS_LOW).astype(np.int8)
    tally = ContainmentTally(features, (size,))
    tally.update(history, moves)
    memory = tally.nbytes

    def update():
        tally.update(history[:256], -moves[:256])
        tally.update(history[:256], moves[:256])

    taken = time_interleaved(
        {
            "look up": lambda: tally.overlaps(candidates),
            "direct": lambda: direct_overlaps(candidates[:64], history, features, (size,)),
            "update": update,
        },
        5,
    )
    look_up, pair, each = taken["look up"].best / 512, taken["direct"].best / 64 / count, taken["update"].best / 512
    # Each subset of a batch is added as pending, removed, and added with its score; one in two moves: about 4 updates.
    even = (1024 * look_up + 4 * 256 * each) / (1024 * pair)
    figures = (
        printing.format_time(look_up),
        printing.format_time(each),
        printing.format_time(pair),
        f"{look_up / pair:,.0f}",
        f"{even:,.0f}",
    )
    return (str(size), str(features), *figures, f"{memory / count / 1024:.1f} KB")
