"""`Truth`: the rules planted in a table. It is a JSON file next to the table, which the scorer reads.

A truth can be written by hand for a table from elsewhere; it then has no recipe, and no fresh rows can be drawn.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.cells import levels
from maabo_dist.errors import FormatError
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.rules.matching import Mask, condition_holds

FORMAT: Final = "maabo-truth/1"

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

_VALUES = {Op.AT_MOST: float, Op.ABOVE: float, Op.IS: str, Op.IS_NOT: str, Op.IS_MISSING: None, Op.IS_PRESENT: None}


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True)


class PlantedRule(_Document):
    """A rule planted in the table, with its coverage and precision there."""

    id: Name  # P1, P2, …: where two rules cover a row, the earlier decided its class
    structure: Name  # `conjunction 1`, `xor 1`, `parity 1`, …
    conditions: tuple[Condition, ...] = Field(min_length=1)  # a row does not satisfy a condition on a missing cell
    label: str = Field(alias="class")
    n: Count  # the number of rows that it covers
    coverage: Share  # the share of the rows that it covers
    precision: Share | None  # the share of these rows that have its class; None if it covers none

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        for condition in self.conditions:
            kind = _VALUES[condition.op]
            if condition.value is not None if kind is None else not isinstance(condition.value, kind):
                raise ValueError(f"{self.id}: {condition.op.value!r} does not fit {condition.value!r}")
        return self


class Truth(_Document):
    """The planted rules and the columns in their conditions."""

    format: Literal["maabo-truth/1"] = FORMAT
    target: Name
    classes: tuple[str, ...] = Field(min_length=2)
    rows: Annotated[int, Field(ge=1)]
    rules: tuple[PlantedRule, ...]
    informative: tuple[Name, ...]  # the columns of the rules
    decoys: dict[str, str] = {}  # columns that imitate an informative one, and which
    recipe: Recipe | None = None

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        repeated = [name for name, uses in Counter(rule.id for rule in self.rules).items() if uses > 1]
        if repeated:
            raise ValueError(f"two rules have the id {repeated[0]}")
        for rule in self.rules:
            if rule.label not in self.classes:
                raise ValueError(f"{rule.id} is of class {rule.label!r}, which is not one of the classes")
        used = {condition.feature for rule in self.rules for condition in rule.conditions}
        unknown = sorted((used | set(self.decoys.values())) - set(self.informative))
        if unknown or set(self.decoys) & set(self.informative):
            raise ValueError(f"informative does not fit the rules and decoys: {(unknown or sorted(self.decoys))[0]}")
        return self

    def to_json(self) -> dict[str, Any]:
        """The truth as plain values."""
        return self.model_dump(mode="json", by_alias=True)

    def dump(self) -> str:
        """The truth as JSON text."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: object, *, source: str = "The truth") -> Self:
        """Check and read the output of `to_json`; `source` names it in messages."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            actual = data.get("format") if isinstance(data, dict) else None
            raise FormatError(f"{source} is not the truth of a table: its format is {actual!r}, not {FORMAT!r}.")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"]) or "content"
            message = str(problem["msg"]).removeprefix("Value error, ")
            raise FormatError(f"{source} is damaged: {where}: {message}. Generate the table again.") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check a file."""
        try:
            data = json.loads(path.read_bytes())
        except OSError as error:
            raise FormatError(f"{path} cannot be read ({error.strerror}). Check the path.") from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is not valid JSON: {error}. It is damaged or another kind of file.") from error
        return cls.from_json(data, source=str(path))


def match_frame(frame: pd.DataFrame, conditions: Iterable[Condition]) -> Mask:
    """(rows): True where all conditions hold."""
    mask = np.ones(len(frame), np.bool_)
    for condition in conditions:
        mask &= _holds(frame[condition.feature], condition)
    return mask


def _holds(cells: pd.Series, condition: Condition) -> Mask:
    def numbers() -> npt.NDArray[np.float64]:
        return cells.to_numpy(dtype=np.float64, na_value=np.nan)

    def level_texts() -> npt.NDArray[np.object_]:
        coded = levels(cells)
        return np.array([*coded.texts, None], object)[coded.codes]

    return condition_holds(condition, cells.isna().to_numpy(), numbers, level_texts)
