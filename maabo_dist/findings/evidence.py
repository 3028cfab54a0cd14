"""The evidence that rows give: counts of the rows that rules cover, exact tests, and the conditions that they support.

All tests are one-sided hypergeometric tests, that is Fisher's exact tests, in logarithms: a rule of a large table may
have a p-value below the smallest number of a double.

A condition is supported if the rule is worse without it, and by more than chance would give the best of all conditions
that could stand in its place: its p-value, times their number, is at most the level of significance.

Decisions must be the same on every machine. Logarithms are therefore computed with +, −, × and ÷ in a fixed order.
"""

from math import frexp
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.data.weights import to_rows
from maabo_dist.findings.rowbits import WORD, Bits, Ints, MinedRows
from maabo_dist.rules.statistics import portable_log

# The end of a row of conditions, and the place of one that was dropped.
NO_CONDITION = -1
# Logarithms of factorials that are kept in a table.
MAX_FACTORIALS = 1 << 22

Floats = npt.NDArray[np.float64]
# (rules, K): for each rule the indices of its conditions, or NO_CONDITION.
ConditionIndices = npt.NDArray[np.int32]


def log_factorials(count: int) -> Floats:
    """Ln 0! … ln count!; at most `MAX_FACTORIALS` of them, as the tests compute the others by Stirling's formula."""
    count = min(count, MAX_FACTORIALS)
    return np.concatenate([[0.0], np.cumsum(portable_log(np.arange(1.0, count + 1)))])


def log_p_values(
    hits: Ints, rows: Ints, all_hits: Ints, all_rows: Ints, factorials: Floats, effect: float = 1.0
) -> Floats:
    """Return ln P(at least `hits` hits among `rows`), drawn from `all_rows` of which `all_hits` are hits.

    With a design effect above 1, that many rows are worth one (`effective_counts`).
    """
    out = np.empty(len(hits))
    _log_tails(hits, rows, all_hits, all_rows, factorials, effect, out)
    return out


def count_rows(bits: Bits, mined: MinedRows, rules: ConditionIndices) -> Ints:
    """(rules, C): the rows of each class that a rule covers; units if rows have weights."""
    counts = np.zeros((len(rules), len(mined.totals)), np.int64)
    _count_classes(bits, mined.starts, mined.everything, mined.units, rules, counts)
    return counts


def count_added(mined: MinedRows, covered: Bits, rules: Ints, free: Bits, label: int) -> tuple[Ints, Ints]:
    """Count the free rows that each of these rules covers, and those of a class among them; weighted if rows are."""
    rows, hits = np.zeros(len(rules), np.int64), np.zeros(len(rules), np.int64)
    _count_added(covered, rules, free, mined.starts[label], mined.starts[label + 1], mined.units, rows, hits)
    return to_rows(rows, mined.units), to_rows(hits, mined.units)


def count_shared(bits: Bits, others: Bits) -> tuple[Ints, Ints]:
    """(others): the rows that both cover, and those that either covers; weights do not count."""
    shared, either = np.zeros(len(others), np.int64), np.zeros(len(others), np.int64)
    _count_shared(bits, others, shared, either)
    return shared, either


def cover(bits: Bits, mined: MinedRows, rules: ConditionIndices) -> Bits:
    """(rules, words): the rows that each rule covers."""
    covered = np.empty((len(rules), mined.words), np.uint64)
    _cover(bits, mined.everything, rules, covered)
    return covered


def drop_unsupported(
    bits: Bits,
    mined: MinedRows,
    rules: ConditionIndices,
    labels: Ints,
    limits: Floats,
    factorials: Floats,
    effect: float = 1.0,
    allowances: Floats | None = None,
) -> ConditionIndices:
    """Drop the least supported condition of each rule, one after another, until ln p of each one left is in its limit.

    `limits` are those of the conditions. `allowances[n]` is by how much they are lower in a rule with n conditions. The
    least supported condition exceeds its limit most.
    """
    kept = rules.copy()
    if allowances is None:
        allowances = np.zeros(rules.shape[1] + 1)
    layout = (mined.starts, mined.everything)
    _drop_unsupported(bits, layout, mined.units, labels, (limits, allowances), factorials, effect * mined.unit, kept)
    return kept


@kernel
def _log(value: float) -> float:
    """The natural logarithm of a positive number; as `portable_log`."""
    mantissa, exponent = frexp(value)
    if mantissa < 0.75:
        mantissa, exponent = 2 * mantissa, exponent - 1
    ratio = (mantissa - 1) / (mantissa + 1)
    square, series = ratio * ratio, 0.0
    for term in range(14, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return exponent * 0.6931471805599453 + 2 * ratio * series


@kernel
def _log_factorial(number: int, factorials: Any) -> float:
    if number < len(factorials):
        return float(factorials[number])
    n = float(number)
    # The constant is ln √(2π); further terms are below 1e-15, as numbers in the table are smaller than these.
    return n * _log(n) - n + 0.5 * _log(n) + 0.9189385332046727 + 1.0 / (12.0 * n)


@kernel
def _log_tail(hits: int, rows: int, all_hits: int, all_rows: int, factorials: Any) -> float:
    """The first term of the tail by factorials, the others by their ratios; 0 where hits are no more than usual."""
    if rows == 0 or hits * all_rows <= all_hits * rows:
        return 0.0
    misses, all_misses = rows - hits, all_rows - all_hits
    first = (
        _log_factorial(all_hits, factorials)
        - _log_factorial(hits, factorials)
        - _log_factorial(all_hits - hits, factorials)
        + _log_factorial(all_misses, factorials)
        - _log_factorial(misses, factorials)
        - _log_factorial(all_misses - misses, factorials)
        - _log_factorial(all_rows, factorials)
        + _log_factorial(rows, factorials)
        + _log_factorial(all_rows - rows, factorials)
    )
    total, term = 1.0, 1.0
    for more in range(hits + 1, min(rows, all_hits) + 1):
        term *= (all_hits - more + 1) / more * ((rows - more + 1) / (all_misses - rows + more))
        total += term
        if term < 1e-17 * total:  # each further one is smaller
            break
    return float(min(0.0, first + _log(total)))


@kernel
def _effective_log_tail(hits: int, rows: int, all_hits: int, all_rows: int, factorials: Any, effect: float) -> float:
    """The tail for counts of independent rows. Each part is rounded alone, so that none exceeds its whole."""
    if effect == 1.0:
        return _log_tail(hits, rows, all_hits, all_rows, factorials)
    fewer_hits, fewer_all = int(hits / effect + 0.5), int(all_hits / effect + 0.5)
    fewer_rows = fewer_hits + int((rows - hits) / effect + 0.5)
    return _log_tail(
        fewer_hits, fewer_rows, fewer_all, fewer_all + int((all_rows - all_hits) / effect + 0.5), factorials
    )


@kernel
def _log_tails(hits: Any, rows: Any, all_hits: Any, all_rows: Any, factorials: Any, effect: float, out: Any) -> None:
    for i in range(len(out)):
        out[i] = _effective_log_tail(hits[i], rows[i], all_hits[i], all_rows[i], factorials, effect)


@kernel
def _count_bits(word: Any, place: int, units: Any) -> Any:
    """The rows of the bits that are set in a word; their units if rows have weights.

    Each kind of `units` has its own compiled function, so that tables without weights do not pay for those with.
    """
    if units is None:
        return np.int64(popcount(word))
    total, first = np.int64(0), np.int64(place) * WORD
    while word != np.uint64(0):
        rest = word & (word - np.uint64(1))
        total += units[first + np.int64(popcount((word ^ rest) - np.uint64(1)))]  # zeros before the lowest bit
        word = rest
    return total


@kernel
def _count_added(covered: Any, rules: Any, free: Any, start: int, stop: int, units: Any, rows: Any, hits: Any) -> None:
    for i in range(len(rules)):
        for word in range(len(free)):
            added = _count_bits(covered[rules[i], word] & free[word], word, units)
            rows[i] += added
            if start <= word < stop:
                hits[i] += added


@kernel
def _count_shared(bits: Any, others: Any, shared: Any, either: Any) -> None:
    for i in range(len(others)):
        for word in range(len(bits)):
            shared[i] += np.int64(popcount(bits[word] & others[i, word]))
            either[i] += np.int64(popcount(bits[word] | others[i, word]))


@kernel
def _count_classes(bits: Any, starts: Any, everything: Any, units: Any, rules: Any, counts: Any) -> None:
    common = np.empty_like(everything)
    for rule in range(len(rules)):
        common[:] = everything
        for k in range(rules.shape[1]):
            if rules[rule, k] >= 0:
                _intersect(common, bits[rules[rule, k]], common)
        for c in range(counts.shape[1]):
            counts[rule, c] = _count_common(common, everything, starts[c], starts[c + 1], units)


@kernel
def _intersect(first: Any, second: Any, out: Any) -> None:
    for word in range(len(out)):
        out[word] = first[word] & second[word]


@kernel
def _count_common(first: Any, second: Any, start: int, stop: int, units: Any) -> Any:
    """The rows of the bits that are set in both, in the words start:stop; a slice saves a check of every index."""
    left, right, total = first[start:stop], second[start:stop], np.int64(0)
    for word in range(len(left)):
        total += _count_bits(left[word] & right[word], start + word, units)
    return total


@kernel
def _cover(bits: Any, everything: Any, rules: Any, covered: Any) -> None:
    for rule in range(len(rules)):
        covered[rule] = everything
        for k in range(rules.shape[1]):
            if rules[rule, k] >= 0:
                covered[rule] &= bits[rules[rule, k]]


@kernel
def _drop_unsupported(
    bits: Any, layout: Any, units: Any, labels: Any, limits: Any, factorials: Any, effect: float, rules: Any
) -> None:
    (starts, everything), (condition_limits, allowances) = layout, limits
    width = rules.shape[1]
    # The last entry is the rule's own; entry k is that of the rule without its condition k.
    rows, hits = np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64)
    after = np.empty((width + 1, len(everything)), np.uint64)
    for rule in range(len(rules)):
        span = starts[labels[rule]], starts[labels[rule] + 1]
        while True:
            _count_without(bits, everything, units, rules[rule], span, after, rows, hits)
            worst, greatest, present = -1, 0.0, 0
            for k in range(width):
                present += rules[rule, k] >= 0
            for k in range(width):
                if rules[rule, k] >= 0:
                    value = _effective_log_tail(hits[width], rows[width], hits[k], rows[k], factorials, effect)
                    excess = value - condition_limits[rules[rule, k]] + allowances[present]
                    if excess > greatest:
                        worst, greatest = k, excess
            if worst < 0:
                break
            rules[rule, worst] = NO_CONDITION


@kernel
def _count_without(
    bits: Any, everything: Any, units: Any, rule: Any, span: tuple[int, int], after: Any, rows: Any, hits: Any
) -> None:
    """Count the rows, and those of the class in a span of words, of the rule and of it without each condition.

    `after` has room for the rows of the conditions behind each one. A condition at a time, so that each loop is plain.
    """
    width, (start, stop) = len(rule), span
    after[width] = everything
    for k in range(width - 1, -1, -1):
        if rule[k] >= 0:
            _intersect(after[k + 1], bits[rule[k]], after[k])
        else:
            after[k] = after[k + 1]
    before = everything.copy()
    for k in range(width + 1):
        rows[k] = hits[k] = 0
        if k == width or rule[k] >= 0:
            others = after[min(k + 1, width)]
            hits[k] = _count_common(before, others, start, stop, units)
            rows[k] = hits[k] + _count_common(before, others, 0, start, units)
            rows[k] += _count_common(before, others, stop, len(before), units)
        if k < width and rule[k] >= 0:
            _intersect(before, bits[rule[k]], before)
