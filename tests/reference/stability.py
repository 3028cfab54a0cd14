"""Which rules come back, slow and obvious: sets of rows, cell by cell."""

from fractions import Fraction


def holds(condition, cell):
    """True if a cell (None if missing) satisfies a condition of a document."""
    op, value = condition["op"], condition["value"]
    if op in {"is missing", "is not missing"}:
        return (cell is None) == (op == "is missing")
    if cell is None:
        return condition.get("or_missing", False)
    if op in {"in", "not in"}:
        return (cell in value) == (op == "in")
    return {
        "<=": lambda: cell <= value,
        ">": lambda: cell > value,
        "=": lambda: cell == value,
        "!=": lambda: cell != value,
    }[op]()


def rows_of(rule, table):
    """The set of rows of a table, a list of dictionaries, that a rule of a document covers."""
    return {
        number
        for number, row in enumerate(table)
        if all(holds(condition, row[condition["feature"]]) for condition in rule["conditions"])
    }


def jaccard(one, other):
    return Fraction(len(one & other), len(one | other)) if one | other else Fraction(1)


def comes_back(rule, run, table):
    """The rule of a run that a rule comes back as: of its class, on at least half of the same rows, most similar."""
    rows = rows_of(rule, table)
    alike = [
        (jaccard(rows, rows_of(other, table)), -place)
        for place, other in enumerate(run)
        if other["class"] == rule["class"]
    ]
    similarity, place = max(alike, default=(Fraction(0), 0))
    return run[-place] if similarity >= Fraction(1, 2) else None


def consensus(own, runs, table, threshold):
    """(id or None, rows, returns) of the rules that come back in at least this share of the runs."""
    known, result = list(own), []
    for rule in own:
        returns = sum(comes_back(rule, run, table) is not None for run in runs)
        result.append((rule["id"], frozenset(rows_of(rule, table)), returns))
    for run in runs:
        for rule in run:
            if comes_back(rule, known, table) is None:
                known.append(rule)
                again = [other for each in runs if (other := comes_back(rule, each, table)) is not None]
                rows = [frozenset(rows_of(other, table)) for other in again]
                sums = [sum(jaccard(each, other) for other in rows) for each in rows]
                result.append((None, rows[sums.index(max(sums))], len(again)))
    return [entry for entry in result if runs and Fraction(entry[2], len(runs)) >= Fraction(str(threshold))]
