"""Score mined rules against the planted ones: found, missed, noise, redundancy, and precision on fresh rows.

A literal is a column with a direction (or a level); thresholds are compared by the rows they select. A planted rule is
found *exactly* by a mined rule of its class with the same literals, and *with an extra literal* by one with a single
further literal. In both cases, the planted literals with the mined thresholds must select nearly the same rows. Rows in
which one of the columns is missing are not compared, because a miner may assign them to either side.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from maabo_dist.contract.conditions import Condition, RuleKey
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import DatasetError
from maabo_dist.research.synthetic.generation import PlantedRule, Truth, draw, match_frame
from maabo_dist.research.synthetic.layout import lay_out

MIN_OVERLAP = 0.8  # thresholds are right if the Jaccard similarity of planted and mined rows is at least this
# A rule is redundant if its rows have at least this Jaccard similarity with those of an earlier rule of its class.
REDUNDANT_OVERLAP = 0.9
FRESH_ROWS = 10_000


class Verdict(StrEnum):
    """The verdict on a planted rule."""

    EXACT = "exact"
    EXTRA = "extra"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class MinedRule:
    """The parts of a mined rule that are scored."""

    id: str
    conditions: tuple[Condition, ...]
    label: str  # the name of its class

    @property
    def columns(self) -> list[str]:
        """The columns of its conditions, each once."""
        return list(dict.fromkeys(condition.feature for condition in self.conditions))


@dataclass(frozen=True, slots=True)
class PlantedScore:
    """A planted rule and the first mined rule that comes closest to it."""

    planted: str
    verdict: Verdict
    by: str | None


@dataclass(frozen=True, slots=True)
class MinedScore:
    """The score of a mined rule."""

    rule: str
    finds: tuple[str, ...]  # the planted rules that it was the first to come closest to
    noise: tuple[str, ...]  # its columns that are neither in planted rules nor decoys
    decoys: tuple[str, ...]  # its columns that imitate others
    # The earlier rule that makes it redundant; None if there is none, or no table to compare rows by.
    repeats: str | None
    fresh_n: int | None  # the number of fresh rows that it covers; None if no fresh rows were drawn
    fresh_precision: float | None  # the share of these rows that have its class


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of all planted and all mined rules, in order."""

    planted: tuple[PlantedScore, ...]
    mined: tuple[MinedScore, ...]
    by_rows: bool  # True if there was a table to compare thresholds and find redundancy by

    @property
    def totals(self) -> dict[str, int | float | None]:
        """Counts over all rules; the precision on fresh rows is the mean over the rules that cover any."""
        verdicts = [score.verdict for score in self.planted]
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
        """The totals and the score of each rule as plain values."""
        return {"totals": self.totals, **asdict(self)}


def score(
    rules: ResultDocument | Sequence[MinedRule],
    truth: Truth,
    frame: pd.DataFrame | None = None,
    *,
    fresh: int = FRESH_ROWS,
) -> Score:
    """Score the rules of a result document, or a sequence of rules.

    `frame` is the table that they were mined from; without it, only literals are compared. `fresh` rows are drawn from
    the truth's recipe, if it has one from which this version of the program generates the same rules.
    """
    if isinstance(rules, ResultDocument):
        rules = [MinedRule(rule.id, rule.premise, rule.label) for rule in rules.rules]
    mined = tuple(rules)
    _check_fit(mined, truth, frame)
    planted = tuple(_score_planted(rule, mined, frame) for rule in truth.rules)
    repeats = _find_repeats(mined, frame) if mined and frame is not None else {}
    precisions = _fresh_precisions(mined, truth, fresh)
    explained, scores = {*truth.informative, *truth.decoys}, []
    for rule in mined:
        finds = tuple(each.planted for each in planted if each.by == rule.id)
        noise = tuple(name for name in rule.columns if name not in explained)
        decoys = tuple(name for name in rule.columns if name in truth.decoys)
        fresh_n, precision = precisions.get(rule.id, (None, None))
        scores.append(MinedScore(rule.id, finds, noise, decoys, repeats.get(rule.id), fresh_n, precision))
    return Score(planted, tuple(scores), by_rows=frame is not None)


def _check_fit(mined: Sequence[MinedRule], truth: Truth, frame: pd.DataFrame | None) -> None:
    """Reject rules or a table that the truth is not about."""
    unknown = [rule for rule in mined if rule.label not in truth.classes]
    if unknown:
        raise DatasetError(
            f"{unknown[0].id} has the class {unknown[0].label!r}, which is not in the truth. "
            "Give the truth of the table that was mined."
        )
    conditions = [*(rule.conditions for rule in mined), *(rule.conditions for rule in truth.rules)]
    used = {condition.feature for condition in chain.from_iterable(conditions)}
    absent = sorted(used - set(frame.columns)) if frame is not None else []
    if absent:
        raise DatasetError(f"The table has no column {absent[0]!r}. Give the table that was mined, and its truth.")


def _score_planted(planted: PlantedRule, mined: Sequence[MinedRule], frame: pd.DataFrame | None) -> PlantedScore:
    key = RuleKey.of(planted.label, planted.conditions)
    for verdict, extra in ((Verdict.EXACT, 0), (Verdict.EXTRA, 1)):
        for rule in mined:
            other = RuleKey.of(rule.label, rule.conditions)
            fits = other.label == key.label and key.literals <= other.literals
            if fits and len(other.literals) == len(key.literals) + extra and _same_rows(planted, rule, frame):
                return PlantedScore(planted.id, verdict, rule.id)
    return PlantedScore(planted.id, Verdict.MISSED, None)


def _same_rows(planted: PlantedRule, rule: MinedRule, frame: pd.DataFrame | None) -> bool:
    """True if the mined thresholds select the planted rows, without regard to an extra literal."""
    if frame is None:
        return True
    literals = {condition.literal for condition in planted.conditions}
    shared = [condition for condition in rule.conditions if condition.literal in literals]
    complete = frame[frame[[condition.feature for condition in planted.conditions]].notna().all(axis=1)]
    one, other = match_frame(complete, planted.conditions), match_frame(complete, shared)
    either = np.count_nonzero(one | other)
    return not either or bool(np.count_nonzero(one & other) / either >= MIN_OVERLAP)


def _find_repeats(mined: Sequence[MinedRule], frame: pd.DataFrame) -> dict[str, str]:
    """Each redundant rule with the first rule that makes it so."""
    labels = np.array([rule.label for rule in mined])
    inside = np.array([match_frame(frame, rule.conditions) for rule in mined], np.float32)  # float for a fast product
    sizes = inside.sum(axis=1)
    repeats = {}
    for index, rule in enumerate(mined):
        both = inside[:index] @ inside[index]
        similar = both >= REDUNDANT_OVERLAP * (sizes[:index] + sizes[index] - both)
        earlier = np.flatnonzero(similar & (labels[:index] == rule.label))
        if len(earlier):
            repeats[rule.id] = mined[earlier[0]].id
    return repeats


def _fresh_precisions(mined: Sequence[MinedRule], truth: Truth, rows: int) -> dict[str, tuple[int, float | None]]:
    """Coverage and precision of each rule on fresh rows; empty if none can be drawn."""
    if truth.recipe is None or rows == 0:
        return {}
    generated = [rule.conditions for rule in lay_out(truth.recipe).rules]
    if generated != [rule.conditions for rule in truth.rules]:  # another version of the program wrote the truth
        return {}
    frame = draw(truth.recipe, rows, 1, only={name for rule in mined for name in rule.columns})
    precisions = {}
    for rule in mined:
        labels = frame[truth.target][match_frame(frame, rule.conditions)].to_numpy()
        precisions[rule.id] = len(labels), float(np.mean(labels == rule.label)) if len(labels) else None
    return precisions
