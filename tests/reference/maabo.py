"""MAABO-MT, Algorithm 1 of the paper line by line: sets, lists and sums over them. Slow and simple.

Ω is a list, U-FCS and V-FCS are lists, k is a Fraction. Where the method is open, this follows the library: the numbers
of the seeded streams, and ties, which are ties of *overlap counts*. The acquisition that is compared is therefore the
float that follows from the counts in a fixed order of summation. At every step, an assertion checks that the choice
also maximizes the exact double sum of Equation (ma2).

Unlike the paper's, subsets may have several sizes. The mismatches of two subsets then use the larger size as D′; each
size gets an even share of the draws, from its own stream.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import chain, combinations
from math import comb, floor

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SUBSETS, TOP_FEATURES, CANDIDATES, TIES = range(4)


def mix(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def stream_of(seed, step, purpose):
    return mix((mix((seed * GOLDEN + step + 1) & MASK) * GOLDEN + purpose + 1) & MASK)


def numbers(state):
    """Yield an endless stream of 64-bit numbers (SplitMix64)."""
    while True:
        state = (state + GOLDEN) & MASK
        yield mix(state)


def mismatches(f, u):
    return max(len(f), len(u)) - len(set(f) & set(u))


def k(f, u, features, h, b, largest=None):
    """Return Equation (ma2), exactly. With several sizes, the norm is that of the largest, a constant that cancels."""
    return _k(largest or len(f), mismatches(f, u), features, Fraction(h), Fraction(b))


@cache
def _k(size, m, features, h, b):
    if m == 0:
        return 1 - h
    norm = sum(comb(size, size - i) * comb(features - size, i) * b ** (i - 1) for i in range(1, size + 1))
    return b ** (m - 1) * h / norm


def K(f, U, features, h, b, largest=None):  # noqa: N802 - the paper's name
    """Return the mean of k over U, exactly."""
    return sum(k(f, u, features, h, b, largest) for u in U) / len(U)


def exact_acquisition(f, high, low, features, h, b, largest=None):
    return K(f, high, features, h, b, largest) / (K(f, low, features, h, b, largest) if low else 1)


def float_values(features, size, h, b):
    damping = [b ** (m - 1) for m in range(1, size + 1)]
    counts = [comb(size, size - m) * comb(features - size, m) for m in range(1, size + 1)]
    norm = sum(a * d for a, d in zip(counts, damping, strict=True))
    return [1 - h, *(h * d / norm for d in damping)]


def float_density(f, U, values):
    """Return the mean of k over U from the numbers of U that mismatch f in 0, 1, … features, summed in that order."""
    counts = Counter(mismatches(f, u) for u in U)
    total = 0.0
    for m, value in enumerate(values):
        total += value * counts[m]
    return total / len(U)


def float_acquisition(f, high, low, values):
    return float_density(f, high, values) / (float_density(f, low, values) if low else 1.0)


def split(verified, alpha):
    """Return (H-FCS, L-FCS) of V-FCS, a list of (subset, score) in the order of building; None marks a failed one."""
    scored = [(subset, score) for subset, score in verified if score is not None]
    ordered = sorted(scored, key=lambda item: -item[1])  # stable: ties keep their order
    threshold = max(1, floor(alpha * len(ordered)))
    return [subset for subset, _ in ordered[:threshold]], [subset for subset, _ in ordered[threshold:]]


def top_features(high, features, seed, step):
    """Return all features, the most frequent of H-FCS first; ties by the seeded keys."""
    uses = Counter(feature for subset in high for feature in subset)
    stream = numbers(stream_of(seed, step, TOP_FEATURES))
    keys = [next(stream) for _ in range(features)]
    return sorted(range(features), key=lambda feature: (-uses[feature], keys[feature]))


def draw_subsets(count, order, top, unverified, size, verified_count, stream):
    """Return `count` of the unverified subsets that contain one of order[:top], or all of them, in the order of
    drawing.

    With the features renumbered so that order[0] is 0, the restricted subsets come first in lexicographic order.
    """
    features = len(order)
    restricted = [f for f in combinations(range(features), size) if f[0] < top]
    named = [tuple(sorted(order[number] for number in f)) for f in restricted]
    free = [f for f in named if f in unverified]
    if count is None or (len(restricted) <= 3 * count + verified_count and len(free) <= count):
        return free
    draws = numbers(stream)
    if len(restricted) <= 3 * count + verified_count:
        keys = {f: next(draws) for f in free}
        return sorted(free, key=keys.get)[:count]
    result = []
    while len(result) < count:
        subset = tuple(sorted(order[number] for number in _draw(draws, features, size, top, len(restricted))))
        if subset in unverified and subset not in result:
            result.append(subset)
    return result


def _draw(draws, features, size, top, restricted):
    """Draw numbers, one of them below `top`: the smallest by its exact probability, then Floyd's combination."""
    number, first, below = next(draws), 0, 0
    while True:
        below += comb(features - 1 - first, size - 1)
        if number < min((below << 64) // restricted, MASK) or first == min(top, features - size + 1) - 1:
            break
        first += 1
    chosen, above = [], features - 1 - first
    for last in range(above - (size - 1), above):
        pick = next(draws) % (last + 1)
        chosen.append(last if pick in chosen else pick)
    return [first, *(first + 1 + pick for pick in chosen)]


def draw_by_size(count, order, top, unverified, sizes, verified, stream):
    """Return the draws of each size, as a list of lists. A single size draws from the stream itself."""
    if len(sizes) == 1:
        return [draw_subsets(count, order, top, unverified, sizes[0], len(verified), stream)]
    seen = Counter(len(f) for f, _ in verified)
    near_top = [f for f in unverified if set(order[:top]) & set(f)]
    left = {size: sum(len(f) == size for f in near_top) for size in sizes}
    shares = left if count is None else even_shares(count, left, sorted(sizes, key=lambda size: (seen[size], size)))
    return [
        draw_subsets(None if count is None else shares[size], order, top, unverified, size, seen[size], own)
        for size in sizes
        for own in [stream_of(stream, size, 0)]
    ]


def even_shares(count, left, order):
    """Assign one at a time to the size with the smallest share among those with any left; ties go to the first in
    `order`.
    """
    shares = dict.fromkeys(order, 0)
    for _ in range(min(count, sum(left.values()))):
        shares[min((size for size in order if shares[size] < left[size]), key=shares.get)] += 1
    return shares


def search(evaluate, *, features, size, initial, alpha, iterations, h, b, top, candidates, seed):
    """Return the subsets in the order in which Algorithm 1 builds their trees. `evaluate` returns None for failures.

    `size` is D′, or a tuple of sizes; `top` is N_U, `candidates` N_E (None: all). Ends early when U-FCS is used up.
    """
    sizes = (size,) if isinstance(size, int) else size
    omega = [f for width in sizes for f in combinations(range(features), width)]  # line 1
    unverified = set(omega)  # line 2
    verified = []  # line 3
    values = float_values(features, sizes[-1], h, b)

    def draw(count, order, top, stream):
        return draw_by_size(count, order, top, unverified, sizes, verified, stream)

    for step in range(initial):  # lines 5–11
        if not unverified:
            break
        stream = stream_of(seed, step, SUBSETS)
        (f,) = chain(*draw(1, range(features), features, stream))
        verified.append((f, evaluate(f)))
        unverified.remove(f)
    for step in range(initial, initial + iterations):  # lines 12–23
        if not unverified:
            break
        high, low = split(verified, alpha)  # lines 13–15
        if not high:  # nothing was scored yet
            stream = stream_of(seed, step, SUBSETS)
            (best,) = chain(*draw(1, range(features), features, stream))
        else:
            order = range(features) if top == features else top_features(high, features, seed, step)
            stream = stream_of(seed, step, CANDIDATES)  # line 16
            sampled = draw(candidates, order, top, stream)
            if not any(sampled):
                sampled = draw(candidates, range(features), features, stream)
            keys = {}
            for number, block in enumerate(sampled):
                ties = numbers(stream_of(stream_of(seed, step, TIES), number, 0))
                keys |= {f: next(ties) for f in block}
            sampled = list(keys)
            acquisition = {f: float_acquisition(f, high, low, values) for f in sampled}  # line 17
            best = min(sampled, key=lambda f: (-acquisition[f], keys[f]))  # line 18
            exact = {f: exact_acquisition(f, high, low, features, h, b, sizes[-1]) for f in sampled}
            assert exact[best] >= max(exact.values()) * (1 - Fraction(1, 10**12))
        verified.append((best, evaluate(best)))  # lines 19–22
        unverified.remove(best)
    return [f for f, _ in verified]
