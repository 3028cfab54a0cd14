"""Slow twin of counting the rows of rules: row by row, in plain Python."""

from maabo_dist.rules.rule import NO_LITERAL


def count_rows(columns, parts, logic, bounds):
    """[rule][part][class]: the rows that each rule covers; the sum of their weights if they have any."""
    table = [columns.column(feature).tolist() for feature in range(columns.count)]
    counts = []
    for literals, thresholds in zip(logic.tolist(), bounds.tolist(), strict=True):
        own = [[0] * len(columns.classes) for _ in parts]
        for part, rows in enumerate(parts):
            for row in rows.tolist():
                if all(
                    (table[literal // 2][row] > threshold) == (literal % 2 == 1)
                    for literal, threshold in zip(literals, thresholds, strict=True)
                    if literal != NO_LITERAL
                ):
                    own[part][columns.labels[row]] += 1 if columns.weights is None else int(columns.weights[row])
        counts.append(own)
    return counts
