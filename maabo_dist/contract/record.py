"""Records of jobs, workers and the cluster: small JSON documents in Redis.

The ledger is authoritative. A record may be a second old; one that Redis lost is published again on request.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import JobId, JobState, Name, Priority

JobCommand = Literal["pause", "resume", "cancel"]
"""A change of state that users can request for a job."""
PAST_TENSE: dict[JobCommand, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class _Record(BaseModel):
    # Readers ignore fields that a newer version adds.
    model_config = ConfigDict(frozen=True, extra="ignore")


class JobRecord(_Record):
    """The state and progress of a job."""

    id: JobId
    state: JobState
    name: Name = "table"
    """The name of the dataset."""
    tenant: Name = "default"
    priority: Priority = Priority.NORMAL
    created: float = 0.0
    """Seconds since the epoch, like all times here."""
    started: float | None = None
    finished: float | None = None
    seconds: float = 0.0
    """The running time, without pauses."""
    pairs_screened: int | None = None
    """Pairs of features screened so far; None unless the job is screening."""
    pairs: int | None = None
    """The number of pairs to screen."""
    trees: int = 0
    planned: int | None = None
    failed: int = 0
    """Subsets that failed, for example by crashing their worker."""
    best_score: float | None = None
    rules: int | None = None
    """The number of rules so far; None if they were not mined yet."""
    digest: str | None = None
    """The digest of the rules of a job that is done."""
    reason: str | None = None
    """The reason of a failure, or of an end before the budget."""


def is_applied(record: JobRecord, command: JobCommand) -> bool:
    """Return True if a command has taken effect, or can no longer because the job has ended."""
    paused = record.state is JobState.PAUSED
    return record.state.ended or (command != "cancel" and paused == (command == "pause"))


class ClusterRecord(_Record):
    """The information that a client needs to upload a table."""

    version: str
    """The version of the scheduler that wrote the record."""
    store: str
    """URL of the artifact store."""
    host: Annotated[str, Field(max_length=300)]
    """The host of the scheduler; the directory of a `file:` store is there."""


class WorkerRecord(_Record):
    """The heartbeat of a worker, written every few seconds."""

    processes: Annotated[int, Field(ge=1)]
    """Tasks that it can run at the same time, in processes or threads."""
    busy: Annotated[int, Field(ge=0)]
    """Tasks that it is running."""
