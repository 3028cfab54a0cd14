"""Jobs as other services ask for them and read them."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict
from typing import Annotated, Any, Generic, Self, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import AnyCallback, JobState, Priority
from maabo_dist.contract.record import JobRecord
from maabo_dist.data.columns import ColumnKind
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.tree_reader import GrownTree
from scheduler.ledger.datasets import DatasetRow

DatasetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

JOB_EXAMPLE: dict[str, Any] = {
    "dataset": "d41f0c9be4a1",
    "table": {"target": "survived", "exclude": ["name", "ticket"]},
    "settings": {"seed": 5, "trees": 200, "holdout": 0.2},
}


class JobRequest(BaseModel):
    """A job that is asked for: the same words as the options of `maabo mine`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId
    """Of a table that was uploaded."""
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()
    priority: Priority = Priority.NORMAL
    callback: AnyCallback | None = None
    fresh: bool = False
    """Mine anew, even where the same was mined before."""


class JobProgress(BaseModel):
    """How far a job is, as its events tell it. Times are seconds since the epoch."""

    id: str
    state: JobState
    name: str
    priority: Priority
    created: float
    started: float | None
    finished: float | None
    seconds: float
    """How long it has been running, pauses left out."""
    progress: float | None
    """From 0 to 1."""
    eta_seconds: float | None
    pairs_screened: int | None
    pairs: int | None
    trees: int
    planned: int | None
    failed: int
    best_score: float | None
    rules: int | None
    digest: str | None
    reason: str | None

    @classmethod
    def of(cls, record: JobRecord, **more: Any) -> Self:
        """From a record, and what only the ledger knows."""
        told = record.model_dump(exclude={"tenant"})
        return cls(**told, **more, progress=_progress(record), eta_seconds=_eta(record))


class Job(JobProgress):
    """Where a job stands."""

    tenant: str
    wanted: str
    """What its owner asked for last: run, pause or cancel."""
    dataset: str | None


class JobDetails(Job):
    """All that can be said of a job."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    funnel: dict[str, Any] | None = None
    """How many leaves there were, and how many of them each of the conditions left; None before anyone has looked."""


def _progress(record: JobRecord) -> float | None:
    if record.state is JobState.DONE:
        return 1.0
    return min(1.0, record.trees / record.planned) if record.planned else None


def _eta(record: JobRecord) -> float | None:
    """As if it went on as fast as so far."""
    if record.state is not JobState.RUNNING or not record.planned or not record.trees:
        return None
    return max(0.0, record.seconds * (record.planned - record.trees) / record.trees)


class Dataset(BaseModel):
    """A table that is stored."""

    id: str
    name: str
    format: str
    """csv or parquet."""
    size: int
    """Bytes of the file."""
    rows: int
    columns: int
    fingerprint: str
    """SHA-256 of the file."""
    created: float
    """Seconds since the epoch."""

    @classmethod
    def of(cls, row: DatasetRow) -> Self:
        """From the ledger's row."""
        return cls(**_told(row))


class Column(BaseModel):
    """What one column holds."""

    name: str
    kind: ColumnKind
    """`number`; `pair`, two texts and nothing missing; `level`, texts; `other`, what cannot be mined."""
    missing: int
    """Cells."""
    distinct: int | None
    """Values that are not missing; null where they cannot be compared."""
    levels: list[str] | None
    """The first 50 texts, each cut after 100 characters; fewer in a table with very many. Null for numbers."""
    smallest: float | None
    largest: float | None


class DatasetDetails(Dataset):
    """A table, and what its columns hold."""

    features: list[Column]
    """In the table's order."""

    @classmethod
    def of(cls, row: DatasetRow) -> Self:
        """From the ledger's row."""
        return cls(**_told(row), features=row.description.get("features", []))


def _told(row: DatasetRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "format": row.format,
        "size": row.size,
        "rows": row.rows,
        "columns": row.columns,
        "fingerprint": row.digest,
        "created": row.created,
    }


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


MOST = 200
Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=MOST, description="Items on a page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]


class Page(BaseModel, Generic[Item]):
    """Some items of a list."""

    items: list[Item]
    next: str | None = None
    """The cursor of the next page; none on the last."""


def cursor_of(*place: float | str) -> str:
    """A cursor after this place."""
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(cursor: str | None, *kinds: type) -> tuple[float | str, ...] | None:
    """What a cursor stands for, if it is one of ours."""
    if cursor is None:
        return None
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise SettingsError(
            f"cursor: {cursor[:50]!r} is none that a page gave.", field="cursor", remedy="Give `next` of a page."
        )
    return tuple(found)
