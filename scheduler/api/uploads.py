"""`Incoming`: a table on its way into a private file, counted and hashed as it comes, and refused when too large."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from uuid import uuid4

import fsspec
from anyio.to_thread import run_sync
from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect

from maabo_dist.contract.problem import DocumentError, invalid_document
from maabo_dist.errors import InputError, SettingsError
from scheduler.api.problems import NotFoundError, UnavailableError
from scheduler.api.upload_formats import (
    FORM,
    JSON,
    NAME,
    FileForm,
    base_name,
    check_encoding,
    format_of,
    format_of_name,
    label,
    media_of,
)
from scheduler.ledger.quotas import QuotaError

CHUNK_BYTES = 1 << 20


class TooLargeError(InputError):
    """More was sent than is accepted."""

    kind = "too-large"


@dataclass(frozen=True, slots=True)
class Room:
    """How much may come."""

    most: int
    quota: int | None
    """Of the tenant; None for no limit."""
    stored: int
    """What the tenant has already."""

    def check(self, size: int) -> None:
        """Refuse a table of this size."""
        if size > self.most:
            raise TooLargeError(
                f"The table has {size:,} bytes or more; this server takes up to {self.most:,}.",
                remedy="Leave out columns or rows, or send Parquet, which is smaller than CSV.",
            )
        if self.quota is not None and self.stored + size > self.quota:
            raise QuotaError("bytes", self.quota, self.stored + size)


class Incoming:
    """Collects until there is enough to be worth a write: `add`, and `flush` where that says so."""

    def __init__(self, path: Path, room: Room) -> None:
        self.path, self.room, self.size = path, room, 0
        self._hash = sha256()
        self._pending = bytearray()
        self._file: Any = path.open("xb")

    def add(self, data: bytes) -> bool:
        """Take some bytes; True if it is time to write."""
        self.size += len(data)
        self.room.check(self.size)
        self._pending += data
        return len(self._pending) >= CHUNK_BYTES

    def flush(self) -> None:
        """Write what was collected."""
        self._hash.update(self._pending)
        try:
            self._file.write(self._pending)
        except OSError as error:
            raise UnavailableError(f"The table cannot be written here: {error.strerror}.") from error
        self._pending.clear()

    def finish(self, extension: str) -> tuple[Path, str]:
        """The file, which gets this extension, and its SHA-256."""
        self.flush()
        self.close()
        return self.path.rename(self.path.with_suffix(f".{extension}")), self._hash.hexdigest()

    def close(self) -> None:
        """Nothing more comes. Whoever made the folder removes it."""
        try:
            self._file.close()
        except OSError as error:  # what was buffered found no room
            raise UnavailableError(f"The table cannot be written here: {error.strerror}.") from error


_PART = r"[^\\%?#*:/\x00-\x1f\x7f]+"
PATH_PATTERN = rf"^{_PART}(/{_PART})*$"
"""Names between single slashes, without the signs that some place reads in its own way."""


def checked_path(path: str) -> str:
    """A path that fits the pattern, stays below where it starts and names a table."""
    if {".", ".."} & set(path.split("/")) or path.endswith("\n") or format_of_name(path) is None:
        raise ValueError("is not the path of a .csv or .parquet file below the server's place, such as sales/2024.csv")
    return path


class Place:
    """A directory or a bucket, by its fsspec URL."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def fetch(self, path: str, incoming: Incoming) -> None:
        """Copy a table; `path` was checked."""
        if self._url is None:
            raise SettingsError(
                "This server has no place of tables that could be named.",
                field="path",
                remedy="Send the table itself, or let the operator set MAABO_TABLES.",
            )
        with self._opened(self._url, path) as file:
            while chunk := file.read(CHUNK_BYTES):
                if incoming.add(chunk):
                    incoming.flush()

    @contextmanager
    def _opened(self, url: str, path: str) -> Iterator[Any]:
        try:
            files, root = fsspec.core.url_to_fs(url)
            opened = _local(Path(root), path) if "file" in files.protocol else files.open(f"{root}/{path}", "rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
            raise _nothing(path) from None
        except Exception as error:  # each kind of place has errors of its own
            raise UnavailableError("The server's place of tables cannot be reached. Try again soon.") from error
        with opened as file:
            yield file


def _local(root: Path, path: str) -> BinaryIO:
    """A plain file below the root, wherever its links lead; a link that leads elsewhere is as good as none."""
    root = root.resolve()
    found = (root / path).resolve(strict=True)
    if not found.is_relative_to(root):
        raise FileNotFoundError
    # Resolved already: a link at this place was put there just now. A pipe must not make us wait.
    file = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError
    return os.fdopen(file, "rb")


def _nothing(path: str) -> NotFoundError:
    return NotFoundError(
        f"There is no table {path[:200]!r} in this server's place.", field="path", remedy="Check the path."
    )


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
