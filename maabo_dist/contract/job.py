"""Jobs: their ids, the job document, which all interfaces use, and the records of jobs, workers and the cluster.

An id has 32 hexadecimal digits, of which users may give the first ones. Records are small JSON documents in Redis. The
ledger is authoritative: a record may be a second old, and one that Redis lost is published again on request.
"""

import json
import re
from collections.abc import Callable, Iterable
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
    model_validator,
)

from maabo_dist.contract.document import is_none
from maabo_dist.contract.names import QUEUE_PREFIX
from maabo_dist.contract.problem import invalid_document
from maabo_dist.contract.result import SampleInfo
from maabo_dist.errors import InputError
from maabo_dist.settings import MiningSettings, TableSettings

DIGITS = 32
SHORT_DIGITS = 8
MIN_DIGITS = 4

_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},{DIGITS}}}")


class NoSuchJobError(InputError):
    """No job, or more than one, has this id or prefix."""


def short_id(job: str) -> str:
    """Return the short form of an id, as it is shown to users."""
    return job[:SHORT_DIGITS]


def match_prefix(prefix: str, list_ids: Callable[[str], Iterable[str]]) -> str:
    """Return the only job id that begins with the prefix; `list_ids` returns all that begin with some digits."""
    digits = prefix.strip().lower()
    if not _PREFIX.fullmatch(digits):
        raise NoSuchJobError(
            f"{prefix!r} is not a job id. Give the id that `maabo submit` printed, "
            f"or at least the first {MIN_DIGITS} of its {DIGITS} hexadecimal digits."
        )
    if len(digits) == DIGITS:
        return digits
    ids = sorted(set(list_ids(digits)))
    if not ids:
        raise NoSuchJobError(f"There is no job {digits}. `maabo jobs` lists all jobs.")
    if len(ids) > 1:
        examples = ", ".join([*ids[:3], *(["…"] if len(ids) > 3 else [])])
        raise NoSuchJobError(f"{digits} matches {len(ids)} jobs: {examples}. Give more digits.")
    return ids[0]


# A key in the serialization context: include secrets.
_REVEAL = "secrets"

Name = Annotated[str, Field(min_length=1, max_length=200)]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
JobId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def _check_correlation(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must consist of printable characters, without line breaks and control characters")
    return text


# A name that a client gives to a request or job; it appears in logs and listings.
Correlation = Annotated[Name, AfterValidator(_check_correlation)]
# A W3C `traceparent`: the parent span of the work on a job.
Trace = Annotated[str, Field(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]


class JobState(StrEnum):
    """The state of a job: queued → running → mining → done | failed | cancelled, and paused."""

    QUEUED = "queued"
    RUNNING = "running"
    MINING = "mining"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """True if the state is final."""
        return self in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


class Priority(StrEnum):
    """A job with higher priority gets a larger share of the workers; every job gets some."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def share(self) -> int:
        """The weight when workers are shared among jobs."""
        return {Priority.LOW: 1, Priority.NORMAL: 4, Priority.HIGH: 16}[self]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


MAX_NOTE, MAX_NOTES = 2000, 100

_SEGMENT = r"[^\\%?#*:/\x00-\x1f\x7f]+"
# Names separated by single slashes, without characters that are special to some file system.
PATH_PATTERN = rf"^{_SEGMENT}(/{_SEGMENT})*$"


def check_directory(path: str) -> str:
    """Check the path of a directory in the table directory of a cluster."""
    if {".", ".."} & set(path.split("/")) or path.endswith("\n"):
        raise ValueError("is not the path of a directory in the table directory, such as sales/2024")
    return path


class ManyRows(_Document):
    """A dataset of many files in the table directory of the cluster (MAABO_TABLES), of which a sample is searched."""

    # Relative to the table directory.
    path: Annotated[str, Field(max_length=1000, pattern=PATH_PATTERN), AfterValidator(check_directory)]
    # Rows to search.
    sample: Annotated[int, Field(ge=1)]
    # All rows and columns.
    rows: Annotated[int, Field(ge=1)]
    columns: Annotated[int, Field(ge=1)]
    # The sample in the artifact store, once it is drawn.
    drawn: Fingerprint | None = None
    info: SampleInfo | None = None


def fingerprint_of_files(files: str, settings: TableSettings, sample: int) -> str:
    """Identify a dataset before its sample is drawn; `files` is the fingerprint of its files."""
    document = json.dumps([files, settings.model_dump(mode="json"), sample], sort_keys=True)
    return sha256(document.encode()).hexdigest()


class DatasetRef(_Document):
    """A table in the artifact store, or one of which a sample will be there."""

    # SHA-256 of the columns; of the files, until a sample of them is drawn.
    fingerprint: Fingerprint
    name: Name = "table"
    # The settings with which the table was prepared, for the report.
    settings: TableSettings | None = None
    notes: tuple[Annotated[str, Field(max_length=MAX_NOTE)], ...] = Field((), max_length=MAX_NOTES)
    # Omitted if all rows are in the store, so that older programs can read the document.
    many: ManyRows | None = Field(None, exclude_if=is_none)

    @property
    def needs_sample(self) -> bool:
        """True if the sample that is searched has to be drawn first."""
        return self.many is not None and self.many.drawn is None

    @model_validator(mode="after")
    def _check_many(self) -> Self:
        if self.many is not None and (self.settings is None or self.settings.target is None):
            raise ValueError("a dataset of many files needs settings with a target")
        return self


def _check_queue(queue: str) -> str:
    if queue.startswith(QUEUE_PREFIX):
        raise ValueError(f"it must be a queue of another service; names that begin with {QUEUE_PREFIX} are reserved")
    return queue


class Callback(_Document):
    """A Celery task that is called when the job has ended, with the keywords `job`, `state` and `digest`."""

    task: Name
    queue: Annotated[Name, AfterValidator(_check_queue)]


def _check_url(url: str) -> str:
    """Check that a URL can be posted to and contains no user name or password, which logs would show."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("it must begin with http:// or https:// and contain a host")
    if "@" in parts.netloc:
        raise ValueError("it must not contain a user name or password; use `secret` to sign the calls")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("spaces and non-ASCII characters must be escaped as %XX")
    if parts.port == 0:  # reading it also rejects invalid ports
        raise ValueError("port 0 is not a valid port")
    return url


class Webhook(_Document):
    """A URL that receives a POST when the job has ended, signed with the secret (see docs/cluster.md)."""

    url: Annotated[str, Field(max_length=2000), AfterValidator(_check_url)]
    # The key for HMAC-SHA256; without it, calls are not signed. Only the ledger and `to_json` contain it.
    secret: Annotated[str, Field(min_length=8, max_length=200)] | None = Field(None, repr=False)

    @property
    def origin(self) -> str:
        """The scheme and host, for logs; a path may contain secrets."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @field_serializer("secret")
    def _serialize_secret(self, secret: str | None, info: SerializationInfo) -> str | None:
        return secret if info.context and info.context.get(_REVEAL) else None


def _kind_of_callback(value: object) -> str:
    is_webhook = isinstance(value, Webhook) or (isinstance(value, dict) and "url" in value)
    return "webhook" if is_webhook else "task"


AnyCallback = Annotated[
    Annotated[Callback, Tag("task")] | Annotated[Webhook, Tag("webhook")], Discriminator(_kind_of_callback)
]


class JobSpec(_Document):
    """A job. The settings include the seed and the budget."""

    version: Literal[1] = 1
    id: JobId
    dataset: DatasetRef
    settings: MiningSettings = MiningSettings()
    priority: Priority = Priority.NORMAL
    tenant: Name = "default"
    callback: AnyCallback | None = None
    # The next three are omitted if they are None, so that older programs can read the document.

    # The uploaded dataset that the columns were prepared from, if any.
    dataset_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(None, exclude_if=is_none)
    # The client's name for the job, which logs contain.
    correlation: Correlation | None = Field(None, exclude_if=is_none)
    # The span of the client's request, if any.
    trace: Trace | None = Field(None, exclude_if=is_none)

    @classmethod
    def parse(cls, document: object) -> Self:
        """Validate a document."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise invalid_document(error) from None

    @property
    def work(self) -> str:
        """SHA-256 of everything that determines the result: the table's fingerprint and the settings, with the seed."""
        settings = json.dumps(self.settings.model_dump(mode="json"), sort_keys=True)
        return sha256(f"{self.dataset.fingerprint} {settings}".encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `parse`, including the secret of a webhook, which other serializations omit."""
        return dump_with_secrets(self)

    def to_text(self) -> str:
        """Return the same as JSON."""
        return self.model_dump_json(context={_REVEAL: True})


def dump_with_secrets(document: BaseModel) -> dict[str, Any]:
    """Return plain values, including the secret of a webhook."""
    return document.model_dump(mode="json", context={_REVEAL: True})


# A change of state that users can request for a job.
JobCommand = Literal["pause", "resume", "cancel"]
PAST_TENSE: dict[JobCommand, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


class _Record(BaseModel):
    # Readers ignore fields that a newer version adds.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Obstacle(_Record):
    """What keeps a job from advancing, and what to do about it."""

    # `queue`, `workers`, `busy`, `slow`, `paused`, `redis`, `broker`, `store` or `scheduler`; later versions may have
    # others.
    kind: Annotated[str, Field(max_length=50)]
    # A short sentence without a full stop.
    text: Annotated[str, Field(max_length=2000)]
    remedy: Annotated[str, Field(max_length=2000)] = ""
    since: float | None = None


def paused_obstacle(job: str) -> Obstacle:
    """The obstacle of a job that its owner has paused."""
    return Obstacle(kind="paused", text="paused by its owner", remedy=f"`maabo resume {short_id(job)}` continues it.")


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
    # Pairs and triples of features screened so far; None unless the job is screening.
    pairs_screened: int | None = None
    # The number of pairs and triples to screen.
    pairs: int | None = None
    # Rows that the current pass over a dataset has read; None unless there is one.
    rows_read: int | None = None
    # The rows that it reads.
    rows: int | None = None
    trees: int = 0
    planned: int | None = None
    # The first trees of a search that runs, and the running time until then, with its start and its screens.
    first_trees: int | None = None
    first_seconds: float | None = None
    # Searches on shuffled labels that are complete; None unless the job runs them.
    shuffles_done: int | None = None
    # The most that are needed.
    shuffles: int | None = None
    # Subsets that failed, for example by crashing their worker.
    failed: int = 0
    best_score: float | None = None
    # The number of rules so far; None if they were not mined yet.
    rules: int | None = None
    # The digest of the rules of a job that is done.
    digest: str | None = None
    # The reason of a failure, or of an end before the budget.
    reason: str | None = None
    # Why a job that has not ended does not advance; None if it does. While there is one, the time left is not known.
    obstacle: Obstacle | None = None


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
    # URL of the table directory; empty if there is none.
    tables: str = ""


class WorkerRecord(_Record):
    """The heartbeat of a worker, written every few seconds."""

    # Tasks that it can run at the same time, in processes or threads.
    processes: Annotated[int, Field(ge=1)]
    # Tasks that it is running.
    busy: Annotated[int, Field(ge=0)]
