"""How well mined rules tell what was planted: found, missed, noise, redundancy, and precision on fresh rows.

A literal is a column with a direction (or a level); thresholds are compared by the rows they pick. A planted rule is
found *exactly* by a mined rule of its class with the same literals, and *with an extra literal* by one with a single
further literal; in both, the planted literals with the mined thresholds must pick nearly the same rows. Rows in which
one of the columns is missing are left out of this comparison: a miner has to put them on some side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.errors import DatasetError, FormatError
from maabo_dist.report.document import FORMAT, Document, conditions_of
from maabo_dist.research.synthetic.layout import lay_out
from maabo_dist.research.synthetic.planting import draw
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.research.synthetic.truth import PlantedRule, Truth, covered, overlap, present

SAME_ROWS = 0.8
"""Thresholds are right if planted and mined rows overlap (Jaccard) at least this much."""
REDUNDANT = 0.9
"""A rule is redundant if its rows and those of an earlier one of its class overlap at least this much."""
FRESH_ROWS = 10_000

_BOUNDS = frozenset({Op.AT_MOST, Op.ABOVE})

Literal = tuple[str, Op, str | None]


class Verdict(StrEnum):
    """What became of a planted rule."""

    EXACT = "exact"
    EXTRA = "extra"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class MinedRule:
    """What is judged of a mined rule."""

    id: str
    conditions: tuple[Condition, ...]
    label: str
    """The name of its class."""

    @property
    def literals(self) -> frozenset[Literal]:
        """Its conditions without thresholds."""
        return frozenset(map(_literal, self.conditions))


@dataclass(frozen=True, slots=True)
class Finding:
    """A planted rule and the first mined rule that comes closest to it."""

    planted: str
    verdict: Verdict
    by: str | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A mined rule."""

    rule: str
    finds: tuple[str, ...]
    """The planted rules it was the first to come closest to."""
    noise: tuple[str, ...]
    """Its columns that are neither of planted rules nor decoys."""
    decoys: tuple[str, ...]
    """Its columns that imitate others."""
    repeats: str | None
    """The earlier rule that makes it redundant; None where there is none, or no table to tell."""
    fresh_n: int | None
    """Fresh rows that it covers; None where none were drawn."""
    fresh_precision: float | None
    """Of these, the share of its class."""


@dataclass(frozen=True, slots=True)
class Score:
    """All planted and all mined rules, in their orders."""

    planted: tuple[Finding, ...]
    mined: tuple[Judgement, ...]
    by_rows: bool
    """Whether there was a table to compare thresholds and find redundancy by."""

    @property
    def totals(self) -> dict[str, int | float | None]:
        """How many of each; the precision on fresh rows is the mean over the rules that cover any."""
        verdicts = [finding.verdict for finding in self.planted]
        precisions = [rule.fresh_precision for rule in self.mined if rule.fresh_precision is not None]
        return {
            "planted": len(self.planted),
            **{verdict.value: verdicts.count(verdict) for verdict in Verdict},
            "mined": len(self.mined),
            "with_noise": sum(bool(rule.noise) for rule in self.mined),
            "noise_literals": sum(len(rule.noise) for rule in self.mined),
            "with_decoys": sum(bool(rule.decoys) for rule in self.mined),
            "redundant": sum(rule.repeats is not None for rule in self.mined) if self.by_rows else None,
            "fresh_precision": sum(precisions) / len(precisions) if precisions else None,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values: the totals, then each rule."""
        return {"totals": self.totals, **asdict(self)}


def score(
    rules: Document | Sequence[MinedRule], truth: Truth, frame: pd.DataFrame | None = None, *, fresh: int = FRESH_ROWS
) -> Score:
    """Judge the rules of a result document, or given ones, in their order.

    `frame` is the table they were mined from; without it, literals alone are compared. `fresh` rows are drawn anew
    from the truth's recipe, if it has one that this version of the program follows to the same rules.
    """
    mined = mined_rules(rules) if isinstance(rules, Mapping) else tuple(rules)
    _check_fit(mined, truth, frame)
    findings = tuple(_finding(planted, mined, frame) for planted in truth.rules)
    repeats = _repeats(mined, frame) if mined and frame is not None else {}
    precisions = _fresh_precisions(mined, truth, fresh)
    judgements = tuple(_judgement(rule, truth, findings, repeats, precisions) for rule in mined)
    return Score(findings, judgements, by_rows=frame is not None)


def mined_rules(document: object, *, source: str = "This") -> tuple[MinedRule, ...]:
    """The rules of a result document; `source` is how a message calls it."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, Mapping) else None
        raise FormatError(
            f"{source} is no document of mined rules: its format is {found!r}, not {FORMAT!r}. "
            "Give what maabo mine --json prints."
        )
    try:
        return tuple(MinedRule(rule["id"], conditions_of(rule), rule["class"]) for rule in document["rules"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{source} is a damaged document of mined rules: it lacks or garbles {error}.") from error


def _check_fit(mined: Sequence[MinedRule], truth: Truth, frame: pd.DataFrame | None) -> None:
    """Refuse rules, or a table, of something else than the truth is about."""
    strange = [rule for rule in mined if rule.label not in truth.classes]
    if strange:
        raise DatasetError(
            f"{strange[0].id} is of class {strange[0].label!r}, which the truth does not know. "
            "Give the truth of the table that was mined."
        )
    conditions = [rule.conditions for rule in mined] + [rule.conditions for rule in truth.rules]
    used = {condition.feature for condition in chain.from_iterable(conditions)}
    absent = sorted(used - set(frame.columns)) if frame is not None else []
    if absent:
        raise DatasetError(f"The table has no column {absent[0]!r}. Give the table that was mined, and its truth.")


def _literal(condition: Condition) -> Literal:
    return condition.feature, condition.op, None if condition.op in _BOUNDS else str(condition.value)


def _finding(planted: PlantedRule, mined: Sequence[MinedRule], frame: pd.DataFrame | None) -> Finding:
    literals = frozenset(map(_literal, planted.conditions))
    for verdict, extra in ((Verdict.EXACT, 0), (Verdict.EXTRA, 1)):
        for rule in mined:
            fits = rule.label == planted.label and literals <= rule.literals
            if fits and len(rule.literals) == len(literals) + extra and _same_rows(planted, rule, frame):
                return Finding(planted.id, verdict, rule.id)
    return Finding(planted.id, Verdict.MISSED, None)


def _same_rows(planted: PlantedRule, rule: MinedRule, frame: pd.DataFrame | None) -> bool:
    """Whether the mined thresholds pick the planted rows, an extra literal aside."""
    if frame is None:
        return True
    literals = set(map(_literal, planted.conditions))
    shared = [condition for condition in rule.conditions if _literal(condition) in literals]
    complete = frame[present(frame, [condition.feature for condition in planted.conditions])]
    return overlap(covered(complete, planted.conditions), covered(complete, shared)) >= SAME_ROWS


def _repeats(mined: Sequence[MinedRule], frame: pd.DataFrame) -> dict[str, str]:
    """Each redundant rule with the first that makes it so."""
    labels = np.array([rule.label for rule in mined])
    inside = np.array([covered(frame, rule.conditions) for rule in mined], np.float32)  # for quick products
    sizes = inside.sum(axis=1)
    repeats = {}
    for place, rule in enumerate(mined):
        both = inside[:place] @ inside[place]
        alike = both >= REDUNDANT * (sizes[:place] + sizes[place] - both)
        earlier = np.flatnonzero(alike & (labels[:place] == rule.label))
        if len(earlier):
            repeats[rule.id] = mined[earlier[0]].id
    return repeats


def _fresh_precisions(mined: Sequence[MinedRule], truth: Truth, rows: int) -> dict[str, tuple[int, float | None]]:
    """Covered rows and precision of each rule among fresh rows; nothing where none can be drawn."""
    if truth.recipe is None or rows == 0 or not _still_holds(truth, truth.recipe):
        return {}
    used = {condition.feature for rule in mined for condition in rule.conditions}
    frame = draw(truth.recipe, rows, 1, only=used)
    precisions = {}
    for rule in mined:
        labels = frame[truth.target][covered(frame, rule.conditions)].to_numpy()
        precisions[rule.id] = len(labels), float(np.mean(labels == rule.label)) if len(labels) else None
    return precisions


def _still_holds(truth: Truth, recipe: Recipe) -> bool:
    """Whether the recipe gives the rules of the truth; another version of this program may have written it."""
    return [rule.conditions for rule in lay_out(recipe).rules] == [rule.conditions for rule in truth.rules]


def _judgement(
    rule: MinedRule,
    truth: Truth,
    findings: Sequence[Finding],
    repeats: Mapping[str, str],
    precisions: Mapping[str, tuple[int, float | None]],
) -> Judgement:
    columns = list(dict.fromkeys(condition.feature for condition in rule.conditions))
    fresh_n, fresh_precision = precisions.get(rule.id, (None, None))
    return Judgement(
        rule=rule.id,
        finds=tuple(finding.planted for finding in findings if finding.by == rule.id),
        noise=tuple(name for name in columns if name not in truth.informative and name not in truth.decoys),
        decoys=tuple(name for name in columns if name in truth.decoys),
        repeats=repeats.get(rule.id),
        fresh_n=fresh_n,
        fresh_precision=fresh_precision,
    )
