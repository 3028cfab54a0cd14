"""`RuleApplier`: which rules match each row, which of them decides, the predicted class and the reason. No I/O."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from maabo_dist.contract.result import ResultDocument
from maabo_dist.rules.deciding import NO_RULE, deciding_rules, decision_order
from maabo_dist.rules.frame_matching import FrameMatcher
from maabo_dist.rules.matching import Mask

# The columns of the outcome, in this order.
MATCHES, DECIDED_BY, PREDICTED, REASON = OUTCOME = ("matches", "decided_by", "predicted", "reason")


class RuleApplier:
    """Applies the rules of a document to the parts of a table, one after another."""

    def __init__(self, document: ResultDocument) -> None:
        self._rules = document.rules
        self._matcher = FrameMatcher([rule.premise for rule in document.rules])
        self._order = decision_order(document.rules, document.dataset.design_effect or 1.0)
        # Rows so far, those that some rule matches, and those that each rule matches.
        self.rows = self.matched = 0
        self.matches = np.zeros(len(document.rules), np.int64)

    @property
    def columns(self) -> list[str]:
        """The columns of the table that the rules look at."""
        return list(self._matcher.uses)

    def check(self, names: Sequence[str]) -> None:
        """Raise an error if the table, with columns of these names, lacks columns of the rules."""
        self._matcher.check(names)

    def apply(self, frame: pd.DataFrame) -> Any:
        """Return an Arrow table with the columns `OUTCOME`, a row for each row of the frame."""
        covered = self._matcher.match(frame)
        self.rows += len(frame)
        self.matched += int(covered.any(axis=0).sum())
        self.matches += covered.sum(axis=1)
        deciding = deciding_rules(covered, self._order)
        texts = [_pick([getattr(rule, name) for rule in self._rules], deciding) for name in ("id", "label", "text")]
        return pa.table([_matching_ids(covered, [rule.id for rule in self._rules]), *texts], names=list(OUTCOME))

    def finish(self) -> list[str]:
        """Raise an error if a column of the rules could not be read; return remarks for the user."""
        return self._matcher.finish()


def _pick(texts: Sequence[str], indices: npt.NDArray[np.int64]) -> Any:
    """The text of each index; null for NO_RULE."""
    return pa.array([*texts, None], pa.string()).take(pa.array(np.where(indices == NO_RULE, len(texts), indices)))


def _matching_ids(covered: Mask, ids: Sequence[str]) -> Any:
    """(rows): the ids of the rules that match each row. Few combinations occur, so each is made once."""
    if not len(ids):
        return pa.array([[]] * covered.shape[1], pa.list_(pa.string()))
    combinations, which = np.unique(np.packbits(covered, axis=0), axis=1, return_inverse=True)
    unpacked = np.unpackbits(combinations, axis=0, count=len(ids)).astype(bool)
    lists = [[ids[index] for index in np.flatnonzero(column).tolist()] for column in unpacked.T]
    return pa.array(lists, pa.list_(pa.string())).take(pa.array(which.ravel()))
