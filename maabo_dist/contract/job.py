"""The job document: what is to be mined, how, and for whom. The same model wherever a job comes in."""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings, TableSettings

Name = Annotated[str, Field(min_length=1, max_length=200)]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
JobId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class JobState(StrEnum):
    """Where a job stands: queued → running → mining → done | failed | cancelled, and paused."""

    QUEUED = "queued"
    RUNNING = "running"
    MINING = "mining"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


class Priority(StrEnum):
    """A job of higher priority gets more of the workers; none gets nothing."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def share(self) -> int:
        """The weight in the sharing of workers."""
        return {Priority.LOW: 1, Priority.NORMAL: 4, Priority.HIGH: 16}[self]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DatasetRef(_Document):
    """A table in the artifact store."""

    fingerprint: Fingerprint
    name: Name = "table"
    settings: TableSettings | None = None
    """How the table was prepared, for the report."""
    notes: tuple[Annotated[str, Field(max_length=2000)], ...] = Field((), max_length=100)


class Callback(_Document):
    """A Celery task to call when the job has ended, with `job`, `state` and `digest` as its keywords."""

    task: Name
    queue: Name


class JobSpec(_Document):
    """A job. Seed and budget stand in the settings."""

    version: Literal[1] = 1
    id: JobId
    dataset: DatasetRef
    settings: MiningSettings = MiningSettings()
    priority: Priority = Priority.NORMAL
    tenant: Name = "default"
    callback: Callback | None = None

    @classmethod
    def parse(cls, document: object) -> Self:
        """Validate a document from outside."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `parse` takes them."""
        return self.model_dump(mode="json")


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"]) or "document"
        shown = repr(problem["input"])
        lines.append(f"{where}: {problem['msg']} (got {shown[:200]}).")
    return "\n".join(dict.fromkeys(lines))
