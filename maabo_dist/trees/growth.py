"""The kernels that grow CART trees: packed entries in, nodes and scores out.

One tree is grown for all depths: CART is greedy, so the tree of depth p is the tree of depth p_max cut at p. Nodes are
numbered level by level, so that a cut tree is a *prefix* of the grown one.

A level's nodes own consecutive segments of every feature's order; a split partitions each of them, in order:

    level d      | node 3 ....... | node 4 ... | node 5 (leaf) |
    level d + 1  | 6 .... | 7 ... | 8 . | 9 .. |   (unused)    |

The criterion to maximise is  Σ_c l_c²/W_l + Σ_c r_c²/W_r  over the weighted class counts of both sides, which is CART's
decrease of the weighted Gini index up to a constant. It is always computed from the integer counts by the same
expression, so that two splits with the same counts tie exactly; the first feature of the subset, then the lowest
threshold, wins.

Rows may have weights, in whole units. Counts are then sums of units, and those of the finished trees rows again,
rounded. Such tables have a scan of their own, so that others do not pay for it.

The top of a tree is shared. A feature's best split of all rows is the same in every subset; and once a feature has won
the root, the order of any other feature below it and its best splits of the two children are the same in every subset
that holds both. A block's subsets are therefore processed root by root, and `FirstLevel` caches the results for a root.

Few distinct rows need no orders. If the features of a subset have few combinations of values, as levels of text columns
have, the rows of each combination are counted once, and a node is a box of combinations: the counts on both sides of
every cut, and so the tree, are the same.

Two habits make these loops fast. An order is a flat array and the index of its first entry, never a slice: a slice
counts references, which costs more than the work on a small node. And indices are unsigned, which saves numba's check
for negative ones: half of the time of a partition.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel

LEAF = -1
FREE = -1
FEW_VALUES = 32
"""A node with this many rows per rank in its range is scanned value by value."""
LONG = 1024
"""A node of at least this many rows is first scanned in chunks, to skip those that cannot hold the best cut."""
CHUNK = 32
SHARED_BYTES = 1 << 24
"""Room for the orders below one root; when it is full, it is cleared."""
CELL_FEATURES = 3
"""Trees of at most this many features may be grown on cells, combinations of values …"""
CELL_ROWS, MAX_CELLS = 4, 1 << 16
"""… if there are at least so many training rows for each cell, and at most so many cells."""
LANES = 4
"""Rows in turn are counted in several tables: a count waits for the one before it in the same place."""
CLASS = np.uint32(1)
"""The class bit of an entry, with two classes."""
U = np.uint64


class TreeNodes(NamedTuple):
    """The nodes of one tree, level by level, with room for the largest tree."""

    feature: Any  # int32: feature index, or LEAF
    threshold: Any  # float64
    code: Any  # int64: the last rank that goes left
    left: Any  # int32: the left child; the right one follows it
    start: Any  # int64: the node's segment of the training orders …
    stop: Any
    v_start: Any  # int64: … and of the validation rows
    v_stop: Any
    counts: Any  # int64 (nodes, C): training rows
    v_counts: Any  # int64 (nodes, C): validation rows
    levels: Any  # int64 (max_depth + 2): where each level's nodes begin


class Block(NamedTuple):
    """The results of a block of subsets, written by the kernel: the nodes of all trees, one tree after another."""

    scores: Any  # float64 (subsets, max_depth): macro F1 at each depth
    depths: Any  # int32 (subsets): the best depth; the smallest among ties
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
    before: Any  # int32 (chunks + 1): ones before each chunk
    edge: Any  # float64 (chunks + 1): the score of a cut before each chunk
    bound: Any  # float64 (chunks): no cut in a chunk scores higher


class Criterion(NamedTuple):
    """The weights that score a cut, and the cuts that are allowed."""

    layout: Any
    weights: Any  # float64 (C)
    min_samples_leaf: int
    units: Any  # int64 (training rows): the weight of each row; empty if each counts as one


class Orders(NamedTuple):
    """All orders that a block needs at one time, one after another in `entries`."""

    entries: Any  # packed as the table's
    begin: Any  # int64 (max_depth + 1, D′): the first entry of the order of the subset's feature q at a depth
    v_entries: Any  # int64: the validation rows at depth 0, at depth 1, and in two levels that take sequence
    v_begin: Any  # int64 (max_depth + 1): the index of their first entries


class FirstLevel(NamedTuple):
    """Below the current root: features by slot, their orders (slot s begins at s · rows) and best splits."""

    slot: Any  # int64 (D): a feature's slot, or FREE
    feature: Any  # int64 (slots): the feature in a slot
    used: Any  # int64 (1): slots in use
    scores: Any  # float64 (slots, 2): the best split of the left and of the right child
    cuts: Any  # int64 (slots, 2)
    tied: Any  # bool (slots): True if training rows share a value of the feature


class Cells(NamedTuple):
    """The rows of each combination of the values of a subset's features; two classes, rows without weights."""

    labels: Any  # uint8 (rows): the class of each training row
    index: Any  # uint32 (rows): the cell of each row
    lanes: Any  # int32: counts of training rows by lane, cell and class
    counts: Any  # int64 (cells, 2): training rows
    v_counts: Any  # int64 (cells, 2): validation rows
    sizes: Any  # int64 (CELL_FEATURES): the values of each feature; 1 beyond the last
    boxes: Any  # int64 (nodes, CELL_FEATURES, 2): the first and the last rank of each feature in a node
    margins: Any  # int64 (CELL_FEATURES, cells, 2): the rows of a node by the rank of each feature


@kernel
def root_splits(
    entries: npt.NDArray[Any],
    layout: Any,
    totals: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    min_samples_leaf: int,
    units: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Each feature's best split of all training rows; −inf where it has none."""
    features, rows = entries.shape
    order, counts = entries.reshape(-1), totals.reshape(1, -1)
    criterion = Criterion(layout, weights, min_samples_leaf, units)
    scratch = _scratch(rows, len(totals))
    scores, cuts = np.full(features, -np.inf), np.zeros(features, np.int64)
    if _may_split(counts, 0, rows, min_samples_leaf):
        for f in range(features):
            scores[f], cuts[f] = _best_cut(order, f * rows, (f + 1) * rows, True, counts, 0, criterion, scratch)
    return scores, cuts


def find_roots(
    root_scores: npt.NDArray[np.float64], subsets: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the feature that splits the root of each subset's tree (LEAF if none does), and an order root by root."""
    scores = root_scores[subsets]
    best = scores.argmax(axis=1)
    rows = np.arange(len(subsets))
    roots = np.where(scores[rows, best] > -np.inf, subsets[rows, best], LEAF).astype(np.int64)
    return roots, np.argsort(roots, kind="stable")


@kernel
def grow_block(
    table: Any, subsets: Any, roots: Any, sequence: Any, max_depth: int, whole: bool, unit: int, block: Block
) -> int:
    """Grow and score one tree per row of `subsets`, cut each at its best depth, or not at all; return the nodes used.

    The block has room for `max_nodes` nodes per subset. `roots` and `sequence` come from `find_roots`. A row is `unit`
    units of its counts.
    """
    rows, classes = table.entries.shape[1], len(table.totals)
    most = max_nodes(rows, max_depth)
    tree = _tree_nodes(most, classes, max_depth)
    scratch = _scratch(rows, classes)
    first = _first_level(table, subsets)
    orders = _orders(table, len(first.feature), subsets.shape[1], max_depth)
    cells = _cells(table, most)
    for i in range(len(sequence)):
        t = sequence[i]
        if i == 0 or roots[t] != tree.feature[0]:
            _clear_first_level(first)
            _split_root(table, roots[t], tree, orders)
        if roots[t] != LEAF and max_depth > 1:
            subset = subsets[t][: _width(subsets[t])]
            if has_few_cells(table, subset):
                _count_cells(table, subset, cells)
                _grow_on_cells(table, subset, max_depth, tree, cells)
            else:
                _prepare_first_level(table, subset, tree, orders, first, scratch)
                _grow(table, subset, max_depth, tree, orders, first, scratch)
        _score_depths(table, max_depth, tree, block.scores[t])
        depth = 1
        for p in range(2, max_depth + 1):
            if block.scores[t, p - 1] > block.scores[t, depth - 1]:
                depth = p
        copied_depth = max_depth if whole else depth
        _copy_tree(tree, copied_depth, unit, block, t * most)
        block.depths[t], block.sizes[t] = depth, tree.levels[copied_depth + 1]
    return _compact_nodes(block, most)


@kernel
def _width(subset: npt.NDArray[np.int32]) -> int:
    """The number of features before the last one is repeated: its repetitions would only tie with it."""
    width = len(subset)
    while width > 1 and subset[width - 1] == subset[width - 2]:
        width -= 1
    return width


@kernel
def max_nodes(rows: int, max_depth: int) -> int:
    """No tree of this depth on this many rows has more nodes."""
    return min((1 << (max_depth + 1)) - 1, 2 * rows - 1)


@kernel
def _copy_tree(tree: TreeNodes, depth: int, unit: int, block: Block, at: int) -> None:
    """Copy the tree's prefix of nodes down to `depth`, whose nodes become leaves, to node `at` of the block.

    So many units of its counts are a row.
    """
    for i in range(tree.levels[depth + 1]):
        is_split = i < tree.levels[depth] and tree.feature[i] != LEAF
        block.feature[at + i] = tree.feature[i] if is_split else LEAF
        block.threshold[at + i] = tree.threshold[i] if is_split else 0.0
        block.left[at + i] = tree.left[i] if is_split else LEAF
        for c in range(tree.counts.shape[1]):
            block.counts[at + i, c] = (tree.counts[i, c] + unit // 2) // unit


@kernel
def _compact_nodes(block: Block, most: int) -> int:
    """Move the trees, which begin `most` nodes apart, next to each other; return the nodes used."""
    used = 0
    for t in range(len(block.sizes)):
        for i in range(t * most, t * most + block.sizes[t]):
            block.feature[used], block.threshold[used] = block.feature[i], block.threshold[i]
            block.left[used] = block.left[i]
            for c in range(block.counts.shape[1]):
                block.counts[used, c] = block.counts[i, c]
            used += 1
    return used


@kernel
def _scratch(rows: int, classes: int) -> Scratch:
    return Scratch(
        np.empty(rows + 1, np.int32),
        np.empty(rows + 1, np.int32),
        np.empty(rows + 1),
        np.empty(classes, np.int64),
        np.empty(rows // CHUNK + 1, np.int32),
        np.empty(rows // CHUNK + 1),
        np.empty(rows // CHUNK + 1),
    )


@kernel
def _tree_nodes(most: int, classes: int, max_depth: int) -> TreeNodes:
    return TreeNodes(
        np.empty(most, np.int32),
        np.empty(most),
        np.empty(most, np.int64),
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
def _first_level(table: Any, subsets: npt.NDArray[np.int32]) -> FirstLevel:
    features, rows = table.entries.shape
    room = max(subsets.shape[1], min(SHARED_BYTES // (rows * table.entries.itemsize), features, subsets.size))
    return FirstLevel(
        np.full(features, FREE, np.int64),
        np.empty(room, np.int64),
        np.zeros(1, np.int64),
        np.empty((room, 2)),
        np.empty((room, 2), np.int64),
        np.empty(room, np.bool_),
    )


@kernel
def _orders(table: Any, slots: int, size: int, max_depth: int) -> Orders:
    rows, v_rows = table.entries.shape[1], len(table.validation_entries)
    begin, v_begin = np.zeros((max_depth + 1, size), np.int64), np.zeros(max_depth + 1, np.int64)
    for depth in range(1, max_depth + 1):
        v_begin[depth] = (1 if depth == 1 else 2 + depth % 2) * v_rows
        for q in range(size):  # at depth 1 they depend on the slots, subset by subset
            begin[depth, q] = (slots + depth % 2 * size + q) * rows
    v_entries = np.empty(4 * v_rows, np.int64)
    _copy(table.validation_entries, 0, v_rows, v_entries, 0)
    return Orders(np.empty((slots + 2 * size) * rows, table.entries.dtype), begin, v_entries, v_begin)


@kernel
def _clear_first_level(first: FirstLevel) -> None:
    for slot in range(first.used[0]):
        first.slot[first.feature[slot]] = FREE
    first.used[0] = 0


@kernel
def _split_root(table: Any, f: int, tree: TreeNodes, orders: Orders) -> None:
    """Make the root, split by feature f unless that is LEAF, and its two children."""
    rows, v_rows = table.entries.shape[1], len(table.validation_entries)
    tree.feature[0], tree.start[0], tree.stop[0], tree.v_start[0], tree.v_stop[0] = f, 0, rows, 0, v_rows
    for c in range(len(table.totals)):
        tree.counts[0, c] = table.totals[c]
    _count(orders.v_entries, 0, v_rows, table.layout, table.validation_units, tree.v_counts, 0)
    for depth in range(len(tree.levels)):
        tree.levels[depth] = 0 if depth == 0 else 1 if depth == 1 or f == LEAF else 3
    if f != LEAF:
        _split(table, table.entries.reshape(-1), f * rows, f, table.root_cuts[f], 0, 1, tree)
        _split_validation(table, orders, 0, 0, tree)


@kernel
def _prepare_first_level(
    table: Any, subset: npt.NDArray[np.int32], tree: TreeNodes, orders: Orders, first: FirstLevel, scratch: Scratch
) -> None:
    """Make sure that the first level is computed for every feature of the subset."""
    rows, size = table.entries.shape[1], len(subset)
    if first.used[0] + size > len(first.feature):
        _clear_first_level(first)
    for q in range(size):
        f = subset[q]
        if first.slot[f] == FREE:
            first.slot[f], first.feature[first.used[0]] = first.used[0], f
            first.used[0] += 1
            _compute_first_level(table, f, tree, orders, first, scratch)
        orders.begin[1, q] = first.slot[f] * rows


@kernel
def _compute_first_level(
    table: Any, f: int, tree: TreeNodes, orders: Orders, first: FirstLevel, scratch: Scratch
) -> None:
    """Compute the order of feature f in the children of the root, and its best split of each."""
    rows, slot = table.entries.shape[1], first.slot[f]
    entries, source, target = table.entries.reshape(-1), f * rows, slot * rows
    first.tied[slot] = _any_tied(entries, source, source + rows, table.layout)
    if f == tree.feature[0]:
        _copy(entries, source, source + rows, orders.entries, target)
    else:
        _partition(table, entries, source, orders.entries, target, 0, tree)
    criterion = Criterion(table.layout, table.weights, table.min_samples_leaf, table.units)
    for child in range(1, 3):
        start, stop = tree.start[child], tree.stop[child]
        score, cut = -np.inf, 0
        if _may_split(tree.counts, child, stop - start, table.min_samples_leaf):
            score, cut = _best_cut(
                orders.entries, target + start, target + stop, first.tied[slot], tree.counts, child, criterion, scratch
            )
        first.scores[slot, child - 1], first.cuts[slot, child - 1] = score, cut


@kernel
def _grow(  # noqa: C901 - as one function; with the choice of the split apart it takes a tenth longer
    table: Any,
    subset: npt.NDArray[np.int32],
    max_depth: int,
    tree: TreeNodes,
    orders: Orders,
    first: FirstLevel,
    scratch: Scratch,
) -> None:
    """Grow everything below the root's children."""
    size, min_leaf = len(subset), table.min_samples_leaf
    criterion = Criterion(table.layout, table.weights, min_leaf, table.units)
    tree.feature[1] = tree.feature[2] = LEAF
    nodes = 3
    for depth in range(1, max_depth):
        for node in range(tree.levels[depth], tree.levels[depth + 1]):
            start, stop = tree.start[node], tree.stop[node]
            if not _may_split(tree.counts, node, stop - start, min_leaf):
                continue
            # The best split of the node over the subset's features.
            best, q_best, cut = -np.inf, LEAF, 0
            for q in range(size):
                slot, begin = first.slot[subset[q]], orders.begin[depth, q]
                if depth == 1:
                    score, position = first.scores[slot, node - 1], first.cuts[slot, node - 1]
                else:
                    score, position = _best_cut(
                        orders.entries, begin + start, begin + stop, first.tied[slot],
                        tree.counts, node, criterion, scratch,
                    )  # fmt: skip
                if score > best:
                    best, q_best, cut = score, q, position
            if q_best == LEAF:
                continue
            # The two children, and their orders unless they cannot be split.
            left = nodes
            nodes += 2
            _split(table, orders.entries, orders.begin[depth, q_best], subset[q_best], cut, node, left, tree)
            _split_validation(table, orders, depth, node, tree)
            if depth + 1 == max_depth or not (
                _may_split(tree.counts, left, cut, min_leaf)
                or _may_split(tree.counts, left + 1, stop - start - cut, min_leaf)
            ):
                continue
            for q in range(size):
                source, target = orders.begin[depth, q], orders.begin[depth + 1, q]
                if q == q_best:
                    _copy(orders.entries, source + start, source + stop, orders.entries, target + start)
                else:
                    _partition(table, orders.entries, source, orders.entries, target, node, tree)
        tree.levels[depth + 2] = nodes


@kernel
def _cells(table: Any, nodes: int) -> Cells:
    """Room for the cells of any subset, and the class of each row."""
    rows, room = table.entries.shape[1], _most_cells(table) + 1
    labels = np.empty(rows, np.uint8)
    if len(table.entries) > 0:
        for i in range(rows):
            entry = U(table.entries[0, i])
            row = (entry >> U(table.layout.row_shift)) & U(table.layout.row_mask)
            labels[row] = entry & U(table.layout.class_mask)
    return Cells(
        labels,
        np.empty(max(rows, len(table.validation_entries)), np.uint32),
        np.empty(LANES * room * 2, np.int32),
        np.empty((room, 2), np.int64),
        np.empty((room, 2), np.int64),
        np.ones(CELL_FEATURES, np.int64),
        np.empty((nodes, CELL_FEATURES, 2), np.int64),
        np.empty((CELL_FEATURES, room, 2), np.int64),
    )


@kernel
def has_few_cells(table: Any, subset: npt.NDArray[np.int32]) -> bool:
    """True if the tree of a subset is grown on cells."""
    if len(table.totals) != 2 or len(table.units) > 0 or len(subset) > CELL_FEATURES:
        return False
    cells = 1
    for q in range(len(subset)):
        cells *= table.offsets[subset[q] + 1] - table.offsets[subset[q]]
        if cells > _most_cells(table):
            return False
    return True


@kernel
def _most_cells(table: Any) -> Any:
    """Trees are grown on at most this many cells."""
    return min(table.entries.shape[1] // CELL_ROWS, MAX_CELLS)


@kernel
def _count_cells(table: Any, subset: npt.NDArray[np.int32], cells: Cells) -> None:
    """Count the training and validation rows of each cell."""
    total = 1
    for q in range(CELL_FEATURES):
        cells.sizes[q] = table.offsets[subset[q] + 1] - table.offsets[subset[q]] if q < len(subset) else 1
        total *= cells.sizes[q]
    _find_cells(table.train_codes, subset, cells)
    lanes, index, labels = cells.lanes, cells.index, cells.labels
    lanes[: LANES * total * 2] = 0
    lane = U(total * 2)
    for i in range(U(len(labels))):
        lanes[(i % U(LANES)) * lane + U(index[i]) * U(2) + U(labels[i])] += 1
    for cell in range(total):
        for c in range(2):
            cells.counts[cell, c] = cells.v_counts[cell, c] = 0
            for k in range(LANES):
                cells.counts[cell, c] += lanes[k * total * 2 + cell * 2 + c]
    _find_cells(table.validation_codes, subset, cells)
    for i in range(U(len(table.validation_entries))):
        cells.v_counts[U(index[i]), U(table.validation_entries[i]) & U(CLASS)] += 1


@kernel
def _find_cells(codes: Any, subset: npt.NDArray[np.int32], cells: Cells) -> None:
    """The cell of each row: its ranks, the last feature's first."""
    index = cells.index[: codes.shape[1]]
    index[:] = 0
    for q in range(len(subset)):
        column, size = codes[subset[q]], np.uint32(cells.sizes[q])
        for i in range(len(index)):
            index[i] = index[i] * size + np.uint32(column[i])


@kernel
def _grow_on_cells(table: Any, subset: npt.NDArray[np.int32], max_depth: int, tree: TreeNodes, cells: Cells) -> None:
    """The same as `_grow`, on the counts of cells."""
    tree.feature[1] = tree.feature[2] = LEAF
    for q in range(CELL_FEATURES):
        cells.boxes[0, q, 0], cells.boxes[0, q, 1] = 0, cells.sizes[q] - 1
    for q in range(len(subset)):
        if subset[q] == tree.feature[0]:
            _divide_box(cells, q, tree.code[0], 0, 1)
    nodes = 3
    for depth in range(1, max_depth):
        for node in range(tree.levels[depth], tree.levels[depth + 1]):
            size = tree.counts[node, 0] + tree.counts[node, 1]
            if not _may_split(tree.counts, node, size, table.min_samples_leaf):
                continue
            _sum_margins(cells, node)
            q_best, low, high, zeros = _best_cut_of_margins(table, len(subset), tree, node, cells)
            if q_best == LEAF:
                continue
            f, left = subset[q_best], nodes
            nodes += 2
            tree.feature[node], tree.left[node] = f, left
            tree.threshold[node], tree.code[node] = _threshold(low, high, table.values, table.offsets[f])
            tree.feature[left] = tree.feature[left + 1] = LEAF
            _divide_box(cells, q_best, tree.code[node], node, left)
            ones = np.int64(0)
            for rank in range(cells.boxes[node, q_best, 0], low + 1):
                ones += cells.margins[q_best, rank, 1]
            tree.counts[left, 0], tree.counts[left, 1] = zeros, ones
            _sum_validation(cells, left, tree.v_counts)
            for c in range(2):
                tree.counts[left + 1, c] = tree.counts[node, c] - tree.counts[left, c]
                tree.v_counts[left + 1, c] = tree.v_counts[node, c] - tree.v_counts[left, c]
        tree.levels[depth + 2] = nodes


@kernel
def _divide_box(cells: Cells, q: int, code: int, node: int, left: int) -> None:
    """The boxes of two children: ranks of feature q up to the code, and the others."""
    for child in range(left, left + 2):
        cells.boxes[child] = cells.boxes[node]
    cells.boxes[left, q, 1], cells.boxes[left + 1, q, 0] = code, code + 1


@kernel
def _sum_margins(cells: Cells, node: int) -> None:
    """Count the training rows of a node by the rank of each feature."""
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = cells.boxes[node, 0], cells.boxes[node, 1], cells.boxes[node, 2]
    margins, counts = cells.margins, cells.counts
    for q in range(CELL_FEATURES):
        margins[q, cells.boxes[node, q, 0] : cells.boxes[node, q, 1] + 1] = 0
    for a in range(a_low, a_high + 1):
        for b in range(b_low, b_high + 1):
            first = (a * cells.sizes[1] + b) * cells.sizes[2]
            zeros, ones = np.int64(0), np.int64(0)
            for c in range(U(c_low), U(c_high + 1)):
                cell = U(first) + c
                zeros += counts[cell, 0]
                ones += counts[cell, 1]
                margins[2, c, 0] += counts[cell, 0]
                margins[2, c, 1] += counts[cell, 1]
            margins[1, b, 0] += zeros
            margins[1, b, 1] += ones
            margins[0, a, 0] += zeros
            margins[0, a, 1] += ones


@kernel
def _sum_validation(cells: Cells, node: int, v_counts: npt.NDArray[np.int64]) -> None:
    """Count the validation rows of a node."""
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = cells.boxes[node, 0], cells.boxes[node, 1], cells.boxes[node, 2]
    zeros, ones = np.int64(0), np.int64(0)
    for a in range(a_low, a_high + 1):
        for b in range(b_low, b_high + 1):
            first = (a * cells.sizes[1] + b) * cells.sizes[2]
            for c in range(U(first + c_low), U(first + c_high + 1)):
                zeros += cells.v_counts[c, 0]
                ones += cells.v_counts[c, 1]
    v_counts[node, 0], v_counts[node, 1] = zeros, ones


@kernel
def _best_cut_of_margins(table: Any, size: int, tree: TreeNodes, node: int, cells: Cells) -> tuple[int, int, int, int]:
    """The feature of the best cut, the ranks on both sides of it, and the rows of class 0 on its left."""
    zeros, ones, min_leaf = tree.counts[node, 0], tree.counts[node, 1], table.min_samples_leaf
    w0, w1 = table.weights[0], table.weights[1]
    best, q_best, low, high, left_zeros = -np.inf, LEAF, 0, 0, 0
    for q in range(size):
        l0, l1, last = np.int64(0), np.int64(0), -1
        for rank in range(cells.boxes[node, q, 0], cells.boxes[node, q, 1] + 1):
            n0, n1 = cells.margins[q, rank, 0], cells.margins[q, rank, 1]
            if n0 + n1 == 0:
                continue
            if last >= 0 and l0 + l1 >= min_leaf and zeros + ones - l0 - l1 >= min_leaf:
                score = _score(np.float64(l0), np.float64(l1), np.float64(zeros), np.float64(ones), w0, w1)
                if score > best:
                    best, q_best, low, high, left_zeros = score, q, last, rank, l0
            l0, l1, last = l0 + n0, l1 + n1, rank
    return q_best, low, high, left_zeros


@kernel
def _may_split(counts: npt.NDArray[np.int64], node: int, size: int, min_samples_leaf: int) -> bool:
    """True if a node of these class counts is impure and large enough. Counts are integers: purity is exact."""
    if size < 2 * min_samples_leaf:
        return False
    total = np.int64(0)
    for c in range(counts.shape[1]):
        total += counts[node, c]
    for c in range(counts.shape[1]):  # noqa: SIM110 - numba does not compile generators
        if counts[node, c] == total:
            return False
    return True


@kernel
def _best_cut(
    order: Any, start: int, stop: int, tied: bool, counts: Any, node: int, criterion: Criterion, scratch: Scratch
) -> tuple[float, int]:
    """The score of the best cut of order[start:stop] and how many entries it puts on the left."""
    low = np.int64(order[start]) >> criterion.layout.code_shift
    high = np.int64(order[stop - 1]) >> criterion.layout.code_shift
    if low == high:
        return -np.inf, 0
    if len(criterion.units) > 0:
        return _best_cut_weighted(order, start, stop, counts, node, criterion, scratch)
    if counts.shape[1] > 2:
        return _best_cut_many(order, start, stop, counts, node, criterion, scratch)
    if (high - low) * FEW_VALUES <= stop - start:
        cuts = _cuts_of_few_values(order, start, stop, criterion, scratch)
    elif stop - start >= LONG:
        cuts = _cuts_of_long_node(order, start, stop, counts, node, criterion, scratch)
    elif tied or criterion.min_samples_leaf > 1:
        first, last = start + criterion.min_samples_leaf - 1, stop - criterion.min_samples_leaf
        cuts = _cuts_of_many_values(order, start, first, last, _ones(order, start, first), U(0), criterion, scratch)
    else:
        cuts = _cuts_of_distinct_values(order, start, stop, scratch)
    return _best_scored(cuts, counts, node, criterion, scratch)


@kernel
def _cuts_of_few_values(order: Any, start: int, stop: int, criterion: Criterion, scratch: Scratch) -> Any:
    """Two classes, long runs of equal values: jump from value to value; a run's ones are a plain sum."""
    shift, min_leaf = criterion.layout.code_shift, criterion.min_samples_leaf
    cuts, ones, first = U(0), 0, start
    while True:
        above = ((np.int64(order[first]) >> shift) + 1) << shift
        low, high = first, stop  # the first entry of the next value lies in (low, high]
        while high - low > 1:
            middle = (low + high) // 2
            if np.int64(order[middle]) < above:
                low = middle
            else:
                high = middle
        if high == stop:
            return cuts
        ones += _ones(order, first, high)
        scratch.position[cuts] = high - start
        scratch.ones[cuts] = ones
        cuts += U(min_leaf <= high - start and min_leaf <= stop - high)
        first = high


@kernel
def _cuts_of_many_values(
    order: Any, start: int, first: int, last: int, ones: int, cuts: Any, criterion: Criterion, scratch: Scratch
) -> Any:
    """Two classes: append the cuts behind entries first … last − 1, in one pass without branches on the data.

    Within a run of rows of one class the score is strictly convex in the cut's position, so that a cut between two rows
    of the same class, neither of them tied, is never the best. It is skipped, unless `min_samples_leaf` may have
    excluded the ends of the run.
    """
    every = U(criterion.min_samples_leaf > 1)
    one_code = U(1) << U(criterion.layout.code_shift)
    offset, left_ones = np.int32(first - start), np.int32(ones)
    entry = order[first]
    for i in range(U(first + 1), U(last + 1)):
        following = order[i]
        left_ones += np.int32(entry & CLASS)
        offset += np.int32(1)
        changed = U(entry) ^ U(following)
        scratch.position[cuts] = offset
        scratch.ones[cuts] = left_ones
        # Another class, or tied; and another value.
        cuts += (changed | ((U(entry) | U(following)) >> U(1)) | every) & U(1) & U(changed >= one_code)
        entry = following
    return cuts


@kernel
def _cuts_of_distinct_values(order: Any, start: int, stop: int, scratch: Scratch) -> Any:
    """The same where no two rows have the same value: a cut wherever the class changes."""
    cuts, offset, left_ones = U(0), np.int32(0), np.int32(0)
    entry = order[start]
    for i in range(U(start + 1), U(stop)):
        following = order[i]
        left_ones += np.int32(entry & CLASS)
        offset += np.int32(1)
        scratch.position[cuts] = offset
        scratch.ones[cuts] = left_ones
        cuts += U((entry ^ following) & CLASS)
        entry = following
    return cuts


@kernel
def _cuts_of_long_node(
    order: Any, start: int, stop: int, counts: Any, node: int, criterion: Criterion, scratch: Scratch
) -> Any:
    """The same for a node of many rows, without the chunks that cannot hold the best cut."""
    chunks, min_leaf = (stop - start) // CHUNK, criterion.min_samples_leaf
    scratch.before[0] = 0
    for k in range(chunks):
        scratch.before[k + 1] = scratch.before[k] + _ones(order, start + k * CHUNK, start + (k + 1) * CHUNK)
    _bound_chunks(chunks, counts, node, criterion, scratch)
    # A chunk is scanned if its bound reaches the best cut between two chunks. The margin is far above rounding.
    bar = -np.inf
    for k in range(1, chunks):
        at = start + k * CHUNK
        is_cut = (U(order[at - 1]) ^ U(order[at])) >> U(criterion.layout.code_shift) != U(0)
        if scratch.edge[k] > bar and is_cut and min(at - start, stop - at) >= min_leaf:
            bar = scratch.edge[k]
    bar *= 1 - 1e-9
    cuts = U(0)
    for k in range(chunks + 1):  # the last one is the remainder
        first = max(start + k * CHUNK, start + min_leaf - 1)
        last = min(start + (k + 1) * CHUNK, stop - min_leaf)
        if first < last and (k == chunks or scratch.bound[k] >= bar):
            ones = scratch.before[k] + _ones(order, start + k * CHUNK, first)
            cuts = _cuts_of_many_values(order, start, first, last, ones, cuts, criterion, scratch)
    return cuts


@kernel
def _bound_chunks(chunks: int, counts: Any, node: int, criterion: Criterion, scratch: Scratch) -> None:
    """No cut in a chunk scores above its bound.

    The score is convex in the class counts on the left. In a chunk these go from (s0, s1) at its start to (e0, e1) at
    its end, one row at a time, so that none exceeds the greatest score of (s0, s1), (e0, e1), (s0, e1) and (e0, s1).
    """
    w0, w1 = criterion.weights[0], criterion.weights[1]
    zeros, ones = np.float64(counts[node, 0]), np.float64(counts[node, 1])
    before, edge, bound = scratch.before, scratch.edge, scratch.bound
    for k in range(U(chunks + 1)):
        s1 = np.float64(before[k])
        edge[k] = _score(np.float64(np.int64(k) * CHUNK) - s1, s1, zeros, ones, w0, w1)
    for k in range(U(chunks)):
        s1, e1 = np.float64(before[k]), np.float64(before[k + U(1)])
        s0, e0 = np.float64(np.int64(k) * CHUNK) - s1, np.float64(np.int64(k + U(1)) * CHUNK) - e1
        at_corners = max(_score(s0, e1, zeros, ones, w0, w1), _score(e0, s1, zeros, ones, w0, w1))
        at_edges = max(edge[k], edge[k + U(1)])
        bound[k] = max(at_corners, at_edges)
    bound[0] = bound[chunks - 1] = np.inf  # a cut at the very end of a node has no score


@kernel
def _best_scored(
    cuts: Any, counts: npt.NDArray[np.int64], node: int, criterion: Criterion, scratch: Scratch
) -> tuple[float, int]:
    position, left_ones, score = scratch.position, scratch.ones, scratch.score
    zeros, ones = np.float64(counts[node, 0]), np.float64(counts[node, 1])
    w0, w1 = criterion.weights[0], criterion.weights[1]
    for j in range(cuts):
        # Floats from here on: counts are exact in them, and four cuts fit one instruction.
        l1 = np.float64(left_ones[j])
        score[j] = _score(np.float64(position[j]) - l1, l1, zeros, ones, w0, w1)
    best, cut = -np.inf, 0
    for j in range(cuts):
        if score[j] > best:
            best, cut = score[j], np.int64(position[j])
    return best, cut


@kernel
def _score(l0: float, l1: float, zeros: float, ones: float, w0: float, w1: float) -> float:
    """The score of a cut with these class counts on its left, of a node with `zeros` and `ones`."""
    a0, a1, b0, b1 = w0 * l0, w1 * l1, w0 * (zeros - l0), w1 * (ones - l1)
    left, right = a0 + a1, b0 + b1
    return ((a0 * a0 + a1 * a1) * right + (b0 * b0 + b1 * b1) * left) / (left * right)


@kernel
def _best_cut_many(
    order: Any, start: int, stop: int, counts: Any, node: int, criterion: Criterion, scratch: Scratch
) -> tuple[float, int]:
    """Any number of classes: one pass, every cut between different values scored from its counts."""
    left, weights, classes = scratch.left, criterion.weights, U(counts.shape[1])
    shift, mask, at = U(criterion.layout.code_shift), U(criterion.layout.class_mask), U(node)
    for c in range(classes):
        left[c] = 0
    best, cut = -np.inf, 0
    for i in range(U(start), U(stop - criterion.min_samples_leaf)):
        entry, following = U(order[i]), U(order[i + U(1)])
        left[entry & mask] += 1
        size = np.int64(i) + 1 - start
        if size < criterion.min_samples_leaf or (entry ^ following) >> shift == U(0):
            continue
        l_sum, l_square, r_sum, r_square = 0.0, 0.0, 0.0, 0.0
        for c in range(classes):
            a, b = weights[c] * left[c], weights[c] * (counts[at, c] - left[c])
            l_sum += a
            l_square += a * a
            r_sum += b
            r_square += b * b
        score = (l_square * r_sum + r_square * l_sum) / (l_sum * r_sum)
        if score > best:
            best, cut = score, size
    return best, cut


@kernel
def _best_cut_weighted(
    order: Any, start: int, stop: int, counts: Any, node: int, criterion: Criterion, scratch: Scratch
) -> tuple[float, int]:
    """The same for rows with weights."""
    left, weights, units, classes = scratch.left, criterion.weights, criterion.units, U(counts.shape[1])
    shift, mask, at = U(criterion.layout.code_shift), U(criterion.layout.class_mask), U(node)
    row_shift, row_mask = U(criterion.layout.row_shift), U(criterion.layout.row_mask)
    for c in range(classes):
        left[c] = 0
    best, cut = -np.inf, 0
    for i in range(U(start), U(stop - criterion.min_samples_leaf)):
        entry, following = U(order[i]), U(order[i + U(1)])
        left[entry & mask] += units[(entry >> row_shift) & row_mask]
        size = np.int64(i) + 1 - start
        if size < criterion.min_samples_leaf or (entry ^ following) >> shift == U(0):
            continue
        l_sum, l_square, r_sum, r_square = 0.0, 0.0, 0.0, 0.0
        for c in range(classes):
            a, b = weights[c] * left[c], weights[c] * (counts[at, c] - left[c])
            l_sum += a
            l_square += a * a
            r_sum += b
            r_square += b * b
        score = (l_square * r_sum + r_square * l_sum) / (l_sum * r_sum)
        if score > best:
            best, cut = score, size
    return best, cut


@kernel
def _split(table: Any, order: Any, begin: int, f: int, cut: int, node: int, left: int, tree: TreeNodes) -> None:
    """Make two children of `node`: the first `cut` entries of its order by feature f, and the others."""
    start, stop, middle = tree.start[node], tree.stop[node], tree.start[node] + cut
    tree.feature[node], tree.left[node] = f, left
    tree.threshold[node], tree.code[node] = _threshold(
        np.int64(order[begin + middle - 1]) >> table.layout.code_shift,
        np.int64(order[begin + middle]) >> table.layout.code_shift,
        table.values,
        table.offsets[f],
    )
    tree.feature[left] = tree.feature[left + 1] = LEAF
    tree.start[left], tree.stop[left], tree.start[left + 1], tree.stop[left + 1] = start, middle, middle, stop
    _count(order, begin + start, begin + middle, table.layout, table.units, tree.counts, left)
    for c in range(tree.counts.shape[1]):
        tree.counts[left + 1, c] = tree.counts[node, c] - tree.counts[left, c]


@kernel
def _threshold(low: int, high: int, values: npt.NDArray[np.float64], offset: int) -> tuple[float, int]:
    """Return the midpoint of two neighbouring values of a node, and the last rank that is not above it."""
    threshold = values[offset + low] / 2 + values[offset + high] / 2
    if not values[offset + low] <= threshold < values[offset + high]:  # neighbouring floats have no midpoint
        threshold = values[offset + low]
    while high - low > 1:  # values of other rows may lie between
        middle = (low + high) // 2
        if values[offset + middle] <= threshold:
            low = middle
        else:
            high = middle
    return threshold, low


@kernel
def _any_tied(order: Any, start: int, stop: int, layout: Any) -> bool:
    bits = U(0)
    for i in range(U(start), U(stop)):
        bits |= U(order[i])
    return bool((bits >> U(layout.tied_shift)) & U(1) != U(0))


@kernel
def _ones(order: Any, start: int, stop: int) -> Any:
    """Two classes: the number of entries of class 1."""
    ones = np.int64(0)
    for i in range(U(start), U(stop)):
        ones += np.int64(order[i] & CLASS)
    return ones


@kernel
def _count(order: Any, start: int, stop: int, layout: Any, units: Any, counts: Any, node: int) -> None:
    """The class counts of order[start:stop]; `units` are the weights of rows, or empty."""
    if len(units) > 0:
        for c in range(counts.shape[1]):
            counts[node, c] = 0
        for i in range(U(start), U(stop)):
            entry = U(order[i])
            row = (entry >> U(layout.row_shift)) & U(layout.row_mask)
            counts[U(node), entry & U(layout.class_mask)] += units[row]
        return
    if counts.shape[1] == 2:  # a sum in a register; counting in memory waits for every store
        counts[node, 1] = _ones(order, start, stop)
        counts[node, 0] = stop - start - counts[node, 1]
        return
    for c in range(counts.shape[1]):
        counts[node, c] = 0
    for i in range(U(start), U(stop)):
        counts[U(node), U(order[i]) & U(layout.class_mask)] += 1


@kernel
def _split_validation(table: Any, orders: Orders, depth: int, node: int, tree: TreeNodes) -> None:
    """Route the validation rows of `node` to its children."""
    codes, entries = table.validation_codes, orders.v_entries
    f, left, last, row_shift = U(tree.feature[node]), tree.left[node], U(tree.code[node]), U(table.layout.row_shift)
    start, stop = tree.v_start[node], tree.v_stop[node]
    source, target = U(orders.v_begin[depth]), orders.v_begin[depth + 1]
    low, high = U(target + start), U(target + stop)
    for i in range(U(start), U(stop)):
        entry = entries[source + i]
        goes_left = U(U(codes[f, U(entry) >> row_shift]) <= last)
        # Left rows fill from the front, right rows from the back: their order within a node does not matter.
        high -= U(1) - goes_left
        entries[high + (low - high) * goes_left] = entry
        low += goes_left
    middle = np.int64(low) - target
    _count(entries, target + start, target + middle, table.layout, table.validation_units, tree.v_counts, left)
    for c in range(tree.v_counts.shape[1]):
        tree.v_counts[left + 1, c] = tree.v_counts[node, c] - tree.v_counts[left, c]
    tree.v_start[left], tree.v_stop[left], tree.v_start[left + 1], tree.v_stop[left + 1] = (
        start, middle, middle, stop,
    )  # fmt: skip


@kernel
def _copy(source: Any, start: int, stop: int, target: Any, at: int) -> None:
    shift = U(at) - U(start)
    for i in range(U(start), U(stop)):
        target[i + shift] = source[i]


@kernel
def _partition(table: Any, source: Any, begin: int, target: Any, at: int, node: int, tree: TreeNodes) -> None:
    """Copy the entries of `node` from the order at `begin` to the one at `at`, split as the node is; stable."""
    codes, f, last = table.train_codes, U(tree.feature[node]), U(tree.code[node])
    row_shift, row_mask = U(table.layout.row_shift), U(table.layout.row_mask)
    start, stop = tree.start[node], tree.stop[node]
    low, high = U(at + start), U(at + tree.stop[tree.left[node]])
    for i in range(U(begin + start), U(begin + stop)):
        entry = source[i]
        goes_left = U(U(codes[f, (U(entry) >> row_shift) & row_mask]) <= last)
        target[high + (low - high) * goes_left] = entry
        low += goes_left
        high += U(1) - goes_left


@kernel
def _score_depths(table: Any, max_depth: int, tree: TreeNodes, scores: npt.NDArray[np.float64]) -> None:
    """Macro F1 on the validation rows at every depth. Leaves above a depth stay; its own nodes count as leaves."""
    classes = len(table.totals)
    settled = np.zeros((2, classes), np.int64)  # hits, predictions
    counted = np.empty((2, classes), np.int64)
    for depth in range(1, max_depth + 1):
        for node in range(tree.levels[depth - 1], tree.levels[depth]):
            if tree.feature[node] == LEAF:
                _predict(table, tree, node, settled)
        for c in range(classes):
            counted[0, c], counted[1, c] = settled[0, c], settled[1, c]
        for node in range(tree.levels[depth], tree.levels[depth + 1]):
            _predict(table, tree, node, counted)
        scores[depth - 1] = _macro_f1(counted, tree.v_counts[0])


@kernel
def _predict(table: Any, tree: TreeNodes, node: int, tally: npt.NDArray[np.int64]) -> None:
    """Count the validation rows of `node` under its majority class: weighted, exact, ties to the first class."""
    majority = 0
    for c in range(1, len(table.totals)):
        if tree.counts[node, c] * table.shares[majority] > tree.counts[node, majority] * table.shares[c]:
            majority = c
    tally[0, majority] += tree.v_counts[node, majority]
    for c in range(len(table.totals)):
        tally[1, majority] += tree.v_counts[node, c]


@kernel
def _macro_f1(tally: npt.NDArray[np.int64], actual: npt.NDArray[np.int64]) -> float:
    """The mean of 2·hits / (predicted + actual) over the classes that occur in either."""
    total, occurring = 0.0, 0
    for c in range(len(actual)):
        if tally[1, c] + actual[c] > 0:
            total += 2 * tally[0, c] / (tally[1, c] + actual[c])
            occurring += 1
    return total / occurring if occurring else 0.0
