"""Responses of the HTTP API, shared by the service, which fills them, and the client, which reads them.

All times are seconds since the epoch. A client ignores fields that a newer service adds.
"""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from maabo_dist.contract.job import JobRecord
from maabo_dist.settings import ColumnKind

Item = TypeVar("Item")


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next: str | None = None  # cursor of the next page; null on the last page


# The format of a table that is a directory of files.
DIRECTORY = "directory"


class Dataset(_Response):
    """A table that was uploaded, or a directory of files in the server's table directory."""

    id: str
    name: str
    # csv, tsv, xlsx, parquet or directory.
    format: str
    # Bytes of the file or files.
    size: int
    rows: int
    columns: int
    # SHA-256 of the file; of the identities of files.
    fingerprint: str
    created: float


class Column(_Response):
    """Summary of one column."""

    name: str
    # `number`; `pair`, two text values and nothing missing; `level`, text; `other`, which cannot be mined.
    kind: ColumnKind
    # Number of missing cells.
    missing: int
    # Number of different values, without missing ones; null where values cannot be compared.
    distinct: int | None
    # The first 50 texts, each cut after 100 characters; fewer in a table with very many. Null for numbers.
    levels: tuple[str, ...] | None
    smallest: float | None
    largest: float | None
    # What mining does with it by default: `feature`; `date`, of which parts such as the month are used; or the reason
    # for leaving it out: `identifier`, `empty`, `constant` or `unsupported`.
    use: str = "feature"
    # Cells in up to 16 bins from the smallest to the largest value or date; of texts, cells of the most frequent ones.
    # Empty for columns after the first 2,000.
    histogram: tuple[int, ...] = ()
    # The texts that `histogram` counts.
    frequent: tuple[str, ...] = ()
    # The first and the last date.
    first: str | None = None
    last: str | None = None


class DatasetDetails(Dataset):
    """A table with a summary of its columns."""

    # In the table's order.
    features: tuple[Column, ...]
    # The first rows, as text, of up to 400 columns; null where a cell is missing.
    sample: tuple[tuple[str | None, ...], ...] = ()
    # The column that is most likely to be explained, by its name and values; null if no column suggests itself.
    target: str | None = None
    # How the file was read: its encoding, decimal commas, columns without a name.
    notes: tuple[str, ...] = ()
    # The path of a directory in the server's table directory.
    path: str | None = None


class JobProgress(JobRecord):
    """The progress of a job, as its events report it."""

    # The service always sends every field.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    # From 0 to 1.
    progress: float | None
    eta_seconds: float | None


class Job(JobProgress):
    """The status of a job."""

    # The last command of its owner: run, pause or cancel.
    wanted: str
    # ID of the dataset.
    dataset: str | None
    # The owner's name for the job, and a note; null if there is none.
    title: str | None = None
    note: str | None = None


class Tree(_Response):
    """A tree of the search."""

    # Its index in the order of the search, from 0; rules refer to it in `source.tree`.
    number: int
    features: tuple[str, ...]
    # Null, like `score`, if the tree failed.
    depth: int | None
    # Macro F1 on the validation rows.
    score: float | None
    leaves: int


class MatchingRule(_Response):
    """A rule that matches at least one of the rows."""

    text: str
    # The class of the rule.
    predicts: str
    n: int
    gini: float


class ExplainedRow(_Response):
    """The rules that match one row, and their prediction."""

    # IDs of the matching rules, in the order of the result document.
    rules: tuple[str, ...]
    # The class that `RuleMiner.predict` returns for these rules; null where none matches.
    predicts: str | None


class Explanation(_Response):
    """The rules that match each of some rows."""

    # True if the search was still running.
    partial: bool
    digest: str
    # Rules that match at least one row, by ID.
    rules: dict[str, MatchingRule]
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


class AuditRecord(_Response):
    """An action that was recorded in the audit log."""

    # Later actions have larger numbers.
    number: int
    time: float
    # Who acted: the tenant and the ID of its token; null for commands on the ledger itself.
    tenant: str | None
    token: str | None
    # IP address of the client.
    address: str | None
    # Such as `job.submit`.
    action: str
    # ID of what it was done to.
    object: str
    # ID of the request.
    correlation: str | None


class Quota(_Response):
    """The limits of a tenant (null for no limit) and its current use."""

    tenant: str
    # Jobs that wait, including paused ones.
    queued: int | None
    # Jobs that run at the same time; further ones wait.
    running: int | None
    # Total size of the tenant's tables.
    bytes: int | None
    # Trees of a single job.
    trees: int | None
    bytes_stored: int
