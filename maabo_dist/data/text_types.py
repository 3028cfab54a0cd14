"""The types of columns of delimited text, found from cells that come in parts, and cells converted to them.

A column has the first of `int64`, `bool` and `float64` that all of its cells have; numbers with decimal commas, where
commas do not separate cells; or text. That is what Arrow finds in a whole file, in whatever order the parts come.
"""

from typing import Any

import pyarrow as pa
from pyarrow import compute

from maabo_dist.data.text_files import DECIMAL_COMMA, parse_decimal_commas

TRUE_TEXTS, FALSE_TEXTS = ("1", "True", "TRUE", "true"), ("0", "False", "FALSE", "false")
DECIMAL_COMMAS = "decimal commas"
TEXT = "text"
_BLANKS = " \t"


class TypeCandidates:
    """The types that all cells of a column so far can have."""

    def __init__(self, *, decimal_commas: bool) -> None:
        self._numeric = ["int64", "bool", "float64"]
        self._commas, self._has_comma = decimal_commas, False

    @property
    def best(self) -> str:
        """int64, bool, float64, `DECIMAL_COMMAS` or `TEXT`."""
        if self._numeric:
            return self._numeric[0]
        return DECIMAL_COMMAS if self._commas and self._has_comma else TEXT

    def narrow(self, cells: Any) -> None:
        """Take more cells into account, as text."""
        if self._commas:
            texts = cells.drop_null()
            self._commas = (
                compute.all(compute.match_substring_regex(texts, f"^(?:{DECIMAL_COMMA})$")).as_py() is not False
            )
            self._has_comma |= compute.any(compute.match_substring(texts, ",")).as_py() is True
        self._numeric = [kind for kind in self._numeric if _is_convertible(cells, kind)]


def _is_convertible(cells: Any, kind: str) -> bool:
    try:
        convert_texts(cells, kind)
    except pa.ArrowInvalid:
        return False
    return True


def convert_texts(cells: Any, kind: str) -> Any:
    """Convert texts to a type; an ArrowInvalid error if one of them does not have it."""
    if kind == TEXT:
        return cells
    if kind == DECIMAL_COMMAS:
        texts = cells.to_pandas()
        return pa.array(parse_decimal_commas(texts.dropna().astype(str)).reindex(texts.index), from_pandas=True)
    trimmed = compute.ascii_trim(cells, characters=_BLANKS)
    if kind != "bool":
        return compute.cast(trimmed, pa.type_for_alias(kind))
    is_true, is_false = (compute.is_in(trimmed, pa.array(texts)) for texts in (TRUE_TEXTS, FALSE_TEXTS))
    if compute.any(compute.invert(compute.or_(compute.or_(is_true, is_false), cells.is_null()))).as_py():
        raise pa.ArrowInvalid("not all cells are booleans")
    return compute.if_else(cells.is_null(), pa.scalar(None, pa.bool_()), is_true)
