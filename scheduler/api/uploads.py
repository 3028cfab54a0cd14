"""`receive`: save the table of a request to a file.

The table is the body of the request, a file in a form, or a file in the server's table directory. Size and quota are
checked while it arrives.
"""

import os
import stat
import unicodedata
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from uuid import uuid4

import fsspec
from anyio.to_thread import run_sync
from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from maabo_dist.contract.api import DIRECTORY
from maabo_dist.contract.job import PATH_PATTERN
from maabo_dist.contract.problem import DocumentError, invalid_document
from maabo_dist.errors import InputError
from scheduler.api.problems import NotFoundError, UnavailableError
from scheduler.api.received import ReceivedDirectory, require_table_directory
from scheduler.ledger.tenants import QuotaError

CSV, TSV, EXCEL, PARQUET = "csv", "tsv", "xlsx", "parquet"
FORM, JSON = "multipart/form-data", "application/json"
PARQUET_TYPE = "application/vnd.apache.parquet"
FILE_FIELD = "file"
MAX_NAME = 200  # characters of a table's name
EXCEL_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_TYPES = {
    "text/csv": CSV,
    "text/tab-separated-values": TSV,
    EXCEL_TYPE: EXCEL,
    PARQUET_TYPE: PARQUET,
    "application/x-parquet": PARQUET,
}
_EXTENSIONS = {"csv": CSV, "tsv": TSV, "tab": TSV, "xlsx": EXCEL, "xlsm": EXCEL, "parquet": PARQUET}
# Files that people drop and that cannot be read, with what they are called.
_FOREIGN = {
    "xls": "an Excel file of the old format",
    "xlsb": "a binary Excel file",
    "ods": "an OpenDocument spreadsheet",
    "numbers": "a Numbers spreadsheet",
    "sav": "an SPSS file",
    "dta": "a Stata file",
    "rds": "an R file",
    "zip": "an archive",
    "gz": "a compressed file",
    "pdf": "a PDF document",
    "docx": "a Word document",
}
_UTF8 = {"utf-8", "utf8", "us-ascii", "ascii"}
CHUNK_BYTES = 1 << 20
DOCUMENT_BYTES = 1 << 16  # maximum size of a JSON body, and of what a form contains in addition to its file


class UnsupportedError(InputError):
    """The format is not supported."""

    kind = "unsupported-media"


class TooLargeError(InputError):
    """The request is larger than the limit."""

    kind = "too-large"


def _check_path(path: str) -> str:
    name = path.rpartition("/")[2]
    has_other_type = "." in name and extension_format(name) is None
    if {".", ".."} & set(path.split("/")) or path.endswith("\n") or has_other_type:
        raise ValueError(
            "is not the path of a .csv, .tsv, .xlsx or .parquet file, or of a directory of such files, in the server's "
            "table directory, such as sales/2024.csv"
        )
    return path


class TableReference(BaseModel):
    """A table in the server's table directory: a file, or a directory of Parquet or CSV files."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"path": "sales/2024.parquet", "name": "Sales of 2024"}]}
    )

    # Relative to that directory.
    path: Annotated[str, Field(max_length=1000, pattern=PATH_PATTERN), AfterValidator(_check_path)]
    name: Annotated[str, Field(max_length=MAX_NAME)] | None = None


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The limits on the size of an upload."""

    max_bytes: int
    quota: int | None  # of the tenant; None for no limit
    stored: int  # bytes that the tenant has stored already

    def check(self, size: int) -> None:
        """Raise an error if a table of this size exceeds a limit."""
        if size > self.max_bytes:
            raise TooLargeError(
                f"The table has {size:,} bytes or more; the limit of this server is {self.max_bytes:,}.",
                remedy="Remove columns or rows, or send Parquet, which is smaller than CSV.",
            )
        if self.quota is not None and self.stored + size > self.quota:
            raise QuotaError("bytes", self.quota, self.stored + size)


class UploadWriter:
    """Writes an upload to a file in large chunks: call `add`, and `flush` whenever it returns True."""

    def __init__(self, path: Path, limit: SizeLimit) -> None:
        self.path, self.limit, self.size = path, limit, 0
        self._hash = sha256()
        self._buffer = bytearray()
        self._file: Any = path.open("xb")

    def add(self, data: bytes) -> bool:
        """Buffer some bytes; return True if the buffer should be flushed."""
        self.size += len(data)
        self.limit.check(self.size)
        self._buffer += data
        return len(self._buffer) >= CHUNK_BYTES

    def copy(self, file: Any) -> None:
        """Add and flush everything from a file."""
        while chunk := file.read(CHUNK_BYTES):
            if self.add(chunk):
                self.flush()

    def flush(self) -> None:
        """Write the buffer to the file."""
        self._hash.update(self._buffer)
        with _disk_errors():
            self._file.write(self._buffer)
        self._buffer.clear()

    def finish(self, extension: str) -> tuple[Path, str]:
        """Close the file and give it this extension; return its path and its SHA-256."""
        self.flush()
        self.close()
        return self.path.rename(self.path.with_suffix(f".{extension}")), self._hash.hexdigest()

    def close(self) -> None:
        """Close the file; the caller removes its directory."""
        with _disk_errors():  # closing writes buffered data
            self._file.close()


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"The server cannot write the table: {error.strerror}.") from error


def _receive_directory(url: str | None, path: str, label: str, writer: UploadWriter) -> ReceivedDirectory | None:
    """Open a directory of the table directory. One with few rows is copied into one file, and None is returned."""
    # pandas and pyarrow, which other requests do not need.
    from scheduler.api.directories import (  # noqa: PLC0415
        describe_directory,
        is_small,
        open_as_file,
        open_table_directory,
    )

    dataset = open_table_directory(url, path)
    if not is_small(dataset):
        return describe_directory(url or "", path, display_name(label, DIRECTORY), dataset)
    with open_as_file(url or "", dataset) as file:
        writer.copy(file)
    return None


def _copy_stored(url: str | None, path: str, writer: UploadWriter) -> None:
    """Copy a table from the operator's directory or bucket, by its fsspec URL. Nothing outside of it is accessible."""
    directory = require_table_directory(url)
    try:
        files, root = fsspec.core.url_to_fs(directory)
        opened = _open_local(Path(root), path) if "file" in files.protocol else files.open(f"{root}/{path}", "rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        raise NotFoundError(
            f"There is no table {path[:200]!r} in the server's table directory.",
            field="path",
            remedy="Check the path of the file or directory.",
        ) from None
    except Exception as error:  # file systems raise exceptions of their own
        raise UnavailableError("The server's table directory cannot be reached. Try again soon.") from error
    with opened as file:
        writer.copy(file)


def _open_local(root: Path, path: str) -> BinaryIO:
    """Open a regular file below the root; a symbolic link that leads out of it counts as missing."""
    root = root.resolve()
    target = (root / path).resolve(strict=True)
    if not target.is_relative_to(root):
        raise FileNotFoundError
    # The path is resolved: a link there now was created in between. Do not block on a pipe.
    file = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError
    return os.fdopen(file, "rb")


@dataclass(frozen=True, slots=True)
class ReceivedTable:
    """A table that was saved and not read yet."""

    path: Path
    name: str
    format: str
    digest: str
    size: int


async def receive(
    request: Request, folder: Path, limit: SizeLimit, directory: str | None, name: str | None
) -> ReceivedTable | ReceivedDirectory:
    """Save the table of a request in this folder; errors are raised as early as possible.

    A directory with many rows stays where it is.
    """
    encoding = request.headers.get("content-encoding", "")
    if encoding.strip().lower() not in {"", "identity"}:  # a compressed body could expand to any size
        raise UnsupportedError(
            f"The body is compressed ({encoding[:50]!r}).",
            field="Content-Encoding",
            remedy="Send the file uncompressed, or as Parquet, which is compressed already.",
        )
    writer = UploadWriter(folder / uuid4().hex, limit)
    content_type = request.headers.get("content-type", "")
    media = media_type(content_type)
    try:
        if media == FORM:
            file_name, table = await _save_form(request, writer)
            label = name or base_name(file_name)
        elif media == JSON:
            reference = await _read_reference(request)
            label = reference.name or name or base_name(reference.path)
            if extension_format(reference.path) is None:
                received = await run_sync(_receive_directory, directory, reference.path, label, writer)
                if received is not None:
                    return received
                table = "parquet"
            else:
                await run_sync(_copy_stored, directory, reference.path, writer)
                table = table_format("", reference.path)
        else:
            label, table = name or "", table_format(content_type, name or "")
            writer.limit.check(_content_length(request))
            async for data in request.stream():
                if writer.add(data):
                    await run_sync(writer.flush)
        path, digest = await run_sync(writer.finish, table)
    except ClientDisconnect:
        raise DocumentError("The connection was closed before the table was complete.") from None
    finally:
        writer.close()
    return ReceivedTable(path, display_name(label, table), table, digest, writer.size)


async def _save_form(request: Request, writer: UploadWriter) -> tuple[str, str]:
    """Write the file of a form; return its name and its format."""
    writer.limit.check(_content_length(request) - DOCUMENT_BYTES)
    stream = _limited_stream(request, writer.limit.max_bytes + DOCUMENT_BYTES)
    remedy = f"Send one field, {FILE_FIELD!r}, with one table, or send the table itself as the body."
    try:
        form = await MultiPartParser(request.headers, stream, max_files=1, max_fields=0).parse()
    except MultiPartException as error:
        raise DocumentError(f"The form is not valid: {error.message[:200]}", field=FILE_FIELD, remedy=remedy) from None
    try:
        file = form.get(FILE_FIELD)
        if not isinstance(file, UploadFile):
            raise DocumentError(f"The form has no file in the field {FILE_FIELD!r}.", field=FILE_FIELD, remedy=remedy)
        file_name = file.filename or ""
        table = table_format(file.content_type or "", file_name)
        await run_sync(writer.copy, file.file)
    finally:
        await form.close()
    return file_name, table


async def _read_reference(request: Request) -> TableReference:
    body = b"".join([data async for data in _limited_stream(request, DOCUMENT_BYTES)])
    try:
        return TableReference.model_validate_json(body)
    except ValidationError as error:
        raise invalid_document(error) from None


async def _limited_stream(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    size = 0
    async for data in request.stream():
        size += len(data)
        if size > max_bytes:
            raise TooLargeError(
                f"The body is larger than {max_bytes:,} bytes.", remedy="Send the table itself as the body."
            )
        yield data


def _content_length(request: Request) -> int:
    """Return the length that the request states; 0 if it states none."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0


def media_type(content_type: str) -> str:
    """Return the media type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def table_format(content_type: str, name: str) -> str:
    """Return the format by the media type or, since browsers have many types for CSV, by the file extension."""
    media = media_type(content_type)
    table = _TYPES.get(media) or extension_format(name)
    if table is None and (kind := _FOREIGN.get(name.lower().rpartition(".")[2])) is not None:
        raise UnsupportedError(
            f"{display_name(name, '')} is {kind}, which cannot be read.",
            field="Content-Type",
            remedy="Save the table as CSV or as an Excel workbook (.xlsx), and upload that file.",
        )
    if table is None:
        raise UnsupportedError(
            f"{media[:100] or 'A body without Content-Type'!r} is not a supported format.",
            field="Content-Type",
            remedy=f"Send CSV (text/csv), TSV, Excel (.xlsx) or Parquet ({PARQUET_TYPE}), a form with the field "
            f"{FILE_FIELD!r}, or JSON with a path.",
        )
    message = Message()
    message["Content-Type"] = content_type.replace("\n", " ").replace("\r", " ")
    charset = message.get_param("charset")
    if isinstance(charset, str) and charset.lower() not in _UTF8:
        raise UnsupportedError(
            f"The text is encoded as {charset[:50]!r}; only UTF-8 is supported.",
            field="Content-Type",
            remedy="Save the file with the encoding UTF-8.",
        )
    return table


def extension_format(name: str) -> str | None:
    """Return the format by the file extension; None if it is not a supported one."""
    return _EXTENSIONS.get(name.lower().rpartition(".")[2])


def display_name(name: str, table: str) -> str:
    """Return the name on one line, without control characters; it is never used as a path."""
    plain = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in name)
    return " ".join(plain.split())[:MAX_NAME].strip() or f"table.{table}"


def base_name(path: str) -> str:
    """Return the file name without the directories that some browsers send."""
    return path.replace("\\", "/").rpartition("/")[2]
