"""Slow twins of the passes over a dataset: rows are drawn and counted one by one, in plain Python."""

import math
import struct
from collections import Counter

from maabo_dist._util import draws
from maabo_dist.contract.conditions import Op

MASK = draws.MASK
MISSING = 0x5851F42D4C957F2D


def is_missing(cell):
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))


def holds(condition, cell):
    """True if a condition on numbers, texts or booleans holds for a cell."""
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return is_missing(cell) == (condition.op is Op.IS_MISSING)
    if is_missing(cell):
        return condition.or_missing
    if isinstance(cell, bool):
        cell = "true" if cell else "false"
    match condition.op:
        case Op.AT_MOST:
            return cell <= condition.value
        case Op.ABOVE:
            return cell > condition.value
        case Op.AT_LEAST:
            return cell >= condition.value
        case Op.IS:
            return cell == condition.value
        case Op.IS_NOT:
            return cell != condition.value
        case Op.IN:
            return cell in condition.value
        case _:
            return cell not in condition.value


def count_rows(rule, rows, labels, parts, classes):
    """[part][class]: the rows (dictionaries) in which all conditions hold."""
    counts = [[0] * classes for _ in range(3)]
    for row, label, part in zip(rows, labels, parts, strict=True):
        if all(holds(condition, row[condition.feature]) for condition in rule):
            counts[part][label] += 1
    return counts


def hash_cell(cell):
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return MISSING
    if isinstance(cell, float):
        return struct.unpack("<Q", struct.pack("<d", cell + 0.0))[0]
    if isinstance(cell, str):
        value = 0xCBF29CE484222325
        for byte in cell.encode():
            value = ((value ^ byte) * 0x100000001B3) & MASK
        return draws.mix(value)
    return int(cell) & MASK


def hash_row(cells):
    value = 0
    for number, cell in enumerate(cells):
        value = draws.mix(((value ^ hash_cell(cell)) * draws.GOLDEN + draws.stream(number, 0, 0)) & MASK)
    return value


def uniform(hashed, number, stream):
    return draws.mix(hashed ^ draws.mix((number * draws.GOLDEN + stream) & MASK)) / 2**64


def draw(hashes, labels, plan):
    """The part of each row, and the set of (hash, number) of those that are drawn."""
    seen, parts, drawn = Counter(), [], set()
    for hashed, label in zip(hashes, labels, strict=True):
        number = 0
        if uniform(hashed, 0, draws.stream(plan.seed, 0, 303)) < plan.numbered:
            seen[hashed] += 1
            number = seen[hashed]
        part = 0
        if uniform(hashed, number, draws.stream(plan.split_seed, 0, 301)) < plan.test_size:
            part = 1
        if uniform(hashed, number, draws.stream(plan.split_seed, 0, 300)) < plan.holdout:
            part = 2
        parts.append(part)
        chance = uniform(hashed, number, draws.stream(plan.seed, 0, 302))
        if number and part != 2 and chance < plan.rates[label] / plan.numbered:
            drawn.add((hashed, number))
    return parts, drawn
