"""Subsets that meet limits on columns, found by trying all combinations of features."""

from itertools import combinations


def meets(subset, required, exclusive):
    """True if a subset has all required columns, and of each group features of one column at most."""
    has_required = all(any(feature in subset for feature in column) for column in required)
    return has_required and all(
        sum(any(feature in subset for feature in column) for column in group) <= 1 for group in exclusive
    )


def subsets(features, size, required, exclusive):
    """Return all subsets of this size that meet the limits."""
    return [subset for subset in combinations(range(features), size) if meets(subset, required, exclusive)]
