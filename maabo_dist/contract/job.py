"""The job document: what is to be mined, how, and for whom. The same model wherever a job comes in."""

import json
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializationInfo,
    Tag,
    ValidationError,
    field_serializer,
)

from maabo_dist.contract.names import QUEUE_PREFIX
from maabo_dist.contract.problem import invalid_document
from maabo_dist.settings import MiningSettings, TableSettings

_REVEAL = "secrets"
"""In the context of a serialization: secrets stand in what is written."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
JobId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def _checked_correlation(text: str) -> str:
    if not text.isprintable():
        raise ValueError("characters that can be printed are needed; line breaks and control characters are none")
    return text


Correlation = Annotated[Name, AfterValidator(_checked_correlation)]
"""What the one who asked calls something; it stands in logs and on screens."""
Trace = Annotated[str, Field(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
"""A W3C `traceparent`: the span under which what is done for a job belongs."""


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


def is_none(value: object) -> bool:
    """For fields that are left out where there is nothing to say."""
    return value is None


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DatasetRef(_Document):
    """A table in the artifact store."""

    fingerprint: Fingerprint
    name: Name = "table"
    settings: TableSettings | None = None
    """How the table was prepared, for the report."""
    notes: tuple[Annotated[str, Field(max_length=2000)], ...] = Field((), max_length=100)


def _checked_queue(queue: str) -> str:
    if queue.startswith(QUEUE_PREFIX):
        raise ValueError(f"a queue of another service is needed; those that begin with {QUEUE_PREFIX} are ours")
    return queue


class Callback(_Document):
    """A Celery task to call when the job has ended, with `job`, `state` and `digest` as its keywords."""

    task: Name
    queue: Annotated[Name, AfterValidator(_checked_queue)]


def _checked_url(url: str) -> str:
    """An address to which something can be posted, with nothing secret where it would be shown."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("an address that begins with http:// or https:// and names a host is needed")
    if "@" in parts.netloc:
        raise ValueError("an address without user and password is needed; `secret` signs what is sent")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("spaces and characters beyond ASCII have to be written as %XX")
    if parts.port == 0:  # reading it also refuses what is no port
        raise ValueError("port 0 is none that can be reached")
    return url


class Webhook(_Document):
    """An address that gets a POST when the job has ended, signed with the secret (see docs/cluster.md)."""

    url: Annotated[str, Field(max_length=2000), AfterValidator(_checked_url)]
    secret: Annotated[str, Field(min_length=8, max_length=200)] | None = Field(None, repr=False)
    """For HMAC-SHA256; without one, nothing is signed. It stands in the ledger and in what `to_json` gives only."""

    @property
    def origin(self) -> str:
        """Scheme and host, for logs: a path may be as good as a password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @field_serializer("secret")
    def _kept_secret(self, secret: str | None, info: SerializationInfo) -> str | None:
        return secret if info.context and info.context.get(_REVEAL) else None


def _kind_of_callback(value: object) -> str:
    of_webhook = isinstance(value, Webhook) or (isinstance(value, dict) and "url" in value)
    return "webhook" if of_webhook else "task"


AnyCallback = Annotated[
    Annotated[Callback, Tag("task")] | Annotated[Webhook, Tag("webhook")], Discriminator(_kind_of_callback)
]


class JobSpec(_Document):
    """A job. Seed and budget stand in the settings."""

    version: Literal[1] = 1
    id: JobId
    dataset: DatasetRef
    settings: MiningSettings = MiningSettings()
    priority: Priority = Priority.NORMAL
    tenant: Name = "default"
    callback: AnyCallback | None = None
    # Left out where there is none: programs that do not know them yet read all other documents.
    dataset_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(None, exclude_if=is_none)
    """Of the raw table that the columns were made of, where it was uploaded."""
    correlation: Correlation | None = Field(None, exclude_if=is_none)
    """Whatever the one who asked calls this; it stands in the logs."""
    trace: Trace | None = Field(None, exclude_if=is_none)
    """The span of whoever asked, where there is one."""

    @classmethod
    def parse(cls, document: object) -> Self:
        """Validate a document from outside."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise invalid_document(error) from None

    @property
    def work(self) -> str:
        """SHA-256 of what decides the result: the table's fingerprint and the settings, with the seed."""
        settings = json.dumps(self.settings.model_dump(mode="json"), sort_keys=True)
        return sha256(f"{self.dataset.fingerprint} {settings}".encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `parse` takes them: with the secret of a webhook, which other ways of writing leave out."""
        return dump_with_secrets(self)


def dump_with_secrets(document: BaseModel) -> dict[str, Any]:
    """Plain values, with the secret of a webhook in them."""
    return document.model_dump(mode="json", context={_REVEAL: True})
