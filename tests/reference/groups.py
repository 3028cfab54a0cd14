"""Groups of rows, slow and obvious: lists of rows, group by group."""

import numpy as np

from maabo_dist._util import draws
from maabo_dist.data.groups import strata


def rows_by_group(groups):
    """The rows of each group, in the order of the groups' values."""
    return [[row for row, own in enumerate(groups) if own == group] for group in sorted(set(groups))]


def exchanged(groups, stream):
    """For each row the row that it gets its label from: the n-th row of a group from the n-th of another, in turn."""
    members = rows_by_group(groups)
    keys = draws.keys(stream, len(members)).tolist()
    strata_of = strata(np.array([len(rows) for rows in members])).tolist()
    source = [None] * len(groups)
    for stratum in set(strata_of):
        own = [group for group, number in enumerate(strata_of) if number == stratum]
        for taker, giver in zip(own, sorted(own, key=keys.__getitem__), strict=True):
            for number, row in enumerate(members[taker]):
                source[row] = members[giver][number % len(members[giver])]
    return source


def design_effect(groups, labels, classes):
    """1 + (size of a row's group, on average − 1) · the correlation of the analysis of variance."""
    members, rows = rows_by_group(groups), len(groups)
    if len(members) == 1:
        return float(rows)
    if len(members) == rows:
        return 1.0
    between = within = 0.0
    for c in range(classes):
        mean = sum(label == c for label in labels) / rows
        for own in members:
            own_mean = sum(labels[row] == c for row in own) / len(own)
            between += len(own) * (own_mean - mean) ** 2
            within += sum(((labels[row] == c) - own_mean) ** 2 for row in own)
    between, within = between / (len(members) - 1), within / (rows - len(members))
    usual = (rows - sum(len(own) ** 2 for own in members) / rows) / (len(members) - 1)
    total = between + (usual - 1) * within
    correlation = (between - within) / total if total > 1e-12 else 0.0
    return 1 + (sum(len(own) ** 2 for own in members) / rows - 1) * min(1.0, max(0.0, correlation))
