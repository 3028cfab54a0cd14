"""What anyone may know of a job, and of the cluster: small JSON records that schedulers mirror in Redis.

The ledger is the truth; a record may be a second old, and is gone when Redis was emptied, until somebody asks for it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import JobId, JobState, Name, Priority

JobCommand = Literal["pause", "resume", "cancel"]
"""What anyone may ask of a job."""
PAST_TENSE: dict[JobCommand, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class _Record(BaseModel):
    # A reader of an older version passes over what a newer scheduler says.
    model_config = ConfigDict(frozen=True, extra="ignore")


class JobRecord(_Record):
    """Where a job stands."""

    id: JobId
    state: JobState
    name: Name = "table"
    """Of the dataset."""
    tenant: Name = "default"
    priority: Priority = Priority.NORMAL
    created: float = 0.0
    """Seconds since the epoch, like all times here."""
    started: float | None = None
    finished: float | None = None
    seconds: float = 0.0
    """How long the job has been running, pauses left out."""
    pairs_screened: int | None = None
    """Pairs of features looked at so far, while the job screens them; None before and after."""
    pairs: int | None = None
    """Of so many."""
    trees: int = 0
    planned: int | None = None
    failed: int = 0
    """Subsets whose tree could not be had."""
    best_score: float | None = None
    rules: int | None = None
    """Rules so far; None before anyone has looked."""
    digest: str | None = None
    """Of the rules, when the job is done."""
    reason: str | None = None
    """Of a failure, or of an end before the budget."""


def is_applied(record: JobRecord, wish: JobCommand) -> bool:
    """Whether what was asked of a job shows, or no longer can."""
    paused = record.state is JobState.PAUSED
    return record.state.ended or (wish != "cancel" and paused == (wish == "pause"))


class ClusterRecord(_Record):
    """What a client must know to bring a table to the cluster."""

    version: str
    """Of the scheduler that wrote the record."""
    store: str
    """URL of the artifact store."""
    host: Annotated[str, Field(max_length=300)]
    """Where the scheduler runs; a `file:` store means a directory there."""


class WorkerRecord(_Record):
    """What a worker says of itself every few seconds."""

    processes: Annotated[int, Field(ge=1)]
    """Tasks that it can do at a time; processes or threads."""
    busy: Annotated[int, Field(ge=0)]
    """Of these, those that do one."""
