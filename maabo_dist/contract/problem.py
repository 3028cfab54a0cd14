"""Problem documents (RFC 9457): what is wrong, where and what to do, the same over HTTP and over the queue."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from maabo_dist.errors import InputError, MaaboError, SettingsError

TYPE_PREFIX = "https://maabo.dev/problems/"
MEDIA_TYPE = "application/problem+json"
REDACTED = "…"

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
    "too-large": (413, "The request is too large"),
    "unsupported-media": (415, "The format is not supported"),
    "quota-exceeded": (429, "A quota is exhausted"),
    "busy": (503, "The server is busy"),
    "unavailable": (503, "A component of the cluster cannot be reached"),
    "internal": (500, "Internal error"),
}
"""The status and title of each kind; its name ends the `type` and never changes."""


class Problem(BaseModel):
    """One problem. `type` is stable and for programs; the rest is for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    """The path of the value that is wrong, as `settings.trees`."""
    remedy: str | None = None
    instance: str | None = None
    """The correlation id of the request; logs have it too."""

    @classmethod
    def of(cls, kind: str, detail: str, **more: str | None) -> "Problem":
        """A problem of one of the KINDS."""
        status, title = KINDS[kind]
        return cls(type=f"{TYPE_PREFIX}{kind}", title=title, status=status, detail=detail, **more)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what there is not."""
        return self.model_dump(mode="json", exclude_none=True)


class DocumentError(SettingsError):
    """A document from outside does not have the form that is asked for."""

    kind = "invalid-document"


def problem_of(error: Exception, instance: str | None = None) -> Problem:
    """The problem document of an error. Of one that nobody raised on purpose, nothing is told."""
    if isinstance(error, ValidationError):
        error = invalid_document(error)
    if not isinstance(error, MaaboError):
        return Problem.of("internal", "An internal error; the log says more.", instance=instance)
    kind = error.kind if error.kind in KINDS else "internal"
    given = {"field": error.field, "remedy": error.remedy} if isinstance(error, InputError) else {}
    return Problem.of(kind, str(error), instance=instance, **given)


def invalid_document(error: ValidationError) -> DocumentError:
    """What is wrong with a document, each field with its value; the first one is the error's."""
    return document_error(error.errors(include_url=False))


def document_error(problems: Sequence[Mapping[str, Any]]) -> DocumentError:
    """The same, from what pydantic's `errors()` gives."""
    lines = [f"{_path(one['loc']) or 'document'}: {_said(one)} (got {_shown(one)})." for one in problems]
    first = problems[0]
    return DocumentError("\n".join(dict.fromkeys(lines)), field=_path(first["loc"]), remedy=_remedy(first))


def redact_secrets(value: Any) -> Any:
    """The same document, with … for every value that is called `secret`."""
    if isinstance(value, Mapping):
        return {key: REDACTED if _is_secret(key, item) else redact_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_secrets(item) for item in value]
    return value


def _is_secret(key: object, value: object) -> bool:
    return key == "secret" and value is not None


def _path(place: Iterable[int | str]) -> str | None:
    """As the document has it: pydantic also names the alternative that it took for a callback."""
    parts = [str(part) for part in place]
    if parts[:1] == ["callback"]:
        del parts[1:2]
    return ".".join(parts) or None


def _said(problem: Mapping[str, Any]) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")


def _shown(problem: Mapping[str, Any]) -> str:
    """The value, unless it may be a secret, as whatever stands in a callback may."""
    if problem["loc"][:1] == ("callback",):
        return REDACTED
    return repr(redact_secrets(problem["input"]))[:200]


def _remedy(problem: Mapping[str, Any]) -> str:
    match problem["type"]:
        case "missing":
            return "Give this field."
        case "extra_forbidden":
            return "Leave this field out, or correct its name."
        case _:
            return "Give a value that fits."
