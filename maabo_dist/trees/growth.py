"""The kernels that grow CART trees: packed entries in, nodes and scores out.

One tree is grown for all depths: CART is greedy, so the tree of depth p is the tree of depth p_max cut at p. Nodes are
numbered level by level, so that a cut tree is a *prefix* of the grown one.

A level's nodes own consecutive segments of every feature's order; a split partitions them in place order:

    current[q]    | node 3 ....... | node 4 ... | node 5 (leaf) |
    following[q]  | 6 .... | 7 ... | 8 . | 9 .. |   (unused)    |

What is maximised is  Σ_c l_c²/W_l + Σ_c r_c²/W_r  over the weighted class counts of both sides, which is CART's decrease
of the weighted Gini index up to a constant. It is always computed from the integer counts by the same expression, so
that two splits with the same counts tie exactly; the first feature of the subset, then the lowest threshold, wins.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist.kernels import kernel

LEAF = -1
FEW_VALUES = 32
"""A node with this many rows per rank in its range is scanned value by value."""


class Grown(NamedTuple):
    """The nodes of one tree, level by level, with room for the largest tree."""

    feature: Any  # int32: position in the subset, or LEAF
    threshold: Any  # float64
    left: Any  # int32: the left child; the right one follows it
    start: Any  # int64: the node's segment of the training orders …
    stop: Any
    v_start: Any  # int64: … and of the validation rows
    v_stop: Any
    counts: Any  # int64 (nodes, C): training rows
    v_counts: Any  # int64 (nodes, C): validation rows
    levels: Any  # int64 (max_depth + 2): where each level's nodes begin


class Block(NamedTuple):
    """What a block of subsets gives, written by the kernel. Nodes of all trees stand one after another."""

    scores: Any  # float64 (subsets, max_depth): macro F1 at each depth
    depths: Any  # int32 (subsets): the best depth; the smallest of equals
    sizes: Any  # int64 (subsets): nodes of each tree
    feature: Any  # int32 (nodes): feature index, or LEAF
    threshold: Any  # float64 (nodes)
    left: Any  # int32 (nodes): left child within its tree, or LEAF
    counts: Any  # int32 (nodes, C): training rows


class Scratch(NamedTuple):
    """Candidate cuts of one feature in one node."""

    position: Any  # int32: entries on the left
    ones: Any  # int32: of these, of class 1 (two classes)
    score: Any  # float64
    left: Any  # int64 (C)


@kernel
def root_splits(
    entries: npt.NDArray[Any],
    layout: Any,
    totals: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    min_samples_leaf: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Each feature's best split of all training rows; −inf where it has none."""
    features, rows = entries.shape
    scratch = _scratch(rows, len(totals))
    scores = np.empty(features)
    cuts = np.zeros(features, np.int64)
    for f in range(features):
        scores[f], cuts[f] = _best_cut(entries[f], 0, rows, layout, totals, weights, min_samples_leaf, scratch)
    return scores, cuts


@kernel
def grow_block(table: Any, subsets: npt.NDArray[np.int32], max_depth: int, block: Block) -> int:
    """Grow and score one tree per row of `subsets`, keep each at its best depth in `block`; returns the nodes used."""
    count, size = subsets.shape
    rows, v_rows, classes = table.entries.shape[1], len(table.validation_entries), len(table.totals)
    grown = _grown(most_nodes(rows, max_depth), classes, max_depth)
    scratch = _scratch(rows, classes)
    orders = np.empty((2, size, rows), table.entries.dtype)
    v_orders = np.empty((2, v_rows), np.int64)
    used = 0
    for t in range(count):
        _grow(table, subsets[t], max_depth, grown, scratch, orders, v_orders)
        _score_depths(table, max_depth, grown, block.scores[t])
        depth = 1
        for p in range(2, max_depth + 1):
            if block.scores[t, p - 1] > block.scores[t, depth - 1]:
                depth = p
        nodes = grown.levels[depth + 1]
        _keep(grown, subsets[t], depth, block, used)
        block.depths[t], block.sizes[t] = depth, nodes
        used += nodes
    return used


@kernel
def most_nodes(rows: int, max_depth: int) -> int:
    """No tree of this depth on this many rows has more nodes."""
    return min((1 << (max_depth + 1)) - 1, 2 * rows - 1)


@kernel
def _keep(grown: Grown, subset: npt.NDArray[np.int32], depth: int, block: Block, used: int) -> None:
    """Copy the tree's prefix of nodes down to `depth`, whose nodes become leaves."""
    for i in range(grown.levels[depth + 1]):
        is_split = i < grown.levels[depth] and grown.feature[i] != LEAF
        block.feature[used + i] = subset[grown.feature[i]] if is_split else LEAF
        block.threshold[used + i] = grown.threshold[i] if is_split else 0.0
        block.left[used + i] = grown.left[i] if is_split else LEAF
        for c in range(grown.counts.shape[1]):
            block.counts[used + i, c] = grown.counts[i, c]


@kernel
def _scratch(rows: int, classes: int) -> Scratch:
    return Scratch(
        np.empty(rows + 1, np.int32), np.empty(rows + 1, np.int32), np.empty(rows + 1), np.empty(classes, np.int64)
    )


@kernel
def _grown(most: int, classes: int, max_depth: int) -> Grown:
    return Grown(
        np.empty(most, np.int32),
        np.empty(most),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((most, classes), np.int64),
        np.empty((most, classes), np.int64),
        np.empty(max_depth + 2, np.int64),
    )


@kernel
def _grow(
    table: Any,
    subset: npt.NDArray[np.int32],
    max_depth: int,
    grown: Grown,
    scratch: Scratch,
    orders: Any,
    v_orders: Any,
) -> None:
    size = len(subset)
    rows, v_rows, classes = table.entries.shape[1], len(table.validation_entries), len(table.totals)
    grown.start[0], grown.stop[0], grown.v_start[0], grown.v_stop[0] = 0, rows, 0, v_rows
    for c in range(classes):
        grown.counts[0, c] = table.totals[c]
    for i in range(v_rows):
        v_orders[0, i] = table.validation_entries[i]
    _count_left(table.validation_entries, 0, v_rows, table.layout, grown.v_counts[0])
    grown.feature[0] = LEAF
    grown.levels[0], grown.levels[1] = 0, 1
    made = 1
    for depth in range(max_depth):
        current, following = orders[depth % 2], orders[(depth + 1) % 2]
        v_current, v_following = v_orders[depth % 2], v_orders[(depth + 1) % 2]
        for node in range(grown.levels[depth], grown.levels[depth + 1]):
            start, stop = grown.start[node], grown.stop[node]
            if not _may_split(grown.counts[node], stop - start, table.min_samples_leaf):
                continue
            # The best split of the node over the subset's features.
            best, q_best, cut = -np.inf, LEAF, 0
            for q in range(size):
                if depth == 0:
                    score, position = table.root_scores[subset[q]], table.root_cuts[subset[q]]
                else:
                    score, position = _best_cut(
                        current[q], start, stop, table.layout, grown.counts[node], table.weights,
                        table.min_samples_leaf, scratch,
                    )  # fmt: skip
                if score > best:
                    best, q_best, cut = score, q, position
            if q_best == LEAF:
                continue

            f = subset[q_best]
            order = table.entries[f] if depth == 0 else current[q_best]
            threshold, code = _threshold(
                np.int64(order[start + cut - 1]) >> table.layout.code_shift,
                np.int64(order[start + cut]) >> table.layout.code_shift,
                table.values[table.offsets[f] : table.offsets[f + 1]],
            )
            # The two children.
            middle = start + cut
            left, right = made, made + 1
            made += 2
            grown.feature[node], grown.threshold[node], grown.left[node] = q_best, threshold, left
            grown.feature[left] = grown.feature[right] = LEAF
            grown.start[left], grown.stop[left], grown.start[right], grown.stop[right] = start, middle, middle, stop
            _count_left(order, start, middle, table.layout, grown.counts[left])
            for c in range(classes):
                grown.counts[right, c] = grown.counts[node, c] - grown.counts[left, c]
            _split_validation(table, f, code, node, left, grown, v_current, v_following)
            # Their orders, unless no grandchild can come of them.
            if depth + 1 == max_depth or not (
                _may_split(grown.counts[left], cut, table.min_samples_leaf)
                or _may_split(grown.counts[right], stop - middle, table.min_samples_leaf)
            ):
                continue
            codes = table.train_codes[f]
            for q in range(size):
                if q == q_best:
                    for i in range(start, stop):
                        following[q, i] = order[i]
                elif depth == 0:
                    _partition(table.entries[subset[q]], following[q], start, stop, middle, codes, code, table.layout)
                else:
                    _partition(current[q], following[q], start, stop, middle, codes, code, table.layout)
        grown.levels[depth + 2] = made


@kernel
def _may_split(counts: npt.NDArray[np.int64], size: int, min_samples_leaf: int) -> bool:
    """Whether a node of these class counts is impure and large enough. Counts are integers: pure is seen as pure."""
    if size < 2 * min_samples_leaf:
        return False
    for c in range(len(counts)):
        if counts[c] == size:
            return False
    return True


@kernel
def _best_cut(
    order: Any, start: int, stop: int, layout: Any, counts: Any, weights: Any, min_samples_leaf: int, scratch: Scratch
) -> tuple[float, int]:
    """The score of the best cut of order[start:stop] and how many entries it puts on the left."""
    low, high = np.int64(order[start]) >> layout.code_shift, np.int64(order[stop - 1]) >> layout.code_shift
    if low == high or stop - start < 2 * min_samples_leaf:
        return -np.inf, 0
    if len(counts) > 2:
        return _best_cut_many(order, start, stop, layout, counts, weights, min_samples_leaf, scratch)
    if (high - low) * FEW_VALUES <= stop - start:
        found = _cuts_of_few_values(order, start, stop, layout, min_samples_leaf, scratch)
    else:
        found = _cuts_of_many_values(order, start, stop, layout, min_samples_leaf, scratch)
    return _best_scored(scratch, found, counts[0], counts[1], weights[0], weights[1])


@kernel
def _cuts_of_few_values(order: Any, start: int, stop: int, layout: Any, min_samples_leaf: int, scratch: Scratch) -> int:
    """Two classes, long runs of equal values: leap from value to value; a run's ones are a plain sum."""
    found, ones, first = 0, 0, start
    while True:
        above = ((np.int64(order[first]) >> layout.code_shift) + 1) << layout.code_shift
        low, high = first, stop  # the first entry of the next value lies in (low, high]
        while high - low > 1:
            middle = (low + high) // 2
            if np.int64(order[middle]) < above:
                low = middle
            else:
                high = middle
        if high == stop:
            return found
        for i in range(first, high):
            ones += np.int64(order[i]) & 1
        scratch.position[found] = high - start
        scratch.ones[found] = ones
        found += min_samples_leaf <= high - start and min_samples_leaf <= stop - high
        first = high


@kernel
def _cuts_of_many_values(
    order: Any, start: int, stop: int, layout: Any, min_samples_leaf: int, scratch: Scratch
) -> int:
    """Two classes, in one pass without branches on the data.

    Within a run of rows of one class the score is strictly convex in the cut's place, so that a cut between two rows of
    the same class, neither of them tied, is never the best. It is passed over, unless `min_samples_leaf` may have
    forbidden the ends of the run.
    """
    every = np.int64(min_samples_leaf > 1)
    one_code = np.int64(1) << layout.code_shift
    found, ones = 0, 0
    for i in range(start, start + min_samples_leaf - 1):
        ones += np.int64(order[i]) & 1
    entry = np.int64(order[start + min_samples_leaf - 1])
    for i in range(start + min_samples_leaf - 1, stop - min_samples_leaf):
        following = np.int64(order[i + 1])
        ones += entry & 1
        changed = entry ^ following
        wanted = (changed | ((entry | following) >> 1) | every) & 1  # another class, or tied
        scratch.position[found] = i + 1 - start
        scratch.ones[found] = ones
        found += wanted * (changed >= one_code)
        entry = following
    return found


@kernel
def _best_scored(scratch: Scratch, found: int, zeros: int, ones: int, w0: float, w1: float) -> tuple[float, int]:
    position, left_ones, score = scratch.position[:found], scratch.ones[:found], scratch.score[:found]
    all_zeros, all_ones = np.float64(zeros), np.float64(ones)
    for j in range(found):
        # Floats from here on: counts are exact in them, and four cuts fit one instruction.
        l1 = np.float64(left_ones[j])
        l0 = np.float64(position[j]) - l1
        a0, a1, b0, b1 = w0 * l0, w1 * l1, w0 * (all_zeros - l0), w1 * (all_ones - l1)
        left, right = a0 + a1, b0 + b1
        score[j] = ((a0 * a0 + a1 * a1) * right + (b0 * b0 + b1 * b1) * left) / (left * right)
    best, cut = -np.inf, 0
    for j in range(found):
        if score[j] > best:
            best, cut = score[j], position[j]
    return best, cut


@kernel
def _best_cut_many(
    order: Any, start: int, stop: int, layout: Any, counts: Any, weights: Any, min_samples_leaf: int, scratch: Scratch
) -> tuple[float, int]:
    """Any number of classes: one pass, every cut between different values scored from its counts."""
    left = scratch.left
    for c in range(len(counts)):
        left[c] = 0
    best, cut = -np.inf, 0
    for i in range(start, stop - min_samples_leaf):
        entry, following = np.int64(order[i]), np.int64(order[i + 1])
        left[entry & layout.class_mask] += 1
        if i + 1 - start < min_samples_leaf or (entry ^ following) >> layout.code_shift == 0:
            continue
        l_sum, l_square, r_sum, r_square = 0.0, 0.0, 0.0, 0.0
        for c in range(len(counts)):
            a, b = weights[c] * left[c], weights[c] * (counts[c] - left[c])
            l_sum += a
            l_square += a * a
            r_sum += b
            r_square += b * b
        score = (l_square * r_sum + r_square * l_sum) / (l_sum * r_sum)
        if score > best:
            best, cut = score, i + 1 - start
    return best, cut


@kernel
def _threshold(low: int, high: int, values: npt.NDArray[np.float64]) -> tuple[float, int]:
    """The midpoint of two neighbouring values of a node, and the last rank that is not above it."""
    threshold = values[low] / 2 + values[high] / 2
    if not values[low] <= threshold < values[high]:  # neighbouring floats have no midpoint of their own
        threshold = values[low]
    while high - low > 1:  # values of other rows may lie between
        middle = (low + high) // 2
        if values[middle] <= threshold:
            low = middle
        else:
            high = middle
    return threshold, low


@kernel
def _count_left(order: Any, start: int, middle: int, layout: Any, counts: Any) -> None:
    for c in range(len(counts)):
        counts[c] = 0
    if len(counts) == 2:  # a sum in a register; counting in memory waits for every store
        ones = 0
        for i in range(start, middle):
            ones += np.int64(order[i]) & 1
        counts[0], counts[1] = middle - start - ones, ones
        return
    for i in range(start, middle):
        counts[np.int64(order[i]) & layout.class_mask] += 1


@kernel
def _split_validation(
    table: Any, feature: int, code: int, node: int, left: int, grown: Grown, current: Any, following: Any
) -> None:
    codes, layout = table.validation_codes[feature], table.layout
    start, stop = grown.v_start[node], grown.v_stop[node]
    low, high = start, stop
    for i in range(start, stop):
        entry = np.int64(current[i])
        goes_left = np.int64(codes[entry >> layout.row_shift] <= code)
        # Left rows fill from the front, right rows from the back: their order within a node does not matter.
        high -= 1 - goes_left
        following[high + (low - high) * goes_left] = entry
        low += goes_left
    _count_left(following, start, low, layout, grown.v_counts[left])
    for c in range(grown.v_counts.shape[1]):
        grown.v_counts[left + 1, c] = grown.v_counts[node, c] - grown.v_counts[left, c]
    grown.v_start[left], grown.v_stop[left], grown.v_start[left + 1], grown.v_stop[left + 1] = start, low, low, stop


@kernel
def _partition(
    source: Any, target: Any, start: int, stop: int, middle: int, codes: Any, code: int, layout: Any
) -> None:
    """Stable: rows whose rank in the split feature is at most `code` to the left of `middle`, the others to its right."""
    low, high = start, middle
    for i in range(start, stop):
        entry = source[i]
        goes_left = np.int64(codes[(np.int64(entry) >> layout.row_shift) & layout.row_mask] <= code)
        target[high + (low - high) * goes_left] = entry
        low += goes_left
        high += 1 - goes_left


@kernel
def _score_depths(table: Any, max_depth: int, grown: Grown, scores: npt.NDArray[np.float64]) -> None:
    """Macro F1 on the validation rows at every depth. Leaves above a depth stay; its own nodes are leaves for now."""
    classes = len(table.totals)
    settled = np.zeros((2, classes), np.int64)  # hits, predictions
    counted = np.empty((2, classes), np.int64)
    for depth in range(1, max_depth + 1):
        for node in range(grown.levels[depth - 1], grown.levels[depth]):
            if grown.feature[node] == LEAF:
                _predict(table, grown, node, settled)
        for c in range(classes):
            counted[0, c], counted[1, c] = settled[0, c], settled[1, c]
        for node in range(grown.levels[depth], grown.levels[depth + 1]):
            _predict(table, grown, node, counted)
        scores[depth - 1] = _macro_f1(counted, grown.v_counts[0])


@kernel
def _predict(table: Any, grown: Grown, node: int, tally: npt.NDArray[np.int64]) -> None:
    """Count the validation rows of `node` under its majority class: weighted, exact, ties to the first class."""
    majority = 0
    for c in range(1, len(table.totals)):
        if grown.counts[node, c] * table.shares[majority] > grown.counts[node, majority] * table.shares[c]:
            majority = c
    tally[0, majority] += grown.v_counts[node, majority]
    for c in range(len(table.totals)):
        tally[1, majority] += grown.v_counts[node, c]


@kernel
def _macro_f1(tally: npt.NDArray[np.int64], actual: npt.NDArray[np.int64]) -> float:
    """The mean of 2·hits / (predicted + actual) over the classes that occur in either."""
    total, occurring = 0.0, 0
    for c in range(len(actual)):
        if tally[1, c] + actual[c] > 0:
            total += 2 * tally[0, c] / (tally[1, c] + actual[c])
            occurring += 1
    return total / occurring if occurring else 0.0
