"""Requests and responses that only the API needs, and pagination; the client shares those in `contract.api`."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from maabo_dist.contract.api import Dataset, Job
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.ledger.datasets import DatasetRow

MAX_PAGE = 200
Item = TypeVar("Item")

DatasetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items per page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]


class JobDetails(Job):
    """A job with its settings."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    # Number of leaves that remain after each selection step; null before the first selection of rules.
    funnel: dict[str, Any] | None = None


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next: str | None = None  # cursor of the next page; null on the last page


def progress_fields(record: JobRecord) -> dict[str, Any]:
    """Return the fields of `JobProgress`. The job is assumed to continue at its average speed so far."""
    progress = eta = None
    if record.state is JobState.DONE:
        progress = 1.0
    elif record.planned:
        progress = min(1.0, record.trees / record.planned)
        if record.state is JobState.RUNNING and record.trees:
            eta = max(0.0, record.seconds * (record.planned - record.trees) / record.trees)
    return record.model_dump() | {"progress": progress, "eta_seconds": eta}


def dataset_fields(row: DatasetRow) -> dict[str, Any]:
    """Return the fields of `Dataset`."""
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
