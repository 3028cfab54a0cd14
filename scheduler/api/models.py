"""Requests and responses that only the API needs, and pagination; the client shares those in `contract.api`."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.api import Dataset, DatasetDetails, Job, JobProgress
from maabo_dist.contract.job import AnyCallback, JobState, Priority
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.ledger.datasets import DatasetRow

MAX_ROWS = 1000
MAX_PAGE = 200
Item = TypeVar("Item")

DatasetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Cell = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items per page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]

JOB_EXAMPLE: dict[str, Any] = {
    "dataset": "d41f0c9be4a1",
    "table": {"target": "survived", "exclude": ["name", "ticket"]},
    "settings": {"seed": 5, "trees": 200, "holdout": 0.2},
}


class PlanRequest(BaseModel):
    """A table and settings. Names are those of the options of `maabo mine`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId  # ID of an uploaded table
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()


class JobRequest(PlanRequest):
    """A job to queue."""

    priority: Priority = Priority.NORMAL
    callback: AnyCallback | None = None
    fresh: bool = False  # run the job even if an identical one has run before


class JobDetails(Job):
    """A job with its settings."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    # Number of leaves that remain after each selection step; null before the first selection of rules.
    funnel: dict[str, Any] | None = None


class RowsToExplain(BaseModel):
    """Rows with the columns of the table; null for a missing cell."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"rows": [{"sex": "female", "fare": 71.3, "age": None}]}]}
    )

    rows: Annotated[list[dict[str, Cell]], Field(min_length=1, max_length=MAX_ROWS)]


class ScoreHistory(BaseModel):
    """Scores of trees in the order of the search."""

    trees: int  # number of trees so far
    numbers: list[int]  # indexes of the trees shown, in increasing order, without failed ones
    scores: list[float]  # their macro F1 on the validation rows


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next: str | None = None  # cursor of the next page; null on the last page


def job_progress(record: JobRecord) -> JobProgress:
    """Return the record with its progress and remaining time."""
    return JobProgress(**_progress_fields(record))


def job_status(record: JobRecord, *, wanted: str, dataset: str | None) -> Job:
    """Return the record with its progress and what only the ledger knows."""
    return Job(**_progress_fields(record), wanted=wanted, dataset=dataset)


def _progress_fields(record: JobRecord) -> dict[str, Any]:
    return record.model_dump() | {"progress": _progress(record), "eta_seconds": _eta(record)}


def _progress(record: JobRecord) -> float | None:
    if record.state is JobState.DONE:
        return 1.0
    return min(1.0, record.trees / record.planned) if record.planned else None


def _eta(record: JobRecord) -> float | None:
    """Assume that the job continues at its average speed so far."""
    if record.state is not JobState.RUNNING or not record.planned or not record.trees:
        return None
    return max(0.0, record.seconds * (record.planned - record.trees) / record.trees)


def dataset_summary(row: DatasetRow) -> Dataset:
    """Return a stored table without its columns."""
    return Dataset(**_dataset_fields(row))


def dataset_details(row: DatasetRow) -> DatasetDetails:
    """Return a stored table with a summary of its columns."""
    return DatasetDetails(**_dataset_fields(row), features=row.description.get("features", []))


def _dataset_fields(row: DatasetRow) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in Dataset.model_fields if name != "fingerprint"}
    return fields | {"fingerprint": row.digest}


def cut_page(
    items: Sequence[Item], limit: int, position: Callable[[Item], tuple[float | str, ...]]
) -> tuple[list[Item], str | None]:
    """Return the first items, up to the limit, and a cursor if there are more.

    A cursor contains the position of the last item: its sort key, which stays valid when items are added.
    """
    page = list(items[:limit])
    if len(items) <= limit:
        return page, None
    return page, urlsafe_b64encode(json.dumps(position(page[-1])).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *types: type) -> tuple[Any, ...] | None:
    """Return the position of a cursor; its values must have these types."""
    if cursor is None:
        return None
    try:
        position = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        position = None
    if not isinstance(position, list) or [type(part) for part in position] != list(types):
        raise SettingsError(
            f"cursor: {cursor[:50]!r} is not a valid cursor.", field="cursor", remedy="Give `next` of a page."
        )
    return tuple(position)
