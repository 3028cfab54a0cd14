"""Formats of uploads: media types, file names, and `multipart/form-data` bodies."""

import unicodedata
from email.message import Message
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from maabo_dist.contract.problem import DocumentError
from maabo_dist.errors import InputError

CSV, PARQUET = "csv", "parquet"
FORM, JSON = "multipart/form-data", "application/json"
PARQUET_TYPE = "application/vnd.apache.parquet"
MAX_NAME = 200
"""Characters of a table's name."""
FILE_FIELD = "file"
_TYPES = {"text/csv": CSV, PARQUET_TYPE: PARQUET, "application/x-parquet": PARQUET}
_UTF8 = {"utf-8", "utf8", "us-ascii", "ascii"}
_REMEDY = f"Send text/csv or {PARQUET_TYPE}, a form with the field {FILE_FIELD!r}, or JSON with a path."


class UnsupportedError(InputError):
    """The format is not supported."""

    kind = "unsupported-media"


def media_type(content_type: str) -> str:
    """Return the media type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def check_encoding(encoding: str | None) -> None:
    """Reject compressed bodies, which could expand to any size."""
    if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedError(
            f"The body is compressed ({encoding[:50]!r}).",
            field="Content-Encoding",
            remedy="Send the file uncompressed, or as Parquet, which is compressed already.",
        )


def table_format(content_type: str, name: str) -> str:
    """Return the format by the media type or, since browsers have many types for CSV, by the file extension."""
    media = media_type(content_type)
    table = _TYPES.get(media) or extension_format(name)
    if table is None:
        raise UnsupportedError(
            f"{media[:100] or 'A body without Content-Type'!r} is not a supported format.",
            field="Content-Type",
            remedy=_REMEDY,
        )
    _check_charset(content_type)
    return table


def extension_format(name: str) -> str | None:
    """Return the format by the file extension; None if it is neither CSV nor Parquet."""
    extension = name.lower().rpartition(".")[2]
    return extension if extension in {CSV, PARQUET} else None


def display_name(name: str, table: str) -> str:
    """Return the name on one line, without control characters; it is never used as a path."""
    plain = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in name)
    return " ".join(plain.split())[:MAX_NAME].strip() or f"table.{table}"


def base_name(path: str) -> str:
    """Return the file name without the directories that some browsers send."""
    return path.replace("\\", "/").rpartition("/")[2]


def _check_charset(content_type: str) -> None:
    message = Message()
    message["Content-Type"] = content_type.replace("\n", " ").replace("\r", " ")
    charset = message.get_param("charset")
    if isinstance(charset, str) and charset.lower() not in _UTF8:
        raise UnsupportedError(
            f"The text is encoded as {charset[:50]!r}; only UTF-8 is supported.",
            field="Content-Type",
            remedy="Save the file with the encoding UTF-8.",
        )


class FileForm:
    """Extracts the file of a `multipart/form-data` body from its chunks, without holding it in memory."""

    def __init__(self, content_type: str) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise DocumentError(
                "The Content-Type of the form has no boundary.", remedy="Send multipart/form-data; boundary=…."
            )
        self.file_name = ""
        self.content_type = ""
        """Both as stated in the headers of the part."""
        self.complete = False
        self._files = 0
        self._content: list[bytes] = []
        self._header, self._value = b"", b""
        self._headers: dict[bytes, bytes] = {}
        self._parser = self._open_parser(boundary)

    @property
    def started(self) -> bool:
        """True once the name and type of the file are known."""
        return self._files > 0

    def feed(self, data: bytes) -> bytes:
        """Parse the next bytes of the body; return those that belong to the file."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _malformed(str(error)) from None
        content = b"".join(self._content)
        self._content.clear()
        return content

    def close(self) -> None:
        """Check, at the end of the body, that the form is complete."""
        if not self.complete:
            raise _malformed("it ends before its last boundary")
        if not self._files:
            raise DocumentError(
                "The form has no field.", field=FILE_FIELD, remedy=f"Send the table in the field {FILE_FIELD!r}."
            )

    def _open_parser(self, boundary: bytes) -> MultipartParser:
        callbacks: Any = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_end": self._on_end,
        }
        try:
            return MultipartParser(boundary, callbacks)
        except FormParserError as error:
            raise _malformed(str(error)) from None

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        self._files += 1
        if name != FILE_FIELD or self._files > 1:
            raise DocumentError(
                f"The form has {'another' if name == FILE_FIELD else 'a'} field {name[:50]!r}.",
                field=FILE_FIELD,
                remedy=f"Send one field, {FILE_FIELD!r}, with one table.",
            )
        self.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._content.append(data[start:end])

    def _on_end(self) -> None:
        self.complete = True


def _malformed(why: str) -> DocumentError:
    return DocumentError(
        f"The body is not valid multipart/form-data: {why[:200]}.", remedy="Send the file itself as the body."
    )
