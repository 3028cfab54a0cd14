"""`QueueClient`: a client of a cluster that talks to its Redis, and the upload of tables."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.settings import ClusterSettings, UnreachableError, check_url, redact_url, redis_errors
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import find_write_problem, open_redis, send_request
from maabo_dist.contract import names
from maabo_dist.contract.job import (
    PAST_TENSE,
    ClusterRecord,
    JobCommand,
    JobRecord,
    JobSpec,
    NoSuchJobError,
    Obstacle,
    is_applied,
    match_prefix,
    short_id,
)
from maabo_dist.contract.messages import Request
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import FormatError, InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns

Value = TypeVar("Value")
Record = TypeVar("Record", bound=BaseModel)

# Schedulers read requests many times a second. After this time without an answer, the request is sent again.
ANSWER_SECONDS = 5.0
ATTEMPTS = 3
# Schedulers apply commands every few seconds.
COMMAND_SECONDS = 20.0
# `follow` survives a Redis that is unreachable for up to this long.
OUTAGE_SECONDS = 60.0
# Schedulers publish the progress of running jobs every second. After this time without a change, `follow` asks why.
SILENT_SECONDS = 10.0
POLL_SECONDS = 0.05
FOLLOW_SECONDS = 0.5
RECORDS_PER_READ = 500


class UnansweredError(MaaboError):
    """No scheduler has processed a request; it may still happen."""


class QueueClient:
    """A client of a cluster that talks to its Redis.

    `note` receives messages for the user; `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        client: Any,
        *,
        note: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._redis, self._note, self._clock, self._sleep = settings, client, note, clock, sleep

    @classmethod
    def connect(cls, settings: ClusterSettings, note: Callable[[str], None]) -> Self:
        """Check that the Redis answers, before a table is read."""
        check_url(settings.redis_url)
        client = open_redis(settings)
        with redis_errors(settings.redis_url):
            client.ping()
        return cls(settings, client, note=note)

    @property
    def address(self) -> str:
        """The URL of the Redis, without its password."""
        return redact_url(self._settings.redis_url)

    def cluster(self) -> ClusterRecord | None:
        """Return what the schedulers publish about the cluster; None if none is running."""
        return _parse(ClusterRecord, self._get(names.CLUSTER))

    def find_silence(self) -> Obstacle | None:
        """Return why no scheduler publishes anything; None if one does."""
        if self.cluster() is not None:
            return None
        with redis_errors(self._settings.redis_url):
            problem = find_write_problem(self._redis, self._settings)
        if problem is not None:
            return Obstacle(kind="redis", text=problem.rstrip("."), remedy="Raise maxmemory of Redis.")
        return Obstacle(kind="scheduler", text="no scheduler is running", remedy="Start one: `python -m scheduler`.")

    def submit(self, spec: JobSpec, columns: "Columns | None") -> JobRecord:
        """Upload the table, submit the job, and return its record.

        `columns` is None if the table was just uploaded with another job. A job that is rejected has a record too:
        failed, with the reason.
        """
        if columns is not None:
            with redis_errors(self._settings.redis_url):
                self._upload(columns)
        request = Request(kind="submit", job=spec.id, document=spec.to_json())
        for _ in range(ATTEMPTS):
            self._send(request)
            record = self._wait_for(lambda: self._read(spec.id), ANSWER_SECONDS)
            if record is not None:
                return record
            if self.cluster() is None:
                break
        raise UnansweredError(
            f"{self._cause()} The job is queued at {self.address} and starts when a scheduler reads it; "
            f"`maabo watch {spec.id}` then follows it."
        )

    def send_command(self, job: str, command: JobCommand) -> JobRecord:
        """Send a command, and return the record once it has taken effect or the job has ended otherwise."""
        record = self.record(job)
        if record.state.ended:
            raise InputError(f"Job {short_id(job)} is {record.state.value}; it cannot be {PAST_TENSE[command]}.")
        self._send(Request(kind=command, job=job))
        changed = self._wait_for(lambda: self._read_applied(job, command), COMMAND_SECONDS)
        if changed is None:
            raise UnansweredError(
                f"{self._cause()} Job {short_id(job)} is not {PAST_TENSE[command]} yet; the request is queued."
            )
        return changed

    def record(self, job: str) -> JobRecord:
        """Return the record of a job. If Redis does not have it, the schedulers are asked to publish it again."""
        record = self._read(job)
        if record is None:
            self._send(Request(kind="look", job=job))
            record = self._wait_for(lambda: self._read(job), ANSWER_SECONDS)
        if record is None:
            hint = "" if self.cluster() else " No scheduler is running that could look it up in the ledger."
            raise NoSuchJobError(f"There is no job {short_id(job)} at {self.address}.{hint}")
        return record

    def find(self, prefix: str) -> JobRecord:
        """Return the only job whose id starts with this prefix."""
        key = self._settings.key(names.JOB_LIST)

        def list_ids(digits: str) -> list[str]:
            with redis_errors(self._settings.redis_url):
                return [name.decode() for name, _ in self._redis.zscan_iter(key, match=f"{digits}*", count=1000)]

        return self.record(match_prefix(prefix, list_ids))

    def jobs(self) -> list[JobRecord]:
        """Return all jobs that have a record, newest first."""
        with redis_errors(self._settings.redis_url):
            ids = self._redis.zrevrange(self._settings.key(names.JOB_LIST), 0, -1)
            keys = [self._settings.key(f"{names.JOB_RECORD}:{job.decode()}") for job in ids]
            chunks = [keys[start : start + RECORDS_PER_READ] for start in range(0, len(keys), RECORDS_PER_READ)]
            texts = [text for chunk in chunks for text in self._redis.mget(chunk)]
        return [record for text in texts if (record := _parse(JobRecord, text)) is not None]

    def document(self, job: str) -> ResultDocument | None:
        """Return the rules, final or so far; None if there are none yet."""
        text = self._get(f"{names.JOB_DOCUMENT}:{job}")
        return None if text is None else ResultDocument.parse_text(text)

    def final_document(self, job: str) -> ResultDocument:
        """Return the rules of a job that is done. They may arrive after its record, or have to be requested."""
        document = self._wait_for(lambda: self._read_final(job), ANSWER_SECONDS / 2)
        if document is None:
            self._send(Request(kind="look", job=job))
            document = self._wait_for(lambda: self._read_final(job), ANSWER_SECONDS)
        if document is None:
            raise UnansweredError(f"{self._cause()} Job {short_id(job)} is done, but {self.address} lacks its rules.")
        return document

    def follow(self, job: str) -> Iterator[JobRecord]:
        """Yield the record now, after every change, and when the job has ended."""
        record = shown = self.record(job)
        yield record
        last_read = last_change = self._clock()
        while not record.state.ended:
            self._sleep(FOLLOW_SECONDS)
            try:
                latest = self.record(job)
                silence = self.find_silence() if self._clock() - last_change > SILENT_SECONDS else None
            except (UnreachableError, NoSuchJobError):
                if self._clock() - last_read > OUTAGE_SECONDS:
                    raise
                continue
            last_read = self._clock()
            if latest != record:
                last_change = last_read
            record = latest
            # A record that nobody updates must not look like progress.
            latest = latest if silence is None else latest.model_copy(update={"obstacle": silence})
            if latest != shown:
                shown = latest
                yield shown

    def _upload(self, columns: "Columns") -> None:
        """Store the table in the store that the user named, else in the cluster's, else in Redis."""
        with TemporaryDirectory(prefix="maabo-") as folder:
            path = Path(folder) / "table"
            columns.save(path)
            name = f"columns/{columns.fingerprint}"
            if "store_url" in self._settings.model_fields_set:
                self._put(self._settings.store_url, name, path)
            elif not self._put_in_cluster_store(name, path):
                self._put("redis://", name, path)

    def _put_in_cluster_store(self, name: str, path: Path) -> bool:
        """Return True if the cluster's own store has the table now. A directory is usable only on its own machine."""
        cluster = self.cluster()
        if cluster is None or (urlsplit(cluster.store).scheme in {"", "file"} and cluster.host != gethostname()):
            return False
        try:
            self._put(cluster.store, name, path)
        except (SettingsError, StoreError) as error:
            # A lack of permission is normal where the cluster runs as its own user.
            if not isinstance(error.__cause__, PermissionError):
                self._note(f"{error} The table is sent through Redis instead.")
            return False
        return True

    def _put(self, store_url: str, name: str, path: Path) -> None:
        store = open_store(self._settings.model_copy(update={"store_url": store_url}), self._redis)
        stored = store.has(name)
        # Also if it is stored: that renews its age, so that it is not deleted before the job refers to it.
        store.put(name, path)
        if stored:
            self._note("the table is already stored.")

    def _read_applied(self, job: str, command: JobCommand) -> JobRecord | None:
        record = self._read(job)
        return record if record is not None and is_applied(record, command) else None

    def _read_final(self, job: str) -> ResultDocument | None:
        document = self.document(job)
        return None if document is None or document.running else document

    def _cause(self) -> str:
        return "No scheduler is running." if self.cluster() is None else "The schedulers did not respond."

    def _read(self, job: str) -> JobRecord | None:
        return _parse(JobRecord, self._get(f"{names.JOB_RECORD}:{job}"))

    def _get(self, name: str) -> bytes | None:
        with redis_errors(self._settings.redis_url):
            text: bytes | None = self._redis.get(self._settings.key(name))
            return text

    def _send(self, request: Request) -> None:
        with redis_errors(self._settings.redis_url):
            send_request(self._redis, self._settings, request)

    def _wait_for(self, read: Callable[[], Value | None], seconds: float) -> Value | None:
        end = self._clock() + seconds
        while (value := read()) is None and self._clock() < end:
            self._sleep(POLL_SECONDS)
        return value


def _parse(kind: type[Record], text: bytes | None) -> Record | None:
    try:
        return None if text is None else kind.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"])) or "record"
        raise FormatError(
            f"A {kind.__name__} is invalid: {field}: {problem['msg']}. Is this client older than the cluster?"
        ) from None
