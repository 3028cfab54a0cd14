"""Which rows which rules cover, and how similar rules are by that and by their conditions."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.rules.matching import covered_rows, logic_arrays
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import Similarity, by_logic, by_rows

MOST_ROWS = 5_000
PARTS = ("train", "validation", "holdout")

_SAMPLE = 200
"""What the draw of rows is for; the search and the probes number their own purposes below this."""


class Covering:
    """The rows of a table, part by part, and for each rule whether it covers them."""

    def __init__(self, columns: Columns, split: Split, covered: npt.NDArray[np.bool_]) -> None:
        self._classes, self._train = len(columns.classes), len(split.train)
        rows = _rows(split)
        self._labels = columns.labels[rows].astype(np.int64)
        self._part = np.repeat(np.arange(len(PARTS)), [len(getattr(split, part)) for part in PARTS])
        self._covered = covered

    @classmethod
    def of(cls, columns: Columns, split: Split, rules: Sequence[Rule]) -> "Covering":
        """Of the rules' conditions on all rows."""
        return cls(columns, split, covered_rows(columns, _rows(split), *logic_arrays(rules)))

    def similarity(self, rules: Sequence[Rule]) -> dict[str, str]:
        """Simpson coefficients in percent, rounded, rule by rule: `logic` and `rows` (of training), base64 bytes."""
        return {
            "logic": _square(by_logic(logic_arrays(rules)[0]), len(rules)),
            "rows": _square(by_rows(self._covered[:, : self._train]), len(rules)),
        }

    def sampled(self, seed: int) -> dict[str, Any]:
        """The rows in groups by part and class, at most `MOST_ROWS` of them drawn, and the bits of each rule.

        Within a group, rows that the same rules cover stand together. `bits` has a row of bytes for each rule, first
        row first, the highest bit of a byte first; `covered` counts all rows of a group that any rule covers.
        """
        key = self._part * self._classes + self._labels
        shown = self._drawn(key, seed)
        order = np.lexsort([*~self._covered[::-1, shown], key[shown]]) if len(shown) else shown
        shown = shown[order]
        covered: npt.NDArray[np.bool_] = np.any(self._covered, axis=0)
        groups = [
            {
                "part": PARTS[number // self._classes],
                "class": int(number % self._classes),
                "rows": int((key == number).sum()),
                "covered": int(covered[key == number].sum()),
                "shown": int((key[shown] == number).sum()),
            }
            for number in np.unique(key)
        ]
        bits = np.packbits(self._covered[:, shown], axis=1)
        return {"rows": len(key), "shown": len(shown), "groups": groups, "bits": _text(bits)}

    def _drawn(self, key: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
        """Places of the rows shown: of each group its share, and at least one."""
        if len(key) <= MOST_ROWS:
            return np.arange(len(key))
        chance = draws.keys(draws.stream(seed, 0, _SAMPLE), len(key))
        order = np.lexsort((chance, key))
        sizes = np.unique(key, return_counts=True)[1]
        # Room for one row of each group is set aside, so that rounding up never shows more than the most.
        wanted = np.maximum(1, (sizes * ((MOST_ROWS - len(sizes)) / len(key))).astype(np.int64))
        starts = np.cumsum(sizes) - sizes
        taken = [order[start : start + count] for start, count in zip(starts, wanted, strict=True)]
        return np.sort(np.concatenate(taken))


def _rows(split: Split) -> npt.NDArray[np.int64]:
    return np.concatenate([getattr(split, part) for part in PARTS])


def _square(similarity: Similarity, count: int) -> str:
    everyone = np.arange(count)
    values = [similarity(place, everyone) for place in range(count)]
    return _text(np.rint(100 * np.array(values)).astype(np.uint8))


def _text(array: npt.NDArray[np.uint8]) -> str:
    return b64encode(array.tobytes()).decode()
