"""`/v1/datasets`: upload, describe, list and delete tables."""

from pathlib import Path as FilePath
from secrets import token_hex
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Path, Query, Request, Response
from pydantic import Field

from maabo_dist.contract.api import DIRECTORY, Dataset, DatasetDetails, Page
from scheduler.api.dependencies import ApiState, Caller, Cursor, Limit, Reader, Submitter, cut_page, decode_cursor
from scheduler.api.problems import NotFoundError, documented
from scheduler.api.received import ReceivedDirectory
from scheduler.api.routing import Router, run_while_connected
from scheduler.api.uploads import (
    EXCEL_TYPE,
    FORM,
    JSON,
    MAX_NAME,
    PARQUET_TYPE,
    ReceivedTable,
    SizeLimit,
    TableReference,
    receive,
)
from scheduler.ledger.tenants import DatasetRow

router = Router(prefix="/v1/datasets", tags=["datasets"])

DatasetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
DatasetPath = Annotated[DatasetId, Path(examples=["0197c2e8a5b3f1d2c4e6a8b0"])]
Label = Annotated[str | None, Query(max_length=MAX_NAME, description="Display name of the table.")]
_ONE = documented("not-found")
_UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Dataset, "description": "The tenant already has this file"},
    **documented(
        "invalid-settings", "invalid-dataset", "not-found", "too-large", "unsupported-media", "quota-exceeded"
    ),
}
_BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": _BINARY}, "required": ["file"], "additionalProperties": False}
_BODY = {
    "required": True,
    "content": {
        "text/csv": {"schema": _BINARY, "example": "age,smokes,ill\n61,yes,yes\n34,no,no\n"},
        "text/tab-separated-values": {"schema": _BINARY},
        EXCEL_TYPE: {"schema": _BINARY},
        PARQUET_TYPE: {"schema": _BINARY},
        FORM: {"schema": _FORM},
        JSON: {"schema": TableReference.model_json_schema()},
    },
}


@router.post("", status_code=201, responses=_UPLOAD, openapi_extra={"requestBody": _BODY})
async def create_dataset(request: Request, response: Response, caller: Submitter, name: Label = None) -> Dataset:
    """Store a table, if it can be read.

    The request contains the table itself (CSV, TSV, Excel or Parquet), a form with the table in the field `file`, or
    JSON with the path of a table in the server's table directory: of a file, or of a directory of Parquet or CSV files.
    Directories with more rows than are searched by default stay there, and workers read them.
    """
    api = caller.api
    limit = await run_sync(_size_limit, caller)
    with api.tables.scratch.new_folder() as folder:
        table = await receive(request, FilePath(folder), limit, api.settings.tables_url, name)
        if isinstance(table, ReceivedDirectory):
            row, created = await run_sync(_store_directory, caller, table)
        else:
            row, created = await run_while_connected(request, _store(caller, table))
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/v1/datasets/{row.id}"
    return Dataset(**_dataset_fields(row))


@router.get("", responses=documented("invalid-settings"))
def list_datasets(caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> Page[Dataset]:
    """List tables, oldest first."""
    position = decode_cursor(cursor, str)
    after = None if position is None else position[0]
    rows = caller.api.ledger.datasets.page(caller.tenant, after=after, limit=limit + 1)
    page, following = cut_page(rows, limit, lambda row: (row.id,))
    return Page[Dataset](items=[Dataset(**_dataset_fields(row)) for row in page], next=following)


@router.get("/{dataset}", responses=_ONE)
def get_dataset(dataset: DatasetPath, caller: Reader) -> DatasetDetails:
    """Return a table with a summary of its columns, its first rows, and a guess of the column to explain."""
    row = find_dataset(caller, dataset)
    return DatasetDetails(**_dataset_fields(row), **({"features": []} | row.description))


@router.delete("/{dataset}", status_code=204, responses=_ONE)
def delete_dataset(dataset: DatasetPath, caller: Submitter) -> None:
    """Delete a table and everything that was prepared from it. Jobs that use it are not affected."""
    row, api = find_dataset(caller, dataset), caller.api
    prepared = api.ledger.datasets.columns_of(dataset)
    if not api.ledger.datasets.delete(caller.tenant, dataset):
        raise unknown_dataset(dataset)
    caller.record("dataset.delete", dataset)
    _remove_unused(api, row.digest)
    for fingerprint in prepared:
        _remove_unused_columns(api, fingerprint)


def _dataset_fields(row: DatasetRow) -> dict[str, Any]:
    """Return the fields of `Dataset`."""
    fields = {name: getattr(row, name) for name in Dataset.model_fields if name != "fingerprint"}
    return fields | {"fingerprint": row.digest}


def find_dataset(caller: Caller, dataset: str) -> DatasetRow:
    """Return a table of the caller's tenant. Tables of other tenants look as if they did not exist."""
    row = caller.api.ledger.datasets.get(caller.tenant, dataset)
    if row is None:
        raise unknown_dataset(dataset)
    return row


def unknown_dataset(dataset: str) -> NotFoundError:
    """Return the error about a table that does not exist, or belongs to another tenant."""
    remedy = "GET /v1/datasets lists all tables; POST /v1/datasets uploads one."
    return NotFoundError(f"There is no table {dataset}.", field="dataset", remedy=remedy)


def _size_limit(caller: Caller) -> SizeLimit:
    quota = caller.api.ledger.quotas.get(caller.tenant).bytes
    stored = 0 if quota is None else caller.api.ledger.datasets.bytes_stored(caller.tenant)
    return SizeLimit(caller.api.settings.upload_bytes, quota, stored)


async def _store(caller: Caller, table: ReceivedTable) -> tuple[DatasetRow, bool]:
    """Store a table; return its row, and True if it is new."""
    reader = caller.api.tables.reader
    async with reader.slot(caller.tenant):
        existing = await run_sync(_find_existing, caller, table, limiter=reader.threads)
        if existing is not None:
            return existing, False
        description = await reader.run("describe", table.path, table.name)
        return await run_sync(_store_new, caller, table, description, limiter=reader.threads)


def _find_existing(caller: Caller, table: ReceivedTable) -> DatasetRow | None:
    existing = caller.api.ledger.datasets.find_by_digest(caller.tenant, table.digest)
    if existing is not None:
        _put(caller.api, table)  # in case the store has lost it
    return existing


def _store_new(caller: Caller, table: ReceivedTable, description: dict[str, Any]) -> tuple[DatasetRow, bool]:
    api, now = caller.api, caller.api.resources.clock()
    row = DatasetRow(
        id=f"{int(now * 1000):012x}{token_hex(6)}",  # sorts by creation time
        tenant=caller.tenant,
        name=table.name,
        digest=table.digest,
        format=table.format,
        size=table.size,
        rows=description["rows"],
        columns=description["columns"],
        description={name: description[name] for name in ("features", "sample", "target", "notes")},
        created=now,
    )
    _put(api, table)
    try:
        stored = api.ledger.datasets.find_or_add(row)
    except BaseException:
        _remove_unused(api, table.digest)
        raise
    if stored.id == row.id:
        caller.record("dataset.create", row.id)
    _put(api, table)  # in case another request deleted the same table in between
    return stored, stored.id == row.id


def _store_directory(caller: Caller, table: ReceivedDirectory) -> tuple[DatasetRow, bool]:
    """Store what is known about a directory; return its row, and True if it is new."""
    datasets, now = caller.api.ledger.datasets, caller.api.resources.clock()
    row = DatasetRow(
        id=f"{int(now * 1000):012x}{token_hex(6)}",
        tenant=caller.tenant,
        name=table.name,
        digest=table.digest,
        format=DIRECTORY,
        size=table.size,
        rows=table.rows,
        columns=table.columns,
        description=table.description,
        created=now,
    )
    stored = datasets.find_or_add(row)
    if stored.id == row.id:
        caller.record("dataset.create", row.id)
    return stored, stored.id == row.id


def _put(api: ApiState, table: ReceivedTable) -> None:
    api.resources.store.put(f"tables/{table.digest}", table.path)


def _remove_unused_columns(api: ApiState, fingerprint: str) -> None:
    """Delete columns unless another dataset or a running job refers to them."""
    store = api.resources.store
    api.ledger.datasets.remove_unused_columns(fingerprint, lambda: store.delete(f"columns/{fingerprint}"))


def _remove_unused(api: ApiState, digest: str) -> None:
    """Delete the file unless another dataset refers to it."""
    api.ledger.datasets.remove_unused_file(digest, lambda: api.resources.store.delete(f"tables/{digest}"))
