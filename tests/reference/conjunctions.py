"""The beam search for conjunctions, slow and simple: rows in boolean masks, one extension after another."""

import numpy as np

from tests.reference.screens import bins
from tests.reference.triples import excess_strength


def grow(columns, rows, label, size, beam, children):
    """Return the conjunctions of a class, strongest first, as (features, rows covered)."""
    own = columns.labels[rows] == label
    levels = [bins(columns.codes[feature][rows].astype(int)) for feature in range(columns.count)]
    grown = [((), np.ones(len(own), bool), np.inf)]
    for length in range(1, size + 1):
        extensions = []
        for parent, (features, covered, weakest) in enumerate(grown):
            for feature in set(range(columns.count)) - set(features):
                level = levels[feature]
                for condition, holds in enumerate([level < 1, level < 2, level >= 1, level >= 2]):
                    borne = min(weakest, excess_strength(covered & holds, covered, own))
                    strength = min(excess_strength(covered & holds, np.ones(len(own), bool), own), length * borne)
                    if strength > 0:
                        extensions.append((strength, parent, feature, condition, covered & holds, borne))
        extensions.sort(key=lambda each: (-each[0], *each[1:4]))
        grown = _choose(extensions, grown, beam, children if length > 1 else beam)
    return grown


def _choose(extensions, parents, beam, children):
    chosen, known, of_parent = [], set(), {}
    for _, parent, feature, _, covered, borne in extensions:
        features = (*parents[parent][0], feature)
        if frozenset(features) in known or of_parent.get(parent, 0) == children or len(chosen) == beam:
            continue
        known.add(frozenset(features))
        of_parent[parent] = of_parent.get(parent, 0) + 1
        chosen.append((features, covered, borne))
    return chosen
