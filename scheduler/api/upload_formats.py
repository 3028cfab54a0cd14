"""What a table is: CSV or Parquet, by its media type or by its name; and what it is called."""

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
NAME = 200
"""Characters of a table's name."""
_TYPES = {"text/csv": CSV, PARQUET_TYPE: PARQUET, "application/x-parquet": PARQUET}
_UTF8 = {"utf-8", "utf8", "us-ascii", "ascii"}
_REMEDY = f"Send text/csv or {PARQUET_TYPE}, a form with the field 'file', or JSON with a path."


class UnsupportedError(InputError):
    """The format is not one that is read."""

    kind = "unsupported-media"


def media_of(content_type: str) -> str:
    """The media type alone, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def check_encoding(encoding: str | None) -> None:
    """A packed body may unpack to anything: it is not taken."""
    if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
        raise UnsupportedError(
            f"The body is packed ({encoding[:50]!r}).",
            field="Content-Encoding",
            remedy="Send the file as it is, or as Parquet, which is packed by itself.",
        )


def format_of(content_type: str, name: str) -> str:
    """By a type that says it, else by the name's extension: browsers have many types for CSV."""
    media = media_of(content_type)
    found = _TYPES.get(media) or format_of_name(name)
    if found is None:
        raise UnsupportedError(
            f"{media[:100] or 'A body without Content-Type'!r} is not a format that is read here.",
            field="Content-Type",
            remedy=_REMEDY,
        )
    _check_charset(content_type)
    return found


def format_of_name(name: str) -> str | None:
    """By the extension; None if it says nothing."""
    ending = name.lower().rpartition(".")[2]
    return ending if ending in {CSV, PARQUET} else None


def label(given: str, kind: str) -> str:
    """A name for people, on one line; it is never used as a path."""
    plain = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in given)
    return " ".join(plain.split())[:NAME].strip() or f"table.{kind}"


def base_name(given: str) -> str:
    """A file's name without the folders that some browsers send."""
    return given.replace("\\", "/").rpartition("/")[2]


def _check_charset(content_type: str) -> None:
    message = Message()
    message["Content-Type"] = content_type.replace("\n", " ").replace("\r", " ")
    charset = message.get_param("charset")
    if isinstance(charset, str) and charset.lower() not in _UTF8:
        raise UnsupportedError(
            f"The text is in {charset[:50]!r}; only UTF-8 is read.",
            field="Content-Type",
            remedy="Save the file again with the encoding UTF-8.",
        )


FIELD = "file"


class FileForm:
    """Bytes of a body go in; bytes of its file come out."""

    def __init__(self, content_type: str) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise DocumentError(
                "The Content-Type of the form names no boundary.", remedy="Send multipart/form-data; boundary=…."
            )
        self.file_name = ""
        self.content_type = ""
        """Both as the part states them."""
        self.complete = False
        self._files = 0
        self._content: list[bytes] = []
        self._header, self._value = b"", b""
        self._headers: dict[bytes, bytes] = {}
        self._parser = self._opened(boundary)

    @property
    def started(self) -> bool:
        """Whether the file's name and type are known."""
        return self._files > 0

    def feed(self, data: bytes) -> bytes:
        """Of the next bytes of the body, those that belong to the file."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _broken(str(error)) from None
        content = b"".join(self._content)
        self._content.clear()
        return content

    def close(self) -> None:
        """The body has ended."""
        if not self.complete:
            raise _broken("it ends before its last boundary")
        if not self._files:
            raise DocumentError("The form has no field.", field=FIELD, remedy=f"Send the table in the field {FIELD!r}.")

    def _opened(self, boundary: bytes) -> MultipartParser:
        callbacks: Any = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._on_header,
            "on_header_value": self._on_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_end": self._on_end,
        }
        try:
            return MultipartParser(boundary, callbacks)
        except FormParserError as error:
            raise _broken(str(error)) from None

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        self._files += 1
        if name != FIELD or self._files > 1:
            raise DocumentError(
                f"The form has {'another' if name == FIELD else 'a'} field {name[:50]!r}.",
                field=FIELD,
                remedy=f"Send one field, {FIELD!r}, with one table.",
            )
        self.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._content.append(data[start:end])

    def _on_end(self) -> None:
        self.complete = True


def _broken(why: str) -> DocumentError:
    return DocumentError(
        f"The body does not read as multipart/form-data: {why[:200]}.", remedy="Send the file as the body itself."
    )
