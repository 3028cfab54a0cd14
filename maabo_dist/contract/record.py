"""Records of jobs, workers and the cluster: small JSON documents in Redis.

The ledger is authoritative. A record may be a second old; one that Redis lost is published again on request.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import JobId, JobState, Name, Priority

# A change of state that users can request for a job.
JobCommand = Literal["pause", "resume", "cancel"]
PAST_TENSE: dict[JobCommand, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class _Record(BaseModel):
    # Readers ignore fields that a newer version adds.
    model_config = ConfigDict(frozen=True, extra="ignore")


class JobRecord(_Record):
    """The state and progress of a job."""

    id: JobId
    state: JobState
    # The name of the dataset.
    name: Name = "table"
    tenant: Name = "default"
    priority: Priority = Priority.NORMAL
    # Seconds since the epoch, like all times here.
    created: float = 0.0
    started: float | None = None
    finished: float | None = None
    # The running time, without pauses.
    seconds: float = 0.0
    # Pairs of features screened so far; None unless the job is screening.
    pairs_screened: int | None = None
    # The number of pairs to screen.
    pairs: int | None = None
    trees: int = 0
    planned: int | None = None
    # Subsets that failed, for example by crashing their worker.
    failed: int = 0
    best_score: float | None = None
    # The number of rules so far; None if they were not mined yet.
    rules: int | None = None
    # The digest of the rules of a job that is done.
    digest: str | None = None
    # The reason of a failure, or of an end before the budget.
    reason: str | None = None


def is_applied(record: JobRecord, command: JobCommand) -> bool:
    """Return True if a command has taken effect, or can no longer because the job has ended."""
    paused = record.state is JobState.PAUSED
    return record.state.ended or (command != "cancel" and paused == (command == "pause"))


class ClusterRecord(_Record):
    """The information that a client needs to upload a table."""

    # The version of the scheduler that wrote the record.
    version: str
    # URL of the artifact store.
    store: str
    # The host of the scheduler; the directory of a `file:` store is there.
    host: Annotated[str, Field(max_length=300)]


class WorkerRecord(_Record):
    """The heartbeat of a worker, written every few seconds."""

    # Tasks that it can run at the same time, in processes or threads.
    processes: Annotated[int, Field(ge=1)]
    # Tasks that it is running.
    busy: Annotated[int, Field(ge=0)]
