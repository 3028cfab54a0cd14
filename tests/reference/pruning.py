"""Pruning, slow and simple: sets of rows, every test by scipy, one feature and one condition at a time.

A rule is a list of (literal, bound). Rounding may decide close calls: `closest` is the smallest distance of a decision
from its limit, as a logarithm.
"""

from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.stats import chi2, false_discovery_control, hypergeom

from maabo_dist.rules.rule import NO_LITERAL


def rules_of(leaves):
    """Return each row of `Leaves` as a list of (literal, bound)."""
    return [
        [(int(literal), float(bound)) for literal, bound in zip(*row, strict=True) if literal != NO_LITERAL]
        for row in zip(leaves.logic, leaves.bounds, strict=True)
    ]


def holds(columns, rows, literal, bound):
    feature, large = divmod(int(literal), 2)
    values = columns.values[columns.offsets[feature] : columns.offsets[feature + 1]][columns.codes[feature][rows]]
    return values > bound if large else values <= bound


def all_hold(columns, rows, rule):
    return np.logical_and.reduce([np.ones(len(rows), bool), *(holds(columns, rows, *part) for part in rule)])


def class_counts(columns, rows, rule):
    return np.bincount(columns.labels[rows][all_hold(columns, rows, rule)], minlength=len(columns.classes)).tolist()


def heaviest(counts, shares):
    """Return the class with the greatest weighted count, exactly; ties go to the first."""
    weighted = [Fraction(int(count), int(share)) for count, share in zip(counts, shares, strict=True)]
    return weighted.index(max(weighted))


def gini(counts, weights):
    weighted = np.array(counts) * weights
    return 1 - ((weighted / weighted.sum()) ** 2).sum() if weighted.sum() else 1.0


def fisher(hits, rows, other_hits, other_rows):
    """Return P(at least `hits` among `rows`), given the hits in both groups; SciPy does not accept empty groups."""
    return hypergeom.sf(hits - 1, rows + other_rows, hits + other_hits, rows) if rows and other_rows else 1.0


def both_p_values(columns, split, rule, index, label):
    """Return the p-values of the training rows (times the number of cuts) and of the validation rows."""
    p_values = []
    for rows in (split.train, split.validation):
        others = all_hold(columns, rows, rule[:index] + rule[index + 1 :])
        this, right = holds(columns, rows, *rule[index]), columns.labels[rows] == label
        inside, outside = others & this, others & ~this
        p_values.append(fisher((inside & right).sum(), inside.sum(), (outside & right).sum(), outside.sum()))
    cuts = len(np.unique(columns.column(rule[index][0] // 2))) - 1
    return min(1.0, p_values[0] * max(1, cuts)), p_values[1]


def combined(first, second):
    """Combine two p-values by Fisher's method."""
    return chi2.sf(-2 * (np.log(first) + np.log(second)), 4)


def simes(p_values):
    ranked = sorted(p_values)
    return min(len(ranked) * p / rank for rank, p in enumerate(ranked, start=1))


def feature_q(columns, split, rules, labels):
    """Return the q-value (Benjamini–Hochberg) of each feature of the table; a feature without conditions has p = 1."""
    p_values = defaultdict(list)
    for rule, label in zip(rules, labels, strict=True):
        for index, (literal, _) in enumerate(rule):
            p_values[literal // 2].append(combined(*both_p_values(columns, split, rule, index, label)))
    by_feature = [simes(p_values[f]) if f in p_values else 1.0 for f in range(columns.count)]
    return false_discovery_control(np.minimum(1.0, by_feature), method="bh")


def pruned(columns, split, rules, shares, level):
    """Return the q-value of each feature, the factor, and (remaining conditions, counts, closest) of each rule.

    A rule whose class changes when the other conditions are dropped keeps none.
    """
    labels = [heaviest(class_counts(columns, split.train, rule), shares) for rule in rules]
    q_values = feature_q(columns, split, rules, labels)
    factor = max(1.0, level * len(rules))
    result = []
    for rule, label in zip(rules, labels, strict=True):
        closest = min(abs(np.log(q_values[literal // 2] / level)) for literal, _ in rule)
        left = [part for part in rule if q_values[part[0] // 2] <= level]
        left, closest = _supported(columns, split, left, label, level / factor, closest)
        counts = class_counts(columns, split.train, left)
        if left and heaviest(counts, shares) != label:
            left = []
        result.append((left, counts, closest))
    return q_values, factor, result


def _supported(columns, split, rule, label, bar, closest):
    rule = list(rule)
    while rule:
        tests = [both_p_values(columns, split, rule, index, label) for index in range(len(rule))]
        products = [first * second for first, second in tests]
        worst = products.index(max(products))
        p = combined(*tests[worst])
        closest = min(closest, abs(np.log(p / bar)))
        if p <= bar:
            break
        closest = min([closest, *(np.log(products[worst] / other) for other in products if other < products[worst])])
        del rule[worst]
    return rule, closest
