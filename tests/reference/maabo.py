"""MAABO-MT, Algorithm 1 of the paper line by line: sets, lists and sums over them. Slow and obvious.

Ω is a list, U-FCS and V-FCS are lists, k is a Fraction. What is shared with the library is what the method leaves open
and the project has settled: which numbers the seeded streams give, and that a tie is a tie of *overlap counts*; the
acquisition that is compared is therefore the float that follows from the counts in a fixed order of summation. That the
choice is also the greatest by the exact double sum of Equation (ma2) is asserted at every step.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations
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
    """SplitMix64: an endless stream of 64-bit numbers."""
    while True:
        state = (state + GOLDEN) & MASK
        yield mix(state)


def k(f, u, features, h, b):
    """Equation (ma2), exactly."""
    return _k(len(f), len(f) - len(set(f) & set(u)), features, Fraction(h), Fraction(b))


@cache
def _k(size, mismatches, features, h, b):
    if mismatches == 0:
        return 1 - h
    norm = sum(comb(size, size - i) * comb(features - size, i) * b ** (i - 1) for i in range(1, size + 1))
    return b ** (mismatches - 1) * h / norm


def K(f, U, features, h, b):  # noqa: N802 - the paper's name
    """The mean of k over U, exactly."""
    return sum(k(f, u, features, h, b) for u in U) / len(U)


def exact_acquisition(f, high, low, features, h, b):
    return K(f, high, features, h, b) / (K(f, low, features, h, b) if low else 1)


def float_values(features, size, h, b):
    damping = [b ** (m - 1) for m in range(1, size + 1)]
    counts = [comb(size, size - m) * comb(features - size, m) for m in range(1, size + 1)]
    norm = sum(a * d for a, d in zip(counts, damping, strict=True))
    return [1 - h, *(h * d / norm for d in damping)]


def float_density(f, U, values):
    """The mean of k over U from how many of U mismatch f in 0, 1, … features, summed in that order."""
    mismatches = Counter(len(f) - len(set(f) & set(u)) for u in U)
    total = 0.0
    for m, value in enumerate(values):
        total += value * mismatches[m]
    return total / len(U)


def float_acquisition(f, high, low, values):
    return float_density(f, high, values) / (float_density(f, low, values) if low else 1.0)


def split(verified, alpha):
    """(H-FCS, L-FCS) of V-FCS, a list of (subset, score) in the order of building; None marks a failed one."""
    scored = [(subset, score) for subset, score in verified if score is not None]
    ordered = sorted(scored, key=lambda item: -item[1])  # stable: of equals the earlier one first
    threshold = max(1, floor(alpha * len(ordered)))
    return [subset for subset, _ in ordered[:threshold]], [subset for subset, _ in ordered[threshold:]]


def top_features(high, features, seed, step):
    """All features, the most frequent of H-FCS first; ties by the seeded keys."""
    uses = Counter(feature for subset in high for feature in subset)
    stream = numbers(stream_of(seed, step, TOP_FEATURES))
    keys = [next(stream) for _ in range(features)]
    return sorted(range(features), key=lambda feature: (-uses[feature], keys[feature]))


def drawn(count, order, top, unverified, size, verified_count, stream):
    """`count` of the unverified subsets that hold one of order[:top], or all of them; a list in the order of drawing.

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
    """A subset of numbers, one of them below `top`: the smallest by its exact probability, then Floyd's combination."""
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


def search(evaluate, *, features, size, initial, alpha, iterations, h, b, top, candidates, seed):
    """The subsets in the order in which Algorithm 1 builds their trees. `evaluate` gives a score, or None if it fails.

    `top` is N_U, `candidates` N_E (None: all). Ends early when U-FCS is used up.
    """
    omega = list(combinations(range(features), size))  # line 1
    unverified = set(omega)  # line 2
    verified = []  # line 3
    values = float_values(features, size, h, b)
    for step in range(initial):  # lines 5–11
        if not unverified:
            break
        stream = stream_of(seed, step, SUBSETS)
        (f,) = drawn(1, range(features), features, unverified, size, len(verified), stream)
        verified.append((f, evaluate(f)))
        unverified.remove(f)
    for step in range(initial, initial + iterations):  # lines 12–23
        if not unverified:
            break
        high, low = split(verified, alpha)  # lines 13–15
        if not high:  # nothing was scored yet
            stream = stream_of(seed, step, SUBSETS)
            (best,) = drawn(1, range(features), features, unverified, size, len(verified), stream)
        else:
            order = range(features) if top == features else top_features(high, features, seed, step)
            stream = stream_of(seed, step, CANDIDATES)  # line 16
            sampled = drawn(candidates, order, top, unverified, size, len(verified), stream)
            if not sampled:
                sampled = drawn(candidates, range(features), features, unverified, size, len(verified), stream)
            ties = numbers(stream_of(stream_of(seed, step, TIES), 0, 0))
            keys = {f: next(ties) for f in sampled}
            acquisition = {f: float_acquisition(f, high, low, values) for f in sampled}  # line 17
            best = min(sampled, key=lambda f: (-acquisition[f], keys[f]))  # line 18
            exact = {f: exact_acquisition(f, high, low, features, h, b) for f in sampled}
            assert exact[best] >= max(exact.values()) * (1 - Fraction(1, 10**12))
        verified.append((best, evaluate(best)))  # lines 19–22
        unverified.remove(best)
    return [f for f, _ in verified]
