"""What a table is: CSV or Parquet, by its media type or by its name; and what it is called."""

import unicodedata
from email.message import Message

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
