"""The scorer: the same figures for the rules of every method, from rows that the method did not see.

A rule is a class and the rows that satisfy its conditions. It *holds* if the lower end of the 95 % Wilson interval of
its precision on unseen rows is above the share of its class among them. The correction for several rules of a set is
Holm's or that of Benjamini and Hochberg, on the one-sided hypergeometric test; both at 5 %.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import hypergeom

from bench.real_tables.draws import Draw

LEVEL = 0.05
Z_95 = 1.959963984540054
COMMON_ROWS = 2000
"""Rows of a table on which the rules of two draws are compared."""
OVERLAP_ROWS = 20_000
"""Rows on which pairs of rules are compared; the first ones of a random order."""
SAME_ROWS = 0.5
"""Jaccard similarity from which two rules are one finding."""

Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A rule of any method."""

    label: str
    """Its class."""
    text: str
    mask: np.ndarray
    """(rows of the table): True where its conditions hold."""
    tentative: bool = False
    """True if the method itself says that the evidence is weak."""


def score_rules(rules: Sequence[FoundRule], draw: Draw) -> Record:
    """All figures of a set of rules, and what is needed to compare it with the sets of other draws."""
    truth = draw.classes[draw.unseen]
    evidence = [_test_rule(rule, draw.unseen, truth) for rule in rules]
    p_values = np.array([each["p"] for each in evidence])
    holm, bh = holm_passes(p_values), benjamini_hochberg_passes(p_values)
    lifts = [each["lift"] for each in evidence if each["lift"] is not None]
    masks = [rule.mask[draw.unseen] for rule in rules]
    return {
        "rows": len(draw.frame),
        "class_names": sorted(set(draw.classes.tolist())),
        "rules": len(rules),
        "classes": sorted({rule.label for rule in rules}),
        "holding": sum(bool(each["holds"]) for each in evidence),
        "holm": int(holm.sum()),
        "bh": int(bh.sum()),
        "holm_classes": sorted({rule.label for rule, passes in zip(rules, holm, strict=True) if passes}),
        "empty": sum(each["n"] == 0 for each in evidence),
        "lift": float(np.mean(lifts)) if lifts else None,
        "covered": float(np.mean(np.any(masks, axis=0))) if masks else 0.0,
        "overlap": greatest_overlap(rules, draw.unseen),
        "train_overlap": greatest_overlap(rules, draw.train),
        "evidence": [
            {"class": rule.label, "rule": rule.text, "tentative": rule.tentative, **each}
            for rule, each in zip(rules, evidence, strict=True)
        ],
        "common": [pack_mask(rule.mask[common_rows(len(draw.frame))]) for rule in rules],
    }


def _test_rule(rule: FoundRule, unseen: np.ndarray, truth: np.ndarray) -> Record:
    covered, own = rule.mask[unseen], truth == rule.label
    n, hits, base = int(covered.sum()), int((covered & own).sum()), float(own.mean())
    p = float(hypergeom.sf(hits - 1, len(truth), int(own.sum()), n)) if n else 1.0
    lift = hits / n / base if n and base else None
    return {"n": n, "hits": hits, "base": base, "lift": lift, "holds": wilson_low(hits, n) > base, "p": p}


def wilson_low(hits: int, n: int) -> float:
    """The lower end of the 95 % Wilson interval; 0 without rows."""
    if n == 0:
        return 0.0
    share, z2 = hits / n, Z_95 * Z_95
    half = Z_95 * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (share + z2 / (2 * n) - half) / (1 + z2 / n))


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    return wilson_low(hits, n), 1 - wilson_low(n - hits, n)


def holm_passes(p_values: np.ndarray) -> np.ndarray:
    """Which tests are significant by Holm's step-down procedure."""
    order, passes = np.argsort(p_values, kind="stable"), np.zeros(len(p_values), bool)
    for rank, index in enumerate(order):
        if p_values[index] * (len(p_values) - rank) > LEVEL:
            break
        passes[index] = True
    return passes


def benjamini_hochberg_passes(p_values: np.ndarray) -> np.ndarray:
    """Which tests are significant by the step-up procedure of Benjamini and Hochberg."""
    ranks = np.arange(1, len(p_values) + 1)
    below = np.flatnonzero(np.sort(p_values) <= LEVEL * ranks / max(1, len(p_values)))
    return p_values <= np.sort(p_values)[below[-1]] if len(below) else np.zeros(len(p_values), bool)


def greatest_overlap(rules: Sequence[FoundRule], rows: np.ndarray) -> float | None:
    """The greatest Jaccard similarity of two rules of one class; None if no class has two."""
    if len(rows) > OVERLAP_ROWS:
        rows = np.random.default_rng(0).permutation(rows)[:OVERLAP_ROWS]
    greatest = None
    for label in {rule.label for rule in rules}:
        masks = np.array([rule.mask[rows] for rule in rules if rule.label == label])
        if len(masks) > 1:
            jaccard = similarities(masks, masks)
            np.fill_diagonal(jaccard, 0.0)
            greatest = max(greatest or 0.0, float(jaccard.max()))
    return greatest


def similarities(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(rules, other rules): Jaccard similarity of the rows they cover; 0 where both cover none."""
    both = one.astype(np.float32) @ other.T.astype(np.float32)
    either = one.sum(axis=1)[:, None] + other.sum(axis=1) - both
    return np.divide(both, either, out=np.zeros_like(both), where=either > 0)


def returning_share(record: Record, other: Record) -> float | None:
    """The share of a draw's findings that another draw has too: the same class, nearly the same rows of the table."""
    if not record["rules"]:
        return None
    if not other["rules"]:
        return 0.0
    (one, labels), (two, other_labels) = _common_masks(record), _common_masks(other)
    same = (similarities(one, two) >= SAME_ROWS) & (labels[:, None] == other_labels)
    return float(same.any(axis=1).mean())


def _common_masks(record: Record) -> tuple[np.ndarray, np.ndarray]:
    count = min(COMMON_ROWS, record["rows"])
    masks = np.array([unpack_mask(text, count) for text in record["common"]])
    return masks, np.array([each["class"] for each in record["evidence"]])


def common_rows(count: int) -> np.ndarray:
    """The rows of a table on which draws are compared: all, or a fixed sample."""
    if count <= COMMON_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, COMMON_ROWS, replace=False))


def pack_mask(mask: np.ndarray) -> str:
    return base64.b85encode(np.packbits(mask).tobytes()).decode()


def unpack_mask(text: str, count: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(base64.b85decode(text), np.uint8), count=count).astype(bool)
