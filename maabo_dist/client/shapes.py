"""What the server tells of tables, jobs and tokens, as frozen values; what a newer one tells beside is passed over."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from maabo_dist.client.answers import json_of, no_maabo_server
from maabo_dist.client.steps import Answer
from maabo_dist.contract.record import JobRecord

Shape = TypeVar("Shape", bound=BaseModel)


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Dataset(_Shape):
    """A table that was uploaded."""

    id: str
    name: str
    format: str
    size: int
    """Bytes."""
    rows: int
    columns: int
    fingerprint: str
    """SHA-256 of the file."""
    created: float
    features: tuple[dict[str, Any], ...] = ()
    """What each column holds; told of a single table only."""


class JobStatus(JobRecord):
    """Where a job stands. Times are seconds since the epoch."""

    tenant: str = ""
    """Not told: it is that of the token."""
    wanted: str = "run"
    """What its owner asked for last: run, pause or cancel."""
    dataset: str | None = None
    progress: float | None = None
    """From 0 to 1."""
    eta_seconds: float | None = None
    settings: dict[str, Any] | None = None
    """Told of a single job only, like those that follow."""
    table: dict[str, Any] | None = None
    correlation: str | None = None
    funnel: dict[str, Any] | None = None


class Tree(_Shape):
    """A tree that was grown."""

    number: int
    """In the order of the search, from 0."""
    features: tuple[str, ...]
    depth: int | None
    """None, like the score, if the tree could not be had."""
    score: float | None
    """Macro F1 on the validation rows."""
    leaves: int


class FiredRule(_Shape):
    """A rule that fires for some row."""

    text: str
    predicts: str
    """Its class."""
    n: int
    gini: float


class ExplainedRow(_Shape):
    """What rules say of a row."""

    rules: tuple[str, ...]
    """Ids of those that fire."""
    predicts: str | None
    """The class that they speak for; None where none fires."""


class Explanation(_Shape):
    """What rules say of rows."""

    partial: bool
    """Whether the search was not over."""
    digest: str
    rules: dict[str, FiredRule]
    """Those that fire for some row, by their ids."""
    rows: tuple[ExplainedRow, ...]


class Token(_Shape):
    """What is known of a token; not its text."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None
    revoked: float | None


class MadeToken(Token):
    """A token as it is made: the only moment at which its text is known."""

    token: str

    def __repr_args__(self) -> Any:
        """Without the text."""
        return [(name, value) for name, value in super().__repr_args__() if name != "token"]


class Quota(_Shape):
    """What a tenant may have (None for no limit), and what it has."""

    tenant: str
    queued: int | None
    running: int | None
    bytes: int | None
    trees: int | None
    bytes_stored: int


def read(kind: type[Shape], answer: Answer) -> Shape:
    """The value in an answer."""
    return parsed(kind, json_of(answer), answer)


def parsed(kind: type[Shape], value: object, answer: Answer) -> Shape:
    """A value that came in this answer."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        raise no_maabo_server(answer) from None
