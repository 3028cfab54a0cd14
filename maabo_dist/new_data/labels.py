"""`ClassReader`: the classes of new rows, as the table had them that the rules were mined from."""

from collections import Counter

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_list, format_names, suggestion
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.cells import holds_numbers, levels
from maabo_dist.data.encoder import to_numbers
from maabo_dist.data.target import class_edges, count_below
from maabo_dist.errors import DatasetError, SettingsError

# In place of the index of a class: the row has none.
NO_CLASS = -1


def target_column(document: ResultDocument, requested: str | None) -> str:
    """Return the column that holds the classes: the requested one, or that of the document."""
    if requested is not None:
        return requested
    mined = (document.dataset.settings or {}).get("target")
    if mined is None:
        raise SettingsError("The document does not name the target column. Name it with --target.", field="target")
    return str(mined)


class ClassReader:
    """Reads the classes of a table in parts. A number is cut where the mined one was."""

    def __init__(self, document: ResultDocument, target: str) -> None:
        self.target, self._classes = target, document.dataset.classes
        self._edges = class_edges(self._classes)
        self._unknown: Counter[str] = Counter()

    def check(self, names: list[str]) -> None:
        """Raise an error if the table, with columns of these names, lacks the target."""
        if self.target not in names:
            raise DatasetError(
                f"The table has no target column {self.target!r}. {suggestion(self.target, names)} "
                "Name the column that holds the classes with --target.",
                field="target",
            )

    def read(self, cells: pd.Series) -> npt.NDArray[np.int64]:
        """(rows): the index of each row's class; NO_CLASS if the cell is missing."""
        if self._edges is not None and holds_numbers(cells, remedy="Name another --target."):
            numbers = to_numbers(cells)
            below: npt.NDArray[np.int64] = count_below(self._edges, numbers).astype(np.int64)
            return np.where(np.isnan(numbers), NO_CLASS, below)
        coded = levels(cells)
        known = [self._classes.index(text) if text in self._classes else len(self._classes) for text in coded.texts]
        codes = np.array([*known, NO_CLASS], np.int64)[coded.codes]
        for code, text in zip(known, coded.texts, strict=True):
            if code == len(self._classes):
                self._unknown[text] += int(np.count_nonzero(coded.codes == coded.texts.index(text)))
        return codes

    def finish(self) -> None:
        """Raise an error if rows have classes that the document does not know."""
        if not self._unknown:
            return
        unknown = [f"{text!r} ({format_count(rows, 'row')})" for text, rows in self._unknown.most_common()]
        raise DatasetError(
            f"Column {self.target!r} holds classes that the rules do not know: {format_list(unknown)}. They know "
            f"{format_names(self._classes)}. Write the classes as in the table that was mined, leave out rows of other "
            "classes, or name another --target.",
            field="target",
        )
