"""Problem documents (RFC 9457), which describe an error, its location and its remedy, over HTTP and over the queue."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from maabo_dist._util.text import reworded
from maabo_dist.errors import InputError, MaaboError, SettingsError

TYPE_PREFIX = "https://maabo.dev/problems/"
MEDIA_TYPE = "application/problem+json"
REDACTED = "…"

# The status and title of each kind; the key is the last part of `type` and never changes.
KINDS: dict[str, tuple[int, str]] = {
    "invalid-document": (422, "The document is not valid"),
    "invalid-settings": (422, "A setting is out of range or does not fit the table"),
    "invalid-dataset": (422, "The table cannot be read or cannot be mined"),
    "invalid-input": (422, "The input is not valid"),
    "unreadable": (422, "Stored data cannot be read: it is damaged, truncated or of another version"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "The method is not supported here"),
    "not-acceptable": (406, "None of the accepted formats is available"),
    "conflict": (409, "Not possible in the current state"),
    "no-rules-yet": (409, "There are no rules yet"),
    "key-reused": (409, "The idempotency key was used for another document"),
    "unauthorized": (401, "A valid token is required"),
    "forbidden": (403, "The token does not permit this"),
    "timeout": (408, "The request did not arrive in time"),
    "too-large": (413, "The request is too large"),
    "unsupported-media": (415, "The format is not supported"),
    "quota-exceeded": (429, "A quota is exhausted"),
    "rate-limited": (429, "The tenant sends too many requests"),
    "busy": (503, "The server is busy"),
    "unavailable": (503, "A component of the cluster cannot be reached"),
    "internal": (500, "Internal error"),
}

# What to do about an invalid value, by pydantic's type of the error.
_REMEDIES = {"missing": "Add this field.", "extra_forbidden": "Remove this field, or correct its name."}


class Problem(BaseModel):
    """A problem document. `type` is stable and for programs; the other fields are for users."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    title: str
    status: int
    detail: str
    # The path of the invalid value, such as `settings.trees`.
    field: str | None = None
    remedy: str | None = None
    # The correlation ID of the request, which logs contain too.
    instance: str | None = None

    @classmethod
    def of(cls, kind: str, detail: str, **more: str | None) -> "Problem":
        """Return a problem of one of the KINDS."""
        status, title = KINDS[kind]
        return cls(type=f"{TYPE_PREFIX}{kind}", title=title, status=status, detail=detail, **more)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)


class DocumentError(SettingsError):
    """A document does not match its schema."""

    kind = "invalid-document"


def problem_of(error: Exception, instance: str | None = None) -> Problem:
    """Return the problem document of an error. Details of unexpected errors are not included."""
    if isinstance(error, ValidationError):
        error = invalid_document(error)
    if not isinstance(error, MaaboError):
        return Problem.of("internal", "An internal error occurred; see the log.", instance=instance)
    kind = error.kind if error.kind in KINDS else "internal"
    details = {"field": error.field, "remedy": error.remedy} if isinstance(error, InputError) else {}
    return Problem.of(kind, str(error), instance=instance, **details)


def invalid_document(error: ValidationError) -> DocumentError:
    """Return an error that lists the invalid fields with their values; its `field` is the first."""
    return document_error(error.errors(include_url=False))


def document_error(problems: Sequence[Mapping[str, Any]]) -> DocumentError:
    """Like `invalid_document`, from pydantic's list of errors."""
    lines = []
    for one in problems:
        message = reworded(str(one["msg"]))
        lines.append(f"{_path(one['loc']) or 'document'}: {message} (got {_value(one)}).")
    first = problems[0]
    return DocumentError(
        "\n".join(dict.fromkeys(lines)),
        field=_path(first["loc"]),
        remedy=_REMEDIES.get(first["type"], "Give a valid value."),
    )


def redact_secrets(value: Any) -> Any:
    """Return the document with … for every value named `secret`."""
    if isinstance(value, Mapping):
        secrets = {"secret": REDACTED} if value.get("secret") is not None else {}
        return {key: redact_secrets(item) for key, item in value.items()} | secrets
    if isinstance(value, list | tuple):
        return [redact_secrets(item) for item in value]
    return value


def _path(location: Iterable[int | str]) -> str | None:
    """Return the path in the document, without the alternative that pydantic adds for a callback."""
    parts = [str(part) for part in location]
    if parts[:1] == ["callback"]:
        del parts[1:2]
    return ".".join(parts) or None


def _value(problem: Mapping[str, Any]) -> str:
    """Return the value, redacted in a callback, where it may be a secret."""
    if problem["loc"][:1] == ("callback",):
        return REDACTED
    return repr(redact_secrets(problem["input"]))[:200]
