"""Findings, slow and obvious: sets of rows, exact fractions, every test by scipy."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from math import log, sqrt

import numpy as np
from scipy.stats import hypergeom

from maabo_dist.rules.statistics import wilson
from tests.reference.pruning import all_hold


def log_p(hits, rows, all_hits, all_rows):
    """ln P(at least `hits` hits among `rows`); 0 where hits are no more frequent among them than among all."""
    if rows == 0 or hits * all_rows <= all_hits * rows:
        return 0.0
    return float(hypergeom.logsf(hits - 1, all_rows, all_hits, rows))


def confirmation_score(hits, rows, all_hits, all_rows):
    """How many standard errors the expected precision is above what confirms the rule in a third as many rows.

    The variance of the difference to the share of the class is that of two independent samples of each group of rows:
    the one mined, and the other one.
    """
    base = all_hits / all_rows
    groups = [(hits, rows), (all_hits - hits, all_rows - rows)]
    precision, other = ((own + 3 * base) / (size + 3) for own, size in groups)
    variance = sum(
        share * (1 - share) / size
        for share, (_, group) in zip((precision, other), groups, strict=True)
        for size in (group, group / 3)
    )
    needed = base + 1.959963984540054 * sqrt(base * (1 - base) / (rows / 3))
    return (precision - needed) / ((1 - rows / all_rows) * sqrt(variance))


def rows_of(columns, mined, rule):
    """The set of mined rows that satisfy all conditions, (literal, bound) each."""
    return set(mined[all_hold(columns, mined, rule)].tolist())


def supported(columns, mined, rule, label, limits, allowances):
    """The conditions that stay, each within its limit, and the smallest distance of a decision from its limit.

    The limits of a rule with n conditions are lower by `allowances[n]`.
    """
    rule, closest = list(rule), np.inf
    while rule:
        covered = rows_of(columns, mined, rule)
        values = []
        for index in range(len(rule)):
            wider = rows_of(columns, mined, rule[:index] + rule[index + 1 :])
            hits, all_hits = (sum(columns.labels[row] == label for row in rows) for rows in (covered, wider))
            limit = limits[rule[index]] - allowances[len(rule)]
            values.append(log_p(hits, len(covered), all_hits, len(wider)) - limit)
        worst = max(values)
        first, *others = sorted(values, reverse=True)
        closest = min(closest, abs(worst), *(first - other for other in others[:1] if other != first))
        if worst <= 0:
            break
        del rule[values.index(worst)]
    return rule, closest


def grid(values):
    """The cuts of a column: the values at 1, 2, 4, 8, 12 … 120, 124, 126, 127 of 128 parts of the ordered rows."""
    ordered = sorted(values)
    parts = [1, 2, *range(4, 128, 4), 126, 127]
    return sorted({ordered[len(ordered) * part // 128] for part in parts} - {ordered[0]})


def log_p_on_grid(columns, mined, rule, label):
    """Ln p of the strongest rule whose cuts are the nearest of the grid, below or above each of the rule's own."""
    choices = []
    for literal, bound in rule:
        column = columns.codes[literal >> 1][mined].tolist()
        values = columns.values[columns.offsets[literal >> 1] : columns.offsets[(literal >> 1) + 1]].tolist()
        cut, cuts = sum(value <= bound for value in values), grid(column)
        below, above = [each for each in cuts if each <= cut], [each for each in cuts if each >= cut]
        near = {max(below) if below else min(cuts), min(above) if above else max(cuts)}
        choices.append([{row for row, code in enumerate(column) if (code >= each) == literal % 2} for each in near])
    hits = {row for row, each in enumerate(columns.labels[mined].tolist()) if each == label}
    moved = [set.intersection(*parts) for parts in product(*choices)]
    return min(log_p(len(rows & hits), len(rows), len(hits), len(mined)) for rows in moved)


def gain(columns, mined, rule, label):
    """√n · (low − base) · low³ of the rows that the rule covers; 0 if the lower limit is not above the base rate."""
    rows = rows_of(columns, mined, rule)
    if not rows:
        return 0.0
    hits, base = sum(columns.labels[row] == label for row in rows), np.mean(columns.labels[mined] == label)
    low, _ = wilson(hits, len(rows))
    return sqrt(len(rows)) * (low - base) * low**3 if low > base else 0.0


def better_thresholds(columns, mined, rule, label):
    """For each condition the rules that gain most with another cut of its grid, if they gain at least 5 % more."""
    better = []
    for place, (literal, _) in enumerate(rule):
        values = columns.values[columns.offsets[literal >> 1] : columns.offsets[(literal >> 1) + 1]].tolist()
        cuts = grid(columns.codes[literal >> 1][mined].tolist())
        moved = [[*rule[:place], (literal, values[cut - 1]), *rule[place + 1 :]] for cut in cuts]
        gains = [gain(columns, mined, each, label) for each in moved]
        if gains and max(gains) > 1.05 * gain(columns, mined, rule, label) + 1e-9:
            better.append([each for each, value in zip(moved, gains, strict=True) if value >= max(gains) - 1e-9])
    return better


def grid_choices(columns, mined):
    """The number of conditions on the grid of each column."""
    return [2 * len(grid(codes[mined].tolist())) for codes in columns.codes]


def rule_count(cuts, length):
    """The number of rules with so many conditions, listed one by one."""
    conditions = [
        (feature, large, cut) for feature, count in enumerate(cuts) for large in (0, 1) for cut in range(count)
    ]
    rules = 0
    for chosen in combinations(conditions, length):
        per_feature = {}
        for feature, large, cut in chosen:
            per_feature.setdefault(feature, []).append((large, cut))
        # Two conditions on a feature are an interval: above the lower cut, and not above the higher one.
        rules += all(
            len(parts) == 1 or (len(parts) == 2 and parts[0][0] != parts[1][0] and dict(parts)[1] < dict(parts)[0])
            for parts in per_feature.values()
        )
    return rules


def adjusted_p(values, logic, searches):
    """Westfall and Young's step-down p-values; a search is a list of (statistic, logic)."""
    p_values, certified, previous = [None] * len(values), set(), 0.0
    for rule in sorted(range(len(values)), key=lambda index: (values[index], index)):
        as_strong = sum(
            any(value <= values[rule] for value, other in search if other not in certified) for search in searches
        )
        previous = max(previous, (1 + as_strong) / (1 + len(searches)))
        p_values[rule] = previous
        certified.add(logic[rule])
    return p_values


def searches_needed(strongest, undecided, margin):
    """The number of searches after which one of all 24, in order, has come within the margin of the undecided rule."""
    near = [number for number, value in enumerate(strongest) if value - undecided < margin]
    return near[0] + 1 if near else len(strongest)


def log_bound(log_p_value, cuts, length, max_length, classes):
    return min(0.0, log_p_value + log(rule_count(cuts, length)) + log(max_length * classes))


def levels_in_condition(columns, literals, bounds):
    """The number of levels of a condition's text column, missing cells included, and how many are on its smaller side.

    (0, 0) if the column is not a text column.
    """
    literals = [literal for literal in literals.tolist() if literal != 2**31 - 1]
    column = columns.features[literals[0] // 2].column
    raw = [index for index, each in enumerate(columns.raw) if each.column == column and each.levels]
    if not raw:
        return 0, 0
    cells = columns.raw_codes[raw[0]].tolist()
    holds = set()
    for row, cell in enumerate(cells):
        values = [columns.column(literal // 2)[row] for literal in literals]
        if all((value > bound) == literal % 2 for value, literal, bound in zip(values, literals, bounds, strict=False)):
            holds.add(cell)
    levels = len(set(cells))
    return levels, min(len(holds), levels - len(holds))


def decimals(number):
    """The digits after the point; negative for zeros at the end of a whole number. The fewest possible for 0."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return exponent * -1 if number else -400


def fewest_decimals(low, high):
    """The fewest digits after the point of a number from `low` on and below `high`, by trying all exponents."""
    if low <= 0 < high:
        return -400
    for count in range(-20, 340):
        unit = Fraction(10) ** -count
        first = -(-Fraction(low) // unit) * unit
        if first < Fraction(high) and low <= float(first) < high:
            return count
    return None


def zeros_at_end(number):
    return 400 if number == 0 else len(str(abs(number))) - len(str(abs(number)).rstrip("0"))
