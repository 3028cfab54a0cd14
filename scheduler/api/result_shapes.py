"""What a job found, as other services ask for it and read it."""

from dataclasses import asdict
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.grown import GrownTree

MOST_ROWS = 1000

Cell = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None


class RowsToExplain(BaseModel):
    """Rows of the table, or others with its columns; null where a cell is missing."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"rows": [{"sex": "female", "fare": 71.3, "age": None}]}]}
    )

    rows: Annotated[list[dict[str, Cell]], Field(min_length=1, max_length=MOST_ROWS)]


class FiredRule(BaseModel):
    """A rule that fires for some row."""

    text: str
    predicts: str
    """Its class."""
    n: int
    gini: float


class ExplainedRow(BaseModel):
    """What rules say of a row."""

    rules: list[str]
    """Ids of those that fire, in the order of the document."""
    predicts: str | None
    """The class that these speak for, as `RuleMiner.predict` has it; null where none fires."""


class Explanation(BaseModel):
    """What rules say of rows."""

    partial: bool
    digest: str
    rules: dict[str, FiredRule]
    """Those that fire for some row, by their ids."""
    rows: list[ExplainedRow]


class Tree(BaseModel):
    """A tree that was grown."""

    number: int
    """In the order of the search, from 0; rules name it in `source.tree`."""
    features: list[str]
    depth: int | None
    """Null, like `score`, if the tree could not be had."""
    score: float | None
    """Macro F1 on the validation rows."""
    leaves: int

    @classmethod
    def of(cls, tree: GrownTree) -> "Tree":
        """From what was read."""
        return cls(**asdict(tree))


class Course(BaseModel):
    """How a search went."""

    trees: int
    """Grown so far."""
    numbers: list[int]
    """Of the trees that are told of, rising; those that could not be had are left out."""
    scores: list[float]
    """Of these."""

    @classmethod
    def of(cls, trees: int, found: list[GrownTree]) -> "Course":
        """From trees in the order of the search."""
        had = [(tree.number, tree.score) for tree in found if tree.score is not None]
        return cls(trees=trees, numbers=[number for number, _ in had], scores=[score for _, score in had])
