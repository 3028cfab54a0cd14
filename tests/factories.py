"""Small random tables, splits, forests and leaves for tests. Every factory takes the generator it draws from."""

from dataclasses import replace
from itertools import combinations

import numpy as np

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.recoding import recode
from maabo_dist.data.split import Split
from maabo_dist.rules.leaves import Leaves, weighted_gini
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.screens.screen import compute_screen
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import TrainingTable, depth_search
from tests.reference import gs_mrm


def _neighbouring(rng, rows):
    """Adjacent floats, between which no midpoint exists."""
    steps = [1.0]
    for _ in range(4):
        steps.append(np.nextafter(steps[-1], 2.0))
    return rng.choice(steps, rows)


KINDS = {
    "continuous": lambda rng, rows: rng.normal(size=rows),
    "rounded": lambda rng, rows: rng.normal(size=rows).round(1),
    "few": lambda rng, rows: rng.integers(0, rng.integers(2, 5), rows).astype(float),
    "constant": lambda rng, rows: np.full(rows, 7.25),
    "huge": lambda rng, rows: rng.choice([-1.7e308, -1e308, 1e308, 1.5e308, 1.7e308], rows),
    "tiny": lambda rng, rows: rng.integers(-3, 4, rows) * 5e-324,
    "neighbouring": _neighbouring,
    "zeros": lambda rng, rows: rng.choice([-0.0, 0.0, -1.0, 1.0], rows),
}
"""Name → how a column of that kind is drawn."""


def make_columns(rng, rows=30, features=4, classes=2, kinds=tuple(KINDS), signal=0.6):
    """Return a table whose class depends on its columns in a share `signal` of the rows and is noise in the others."""
    matrix = np.array([KINDS[rng.choice(kinds)](rng, rows) for _ in range(features)])
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in matrix])
    signal_labels = (ranks * rng.integers(1, 4, (features, 1))).sum(axis=0) % classes
    labels = np.where(rng.random(rows) < signal, signal_labels, rng.integers(0, classes, rows))
    return columns_of(matrix, labels, classes)


def make_planted(rng, rows=90, features=4, classes=2, kinds=("continuous", "rounded", "few"), signal=0.85):
    """Return a table whose class is the number of large values in its first two columns, modulo the classes (for two,
    an XOR).
    """
    matrix = np.array([KINDS[rng.choice(kinds)](rng, rows) for _ in range(features)])
    above = matrix[:2] > np.sort(matrix[:2], axis=1)[:, rows // 2, None]
    labels = np.where(rng.random(rows) < signal, above.sum(axis=0) % classes, rng.integers(0, classes, rows))
    return columns_of(matrix, labels, classes)


def make_clear(rng, rows=60, features=8, classes=2):
    """Return a table with so clear a pattern, in its first two columns, that small searches have certified rules."""
    matrix = rng.normal(size=(features, rows))
    ranks = np.argsort(np.argsort(2 * matrix[0] + matrix[1]))
    return columns_of(matrix, ranks * classes // rows, classes)


def make_people(seed, *, groups=60, rows=8, effect=0.0):
    """Return a table of persons with several rows each: two columns of the person, two of the row, and one class each.

    The class depends on the first column by `effect`.
    """
    rng = np.random.default_rng(seed)
    person = rng.permutation(np.repeat(np.arange(groups), rows))
    of_person = rng.normal(size=(2, groups)).round(2)
    labels = rng.random(groups) < 0.4 + effect * (of_person[0] > 0.3)
    matrix = np.vstack([of_person[:, person], rng.normal(size=(2, len(person))).round(2)])
    return replace(columns_of(matrix, labels[person]), groups=person.astype(np.int32))


def columns_of(matrix, labels, classes=2):
    """Return columns from a feature-major matrix of numbers and its labels."""
    features = tuple(Feature(f"x{index}", f"x{index}", FeatureKind.NUMBER) for index in range(len(matrix)))
    names = tuple(f"c{number}" for number in range(classes))
    return Columns.from_matrix(np.asarray(matrix, float), np.asarray(labels, np.int32), features, names, "y")


def make_split(rng, rows, validation=0.3, holdout=0.0):
    """Assign the rows to the two parts at random, at least one of them to validation."""
    order = rng.permutation(rows)
    tested, held = max(1, int(validation * rows)), int(holdout * rows)
    parts = order[tested + held :], order[:tested], order[tested : tested + held]
    return Split(*(np.sort(part).astype(np.int64) for part in parts))


def make_study(columns, split, **settings):
    """Return a study of this split, with the plan of a single tree, which allows any number of features."""
    mining = MiningSettings(strategy="single", **settings)
    recoded = recode(columns, split.train) if mining.publishes_findings else columns
    table = TrainingTable.build(recoded, split, class_weight=mining.class_weight)
    return Study(
        recoded,
        split,
        table,
        mining,
        SearchPlan.settle(mining, columns.count, **columns.plan_inputs),
        columns,
    )


def every_subset(features, size):
    """Return all subsets, in the form that the library takes."""
    return np.array(list(combinations(range(features), size)), np.int32).reshape(-1, size)


def make_forest(rng, *, rows=40, features=4, classes=2, size=2, max_depth=4, **table_options):
    """Return columns, split, table and the forest of all subsets."""
    columns, split = make_columns(rng, rows, features, classes), make_split(rng, rows)
    table = TrainingTable.build(columns, split, **table_options)
    return columns, split, table, depth_search(table, every_subset(features, size), max_depth)


def make_leaves(rng, count, *, features=4, width=4, classes=2, ginis=None, most_rows=20):
    """Return random leaves, many with the same logic set. Gini indices are drawn from `ginis`, so that they tie, or
    computed.
    """
    logic = np.full((count, width), NO_LITERAL, np.int32)
    bounds = np.zeros((count, width))
    for row in range(count):
        chosen = np.sort(rng.choice(2 * features, rng.integers(0, width + 1), replace=False))
        logic[row, : len(chosen)] = chosen
        bounds[row, : len(chosen)] = rng.integers(0, 3, len(chosen))
    counts = rng.integers(0, most_rows, (count, classes)).astype(np.int32)
    counts[:, 0] += 1
    shares = counts / counts.sum(axis=1, keepdims=True)
    return Leaves(
        logic=logic,
        bounds=bounds,
        counts=counts,
        gini=1 - (shares**2).sum(axis=1) if ginis is None else rng.choice(ginis, count),
        tree=np.sort(rng.integers(0, max(1, count // 2), count)),
        score=rng.integers(0, 4, count) / 4,
        seen=count,
        large=count,
    )


def make_rules(rng, columns, split, count, *, weights, width=4):
    """Return leaves with random conditions, some of them intervals, with the training rows that satisfy them."""
    logic, bounds = np.full((count, width), NO_LITERAL, np.int32), np.zeros((count, width))
    for row in range(count):
        chosen = np.sort(rng.choice(2 * columns.count, rng.integers(1, width + 1), replace=False))
        logic[row, : len(chosen)] = chosen
        for index, literal in enumerate(chosen):  # wide conditions, so that some rows satisfy all
            values, share = np.sort(columns.column(literal // 2)), rng.uniform(0, 0.5)
            at = int((share if literal % 2 else 1 - share) * (len(values) - 1))
            bounds[row, index] = rng.choice([values[at], values[at - 1] / 2 + values[at] / 2])
    covered = covered_rows(columns, split.train, logic, bounds)
    labels = columns.labels[split.train]
    counts = np.array([np.bincount(labels[rows], minlength=len(columns.classes)) for rows in covered], np.int32)
    gini = np.array([weighted_gini(row, weights) if row.any() else 1.0 for row in counts])
    trees, scores = np.arange(count), np.zeros(count)
    leaves = Leaves(logic, bounds, counts, gini, trees, scores, seen=count, large=count)
    return leaves.take(np.flatnonzero(counts.any(axis=1)))


def reference_leaves(leaves):
    """Return the rows of `Leaves` as leaves of the reference implementation."""
    result = []
    for row in range(len(leaves)):
        literals = leaves.logic[row][leaves.logic[row] != NO_LITERAL].tolist()
        result.append(
            gs_mrm.Leaf(
                frozenset((literal // 2, literal % 2 == 1) for literal in literals),
                tuple(leaves.bounds[row, : len(literals)].tolist()),
                tuple(leaves.counts[row].tolist()),
                float(leaves.gini[row]),
                float(leaves.score[row]),
                int(leaves.tree[row]),
            )
        )
    return result


def matrix_of(columns):
    """Return the values as a plain list of rows."""
    return np.array([columns.column(feature) for feature in range(columns.count)]).T.tolist()


def screen_of(study):
    """Return the screen that a search needs, or None."""
    if not study.plan.screened:
        return None
    return compute_screen(study.columns, study.split, study.table.root_scores, study.plan.screens)
