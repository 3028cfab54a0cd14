"""GS-MRM, Algorithm 2 of the paper line by line over explicit leaves, and leaves read from trees by recursion.

Where the paper is open, the rules are those of the library: ties go to the larger n, then to the canonical order of the
logic set; the empty logic set is similar to everything.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

LEAF = -1


@dataclass(frozen=True)
class Leaf:
    logic: frozenset  # of (feature, is large)
    bounds: tuple  # the threshold of each literal, in their ascending order
    counts: tuple
    gini: float
    score: float = 0.0
    tree: int = 0

    @property
    def n(self):
        return sum(self.counts)

    @property
    def rank(self):
        """The order of ties: larger first, then by logic (a set before its own prefixes), bounds, score, tree."""
        return (-self.n, (*sorted(self.logic), (inf, inf)), self.bounds, -self.score, self.tree)


def exact_gini(counts, weights):
    weighted = [Fraction(weight) * count for weight, count in zip(weights, counts, strict=True)]
    return 1 - sum((part / sum(weighted)) ** 2 for part in weighted)


def float_gini(counts, weights):
    total = 0.0
    for weight, count in zip(weights, counts, strict=True):
        total += weight * count
    squares = 0.0
    for weight, count in zip(weights, counts, strict=True):
        squares += (weight * count / total) * (weight * count / total)
    return 1.0 - squares


def leaves_of(tree, weights, number=0):
    """Return every leaf of a `CompactTree`, left to right, with the conditions of its path."""

    def walk(node, path):
        if tree.feature[node] == LEAF:
            counts = tuple(tree.counts[node].tolist())
            logic, bounds = _merge(path)
            return [Leaf(logic, bounds, counts, float_gini(counts, weights), tree.score, number)]
        feature, threshold, left = int(tree.feature[node]), float(tree.threshold[node]), int(tree.left[node])
        return [
            *walk(left, [*path, (feature, False, threshold)]),
            *walk(left + 1, [*path, (feature, True, threshold)]),
        ]

    return walk(0, [])


def _merge(path):
    """Merge repeated literals into one with the tighter threshold: the greatest lower or the least upper bound."""
    tight = {}
    for feature, large, threshold in path:
        bound = tight.get((feature, large), threshold)
        tight[feature, large] = max(bound, threshold) if large else min(bound, threshold)
    return frozenset(tight), tuple(tight[literal] for literal in sorted(tight))


def simpson(a, b):
    """|A ∩ B| / min(|A|, |B|), and 1 if one of them is empty."""
    smaller = min(len(a), len(b))
    return len(a & b) / smaller if smaller else 1.0


def by_logic(a, b):
    return simpson(a.logic, b.logic)


def select(leaves, min_samples, gini_share, limit, classes, similarity=by_logic):
    """Return the rules in the order of selection. (β, γ, δ) = (min_samples, gini_share, limit)."""
    L = list(leaves)  # lines 1–3
    chosen = []
    for leaf in list(L):  # lines 4–8
        if leaf.gini >= gini_share * (1 - 1 / classes) or leaf.n < min_samples:
            L.remove(leaf)
    while L:  # lines 9–19
        if not chosen:
            best = min(L, key=lambda leaf: (leaf.gini, leaf.rank))
        else:
            best = min(L, key=lambda leaf: (leaf.gini + max(similarity(leaf, rule) for rule in chosen), leaf.rank))
        if max((similarity(best, rule) for rule in chosen), default=0.0) < limit:
            chosen.append(best)
        L.remove(best)
    return chosen
