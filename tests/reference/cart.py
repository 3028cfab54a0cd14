"""A textbook implementation of CART: one tree per depth, every split tried, rows routed one by one. Slow and simple.

Works on plain values, not ranks. It shares with the kernels only what the method fixes: the split's score as an
expression of the weighted class counts, ties to the first feature and the lowest threshold, a majority of weighted
counts decided exactly, ties to the first class.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Node:
    counts: list[int]
    feature: int = -1
    threshold: float = 0.0
    left: "Node | None" = None
    right: "Node | None" = None


def class_weights(labels, classes, class_weight):
    """Return the float weights and the exact weights of the classes."""
    totals = [sum(label == c for label in labels) for c in range(classes)]
    if class_weight == "none":
        return [1.0] * classes, [Fraction(1)] * classes
    present = sum(total > 0 for total in totals)
    weights = [len(labels) / (present * total) if total else 0.0 for total in totals]
    exact = [Fraction(len(labels), present * total) if total else Fraction(0) for total in totals]
    return weights, exact


def split_score(left, right, weights):
    a = [w * n for w, n in zip(weights, left, strict=True)]
    b = [w * n for w, n in zip(weights, right, strict=True)]
    l_sum, l_square, r_sum, r_square = 0.0, 0.0, 0.0, 0.0
    for x, y in zip(a, b, strict=True):
        l_sum += x
        l_square += x * x
        r_sum += y
        r_square += y * y
    return (l_square * r_sum + r_square * l_sum) / (l_sum * r_sum)


def class_counts(rows, labels, classes):
    return [sum(labels[row] == c for row in rows) for c in range(classes)]


def grow(matrix, labels, rows, subset, depth, classes, weights, min_samples_leaf=1):
    """Grow a tree; values are `matrix[row][feature]`, and `rows` are training rows."""
    node = Node(class_counts(rows, labels, classes))
    if depth == 0 or max(node.counts) == len(rows):
        return node
    best = None
    for feature in subset:
        values = sorted({matrix[row][feature] for row in rows})
        for low, high in itertools.pairwise(values):
            threshold = low / 2 + high / 2
            if not low <= threshold < high:
                threshold = low
            left = [row for row in rows if matrix[row][feature] <= threshold]
            right = [row for row in rows if matrix[row][feature] > threshold]
            if min(len(left), len(right)) < min_samples_leaf:
                continue
            score = split_score(class_counts(left, labels, classes), class_counts(right, labels, classes), weights)
            if best is None or score > best[0]:
                best = (score, feature, threshold, left, right)
    if best is None:
        return node
    _, node.feature, node.threshold, left, right = best
    node.left = grow(matrix, labels, left, subset, depth - 1, classes, weights, min_samples_leaf)
    node.right = grow(matrix, labels, right, subset, depth - 1, classes, weights, min_samples_leaf)
    return node


def predict(node, row, exact_weights):
    while node.left is not None:
        node = node.left if row[node.feature] <= node.threshold else node.right
    weighted = [w * n for w, n in zip(exact_weights, node.counts, strict=True)]
    return weighted.index(max(weighted))


def macro_f1(actual, predicted):
    total, occurring = 0.0, 0
    for c in sorted({*actual, *predicted}):
        hits = sum(a == c and p == c for a, p in zip(actual, predicted, strict=True))
        total += 2 * hits / (actual.count(c) + predicted.count(c))
        occurring += 1
    return total / occurring if occurring else 0.0


def depth_search(matrix, labels, train, validation, subset, max_depth, classes, class_weight, min_samples_leaf=1):
    """Return the scores of all depths, the best depth and its tree, fitting a new tree for each depth as the paper
    does.
    """
    weights, exact = class_weights([labels[row] for row in train], classes, class_weight)
    scores, trees = [], []
    for depth in range(1, max_depth + 1):
        tree = grow(matrix, labels, train, subset, depth, classes, weights, min_samples_leaf)
        predicted = [predict(tree, matrix[row], exact) for row in validation]
        scores.append(macro_f1([labels[row] for row in validation], predicted))
        trees.append(tree)
    best = scores.index(max(scores))
    return scores, best + 1, trees[best]


def preorder(node):
    """Yield (feature, threshold, counts) of every node, parents before children, left before right."""
    yield (node.feature, node.threshold, tuple(node.counts))
    if node.left is not None:
        yield from preorder(node.left)
        yield from preorder(node.right)
