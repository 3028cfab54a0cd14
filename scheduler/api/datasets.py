"""`/v1/datasets`: tables that are sent or named, described, listed and forgotten."""

from functools import partial
from pathlib import Path as FilePath
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request, Response

from maabo_dist.cluster.store import ArtifactStore
from scheduler.api.auth import Caller, Reader, Submitter
from scheduler.api.models import Cursor, Dataset, DatasetDetails, Limit, Page, cursor_of, place_of
from scheduler.api.problems import NotFoundError, documented
from scheduler.api.state import ApiState, api_state
from scheduler.api.upload_formats import FORM, JSON, NAME, PARQUET_TYPE
from scheduler.api.uploads import NamedTable, Place, Received, Room, receive
from scheduler.ledger.datasets import DatasetRow

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

DatasetPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["0197c2e8a5b3f1d2c4e6a8b0"])]
Label = Annotated[str | None, Query(max_length=NAME, description="What people call the table.")]
_ONE = documented("invalid-document", "unauthorized", "forbidden", "not-found")
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"model": Dataset, "description": "The tenant has this very file already"},
    **documented(
        *("invalid-document", "invalid-settings", "invalid-dataset", "unauthorized", "forbidden", "not-found"),
        *("too-large", "unsupported-media", "quota-exceeded"),
    ),
}
_BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": _BINARY}, "required": ["file"], "additionalProperties": False}
_BODY = {
    "required": True,
    "content": {
        "text/csv": {"schema": _BINARY, "example": "age,smokes,ill\n61,yes,yes\n34,no,no\n"},
        PARQUET_TYPE: {"schema": _BINARY},
        FORM: {"schema": _FORM},
        JSON: {"schema": NamedTable.model_json_schema()},
    },
}


@router.post("", status_code=201, responses=_SENT, openapi_extra={"requestBody": _BODY})
async def create_dataset(request: Request, response: Response, caller: Submitter, name: Label = None) -> Dataset:
    """Store a table, if it can be read.

    It is the body itself (CSV or Parquet), the field `file` of a form, or, by its path in JSON, one in the operator's
    place.
    """
    api = api_state(request)
    room = await run_sync(_room, api, caller)
    with TemporaryDirectory(prefix="maabo-") as folder:
        received = await receive(request, FilePath(folder), room, Place(api.settings.tables_url), name)
        # Whoever waits for a reader here keeps no other request from its thread.
        keep = partial(_kept, api, caller, received)
        row, created = await run_sync(keep, limiter=api.tables.children.limiter)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/v1/datasets/{row.id}"
    return Dataset.of(row)


@router.get("", responses=documented("invalid-document", "invalid-settings", "unauthorized", "forbidden"))
def list_datasets(request: Request, caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> Page[Dataset]:
    """Tables, the oldest first."""
    place = place_of(cursor, str)
    after = None if place is None else str(place[0])
    rows = api_state(request).resources.ledger.datasets.page(caller.tenant, after=after, limit=limit + 1)
    shown = rows[:limit]
    last = cursor_of(shown[-1].id) if len(rows) > limit else None
    return Page[Dataset](items=[Dataset.of(row) for row in shown], next=last)


@router.get("/{dataset}", responses=_ONE)
def get_dataset(request: Request, dataset: DatasetPath, caller: Reader) -> DatasetDetails:
    """A table, and what its columns hold."""
    return DatasetDetails.of(_owned(api_state(request), caller, dataset))


@router.delete("/{dataset}", status_code=204, responses=_ONE)
def delete_dataset(request: Request, dataset: DatasetPath, caller: Submitter) -> None:
    """Forget a table. Jobs on it that were asked for before go on."""
    api = api_state(request)
    row = _owned(api, caller, dataset)
    if not api.resources.ledger.datasets.delete(caller.tenant, dataset):
        raise _unknown(dataset)
    _remove_unnamed(api, row.digest)


def _owned(api: ApiState, caller: Caller, dataset: str) -> DatasetRow:
    row = api.resources.ledger.datasets.get(caller.tenant, dataset)
    if row is None:
        raise _unknown(dataset)
    return row


def _unknown(dataset: str) -> NotFoundError:
    remedy = "GET /v1/datasets lists those there are."
    return NotFoundError(f"There is no table {dataset}.", field="dataset", remedy=remedy)


def _room(api: ApiState, caller: Caller) -> Room:
    ledger = api.resources.ledger
    quota = ledger.quotas.get(caller.tenant).bytes
    return Room(api.settings.upload_bytes, quota, 0 if quota is None else ledger.datasets.bytes_stored(caller.tenant))


def _kept(api: ApiState, caller: Caller, received: Received) -> tuple[DatasetRow, bool]:
    """The table's row, and whether it is new."""
    known = api.resources.ledger.datasets.find_by_digest(caller.tenant, received.digest)
    if known is not None:
        _put(api.resources.store, received)  # it may have been lost
        return known, False
    told = api.tables.children.run("describe", received.path, received.name)
    row = _row(received, caller.tenant, told, api.resources.clock())
    _put(api.resources.store, received)
    try:
        kept = api.resources.ledger.datasets.find_or_add(row)
    except BaseException:
        _remove_unnamed(api, received.digest)
        raise
    _put(api.resources.store, received)  # somebody may have deleted the same table between the two
    return kept, kept.id == row.id


def _row(received: Received, tenant: str, told: dict[str, Any], now: float) -> DatasetRow:
    return DatasetRow(
        id=f"{int(now * 1000):012x}{token_hex(6)}",  # in the order of their making
        tenant=tenant,
        name=received.name,
        digest=received.digest,
        format=received.format,
        size=received.size,
        rows=told["rows"],
        columns=told["columns"],
        description={"features": told["features"]},
        created=now,
    )


def _put(store: ArtifactStore, received: Received) -> None:
    store.put(f"tables/{received.digest}", received.path)


def _remove_unnamed(api: ApiState, digest: str) -> None:
    api.resources.ledger.datasets.remove_unused_file(digest, lambda: api.resources.store.delete(f"tables/{digest}"))
