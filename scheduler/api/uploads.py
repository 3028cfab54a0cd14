"""`receive`: the table of a request, in a file: from the body, from a form in it, or from the operator's place."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from anyio.to_thread import run_sync
from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect

from maabo_dist.contract.problem import DocumentError, invalid_document
from scheduler.api.forms import FileForm
from scheduler.api.incoming import Incoming, Room, TooLargeError
from scheduler.api.media import FORM, JSON, NAME, base_name, check_encoding, format_of, label, media_of
from scheduler.api.places import PATH_PATTERN, Place, checked_path

DOCUMENT_BYTES = 1 << 16
"""Of a JSON body, and of what a form has around its file."""


class NamedTable(BaseModel):
    """A table in the operator's place."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"path": "sales/2024.parquet", "name": "Sales of 2024"}]},
    )

    path: Annotated[str, Field(max_length=1000, pattern=PATH_PATTERN), AfterValidator(checked_path)]
    """Below that place."""
    name: Annotated[str, Field(max_length=NAME)] | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A table that is here, and nothing known of it yet."""

    path: Path
    name: str
    format: str
    digest: str
    size: int


async def receive(request: Request, folder: Path, room: Room, place: Place, name: str | None) -> Received:
    """Take the table in; whatever is wrong with it is met as early as it can be."""
    check_encoding(request.headers.get("content-encoding"))
    incoming = Incoming(folder / uuid4().hex, room)
    try:
        said, kind = await _taken(request, incoming, place, name)
        path, digest = await run_sync(incoming.finish, kind)
    except ClientDisconnect:
        raise DocumentError("The connection ended before the table did.") from None
    finally:
        incoming.close()
    return Received(path, label(said, kind), kind, digest, incoming.size)


async def _taken(request: Request, incoming: Incoming, place: Place, name: str | None) -> tuple[str, str]:
    """What the table is called, and its format."""
    content_type = request.headers.get("content-type", "")
    match media_of(content_type):
        case media if media == FORM:
            return await _from_form(request, FileForm(content_type), incoming, name)
        case media if media == JSON:
            return await _from_place(await _document(request), incoming, place, name)
        case _:
            kind = format_of(content_type, name or "")
            await _from_body(request, incoming)
            return name or "", kind


async def _from_body(request: Request, incoming: Incoming) -> None:
    incoming.room.check(_announced(request))
    async for data in request.stream():
        if incoming.add(data):
            await run_sync(incoming.flush)


async def _from_form(request: Request, form: FileForm, incoming: Incoming, name: str | None) -> tuple[str, str]:
    incoming.room.check(_announced(request) - DOCUMENT_BYTES)
    kind = ""
    async for data in _at_most(request, incoming.room.most + DOCUMENT_BYTES):
        content = form.feed(data)
        if form.started:
            kind = kind or format_of(form.content_type, form.file_name)
        if incoming.add(content):
            await run_sync(incoming.flush)
    form.close()
    return name or base_name(form.file_name), kind


async def _from_place(named: NamedTable, incoming: Incoming, place: Place, name: str | None) -> tuple[str, str]:
    await run_sync(place.fetch, named.path, incoming)
    return named.name or name or base_name(named.path), format_of("", named.path)


async def _document(request: Request) -> NamedTable:
    body = b"".join([data async for data in _at_most(request, DOCUMENT_BYTES)])
    try:
        return NamedTable.model_validate_json(body)
    except ValidationError as error:
        raise invalid_document(error) from None


async def _at_most(request: Request, most: int) -> AsyncIterator[bytes]:
    size = 0
    async for data in request.stream():
        size += len(data)
        if size > most:
            raise TooLargeError(f"The body is larger than {most:,} bytes.", remedy="Send the table as the body itself.")
        yield data


def _announced(request: Request) -> int:
    """The length that the sender states; 0 if it states none."""
    stated = request.headers.get("content-length", "")
    return int(stated) if stated.isdecimal() and len(stated) < 20 else 0
