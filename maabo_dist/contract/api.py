"""Responses of the HTTP API, shared by the service, which fills them, and the client, which reads them.

All times are seconds since the epoch. A client ignores fields that a newer service adds.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from maabo_dist.contract.record import JobRecord


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Dataset(_Response):
    """A table that was uploaded."""

    id: str
    name: str
    format: str
    """csv or parquet."""
    size: int
    """Bytes of the file."""
    rows: int
    columns: int
    fingerprint: str
    """SHA-256 of the file."""
    created: float


class Column(_Response):
    """Summary of one column."""

    name: str
    kind: Literal["number", "pair", "level", "other"]
    """`number`; `pair`, two texts and nothing missing; `level`, texts; `other`, which cannot be mined."""
    missing: int
    """Number of missing cells."""
    distinct: int | None
    """Number of different values, without missing ones; null where values cannot be compared."""
    levels: tuple[str, ...] | None
    """The first 50 texts, each cut after 100 characters; fewer in a table with very many. Null for numbers."""
    smallest: float | None
    largest: float | None


class DatasetDetails(Dataset):
    """A table with a summary of its columns."""

    features: tuple[Column, ...]
    """In the table's order."""


class JobProgress(JobRecord):
    """The progress of a job, as its events report it."""

    # The service always sends every field.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    progress: float | None
    """From 0 to 1."""
    eta_seconds: float | None


class Job(JobProgress):
    """The status of a job."""

    wanted: str
    """The last command of its owner: run, pause or cancel."""
    dataset: str | None
    """ID of the dataset."""


class Tree(_Response):
    """A tree of the search."""

    number: int
    """Its index in the order of the search, from 0; rules refer to it in `source.tree`."""
    features: tuple[str, ...]
    depth: int | None
    """Null, like `score`, if the tree failed."""
    score: float | None
    """Macro F1 on the validation rows."""
    leaves: int


class MatchingRule(_Response):
    """A rule that matches at least one of the rows."""

    text: str
    predicts: str
    """The class of the rule."""
    n: int
    gini: float


class ExplainedRow(_Response):
    """The rules that match one row, and their prediction."""

    rules: tuple[str, ...]
    """IDs of the matching rules, in the order of the result document."""
    predicts: str | None
    """The class that `RuleMiner.predict` returns for these rules; null where none matches."""


class Explanation(_Response):
    """The rules that match each of some rows."""

    partial: bool
    """True if the search was still running."""
    digest: str
    rules: dict[str, MatchingRule]
    """Rules that match at least one row, by ID."""
    rows: tuple[ExplainedRow, ...]


class Token(_Response):
    """An API token, without its secret text."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None
    revoked: float | None


class CreatedToken(Token):
    """A new token with its text, which is shown only once."""

    token: str

    def __repr_args__(self) -> Any:
        """Leave out the text, which is a secret."""
        return [(name, value) for name, value in super().__repr_args__() if name != "token"]


class Quota(_Response):
    """The limits of a tenant (null for no limit) and its current use."""

    tenant: str
    queued: int | None
    """Jobs that wait, including paused ones."""
    running: int | None
    """Jobs that run at the same time; further ones wait."""
    bytes: int | None
    """Total size of the tenant's tables."""
    trees: int | None
    """Trees of a single job."""
    bytes_stored: int
