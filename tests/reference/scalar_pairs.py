"""The pairwise screen, one pair after another: 64 rows at a time, and every pair rated exactly."""

import numba
import numpy as np

from maabo_dist._util.jit import popcount
from maabo_dist.screens.pairs import Pairs, single_strengths

TILE = 16


def screen_pairs(table, most):
    """Return the strongest of all pairs, as `maabo_dist.screens.pairs` does."""
    weights = np.where(table.totals > 0, table.totals.sum() / np.maximum(table.totals, 1), 0.0)
    strengths, features = np.full(most, -np.inf), np.zeros((most, 2), np.int32)
    count = _screen(table, single_strengths(table), weights, 0, max(0, table.features - 1), strengths, features)
    return Pairs.strongest([Pairs(features[:count], strengths[:count])], most)


@numba.njit(nogil=True, error_model="numpy")
def _screen(table, singles, weights, start, stop, strengths, features):
    """Fill a heap with the strongest pairs, the weakest on top; return their number."""
    count, rows = 0, table.totals.sum()
    squares, sizes = np.empty(9), np.empty(9, np.int64)
    for first in range(start, stop, TILE):  # a tile of first features stays in the cache while the second ones change
        for g in range(first + 1, len(table.bits)):
            for f in range(first, min(first + TILE, stop, g)):
                squares[:] = 0.0
                sizes[:] = 0
                for c in range(len(table.totals)):
                    _add_class(table, f, g, c, weights[c], squares, sizes)
                strength = _chi_squared(squares, sizes, rows) - singles[f] - singles[g]
                if count < len(strengths):
                    _sift_up(strengths, features, count, strength, f, g)
                    count += 1
                elif count and _is_weaker(strengths, features, 0, strength, f, g):
                    _sift_down(strengths, features, strength, f, g)
    return count


@numba.njit(nogil=True, error_model="numpy")
def _add_class(table, f, g, c, weight, squares, sizes):
    """Count a class's rows in the nine cells. The counts above both cuts give the bins: below, between, above."""
    low_low = low_high = high_low = high_high = np.uint64(0)
    bits = table.bits
    for word in range(table.starts[c], table.starts[c + 1]):
        f_low, f_high, g_low, g_high = bits[f, 0, word], bits[f, 1, word], bits[g, 0, word], bits[g, 1, word]
        low_low += popcount(f_low & g_low)
        low_high += popcount(f_low & g_high)
        high_low += popcount(f_high & g_low)
        high_high += popcount(f_high & g_high)
    ll, lh, hl, hh = np.int64(low_low), np.int64(low_high), np.int64(high_low), np.int64(high_high)
    fl, fh = table.above[f, 0, c], table.above[f, 1, c]
    gl, gh = table.above[g, 0, c], table.above[g, 1, c]
    _add_cell(0, table.totals[c] - gl - (fl - ll), weight, squares, sizes)
    _add_cell(1, (gl - gh) - (ll - lh), weight, squares, sizes)
    _add_cell(2, gh - lh, weight, squares, sizes)
    _add_cell(3, (fl - ll) - (fh - hl), weight, squares, sizes)
    _add_cell(4, (ll - lh) - (hl - hh), weight, squares, sizes)
    _add_cell(5, lh - hh, weight, squares, sizes)
    _add_cell(6, fh - hl, weight, squares, sizes)
    _add_cell(7, hl - hh, weight, squares, sizes)
    _add_cell(8, hh, weight, squares, sizes)


@numba.njit(nogil=True, error_model="numpy")
def _add_cell(cell, count, weight, squares, sizes):
    squares[cell] += count * count * weight
    sizes[cell] += count


@numba.njit(nogil=True, error_model="numpy")
def _chi_squared(squares, sizes, rows):
    """Σ (observed − expected)² / expected = Σ observed² / expected − rows, over cells and classes."""
    value = -float(rows)
    for cell in range(len(sizes)):
        if sizes[cell] > 0:
            value += squares[cell] / sizes[cell]
    return value


@numba.njit(nogil=True, error_model="numpy")
def _is_weaker(strengths, features, place, strength, f, g):
    """True if the pair at `place` comes after the pair of f and g. No two pairs are equal."""
    if strengths[place] != strength:
        return bool(strengths[place] < strength)
    return bool(features[place, 0] > f or (features[place, 0] == f and features[place, 1] > g))


@numba.njit(nogil=True, error_model="numpy")
def _sift_up(strengths, features, place, strength, f, g):
    while place > 0:
        parent = (place - 1) // 2
        if _is_weaker(strengths, features, parent, strength, f, g):
            break
        strengths[place] = strengths[parent]
        features[place, 0], features[place, 1] = features[parent, 0], features[parent, 1]
        place = parent
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g


@numba.njit(nogil=True, error_model="numpy")
def _sift_down(strengths, features, strength, f, g):
    place, size = 0, len(strengths)
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other, first, second = child + 1, features[child, 0], features[child, 1]
        if other < size and _is_weaker(strengths, features, other, strengths[child], first, second):
            child = other
        if not _is_weaker(strengths, features, child, strength, f, g):
            break
        strengths[place] = strengths[child]
        features[place, 0], features[place, 1] = features[child, 0], features[child, 1]
        place = child
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g
