"""Jobs as other services ask for them and read them."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import AnyCallback, JobState, Priority
from maabo_dist.contract.record import JobRecord
from maabo_dist.settings import MiningSettings, TableSettings

DatasetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

JOB_EXAMPLE: dict[str, Any] = {
    "dataset": "d41f0c9be4a1",
    "table": {"target": "survived", "exclude": ["name", "ticket"]},
    "settings": {"seed": 5, "trees": 200, "holdout": 0.2},
}


class JobRequest(BaseModel):
    """A job that is asked for: the same words as the options of `maabo mine`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId
    """Of a table that was uploaded."""
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()
    priority: Priority = Priority.NORMAL
    callback: AnyCallback | None = None
    fresh: bool = False
    """Mine anew, even where the same was mined before."""


class JobProgress(BaseModel):
    """How far a job is, as its events tell it. Times are seconds since the epoch."""

    id: str
    state: JobState
    name: str
    priority: Priority
    created: float
    started: float | None
    finished: float | None
    seconds: float
    """How long it has been running, pauses left out."""
    progress: float | None
    """From 0 to 1."""
    eta_seconds: float | None
    pairs_screened: int | None
    pairs: int | None
    trees: int
    planned: int | None
    failed: int
    best_score: float | None
    rules: int | None
    digest: str | None
    reason: str | None

    @classmethod
    def of(cls, record: JobRecord, **more: Any) -> Self:
        """From a record, and what only the ledger knows."""
        told = record.model_dump(exclude={"tenant"})
        return cls(**told, **more, progress=_progress(record), eta_seconds=_eta(record))


class Job(JobProgress):
    """Where a job stands."""

    tenant: str
    wanted: str
    """What its owner asked for last: run, pause or cancel."""
    dataset: str | None


class JobDetails(Job):
    """All that can be said of a job."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    funnel: dict[str, Any] | None = None
    """How many leaves there were, and how many of them each of the conditions left; None before anyone has looked."""


def _progress(record: JobRecord) -> float | None:
    if record.state is JobState.DONE:
        return 1.0
    return min(1.0, record.trees / record.planned) if record.planned else None


def _eta(record: JobRecord) -> float | None:
    """As if it went on as fast as so far."""
    if record.state is not JobState.RUNNING or not record.planned or not record.trees:
        return None
    return max(0.0, record.seconds * (record.planned - record.trees) / record.trees)
