"""How a client's table comes to the cluster: into its artifact store or, where that cannot be used, its Redis."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from maabo_dist.cluster.address import UnreachableError, check_url, redact_url, redis_errors
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import ArtifactStore, StoreError
from maabo_dist.cluster.streams import open_redis, send_request
from maabo_dist.contract import names
from maabo_dist.contract.ids import DIGITS, NoSuchJobError, match_one, parse_prefix, short_id
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import Request
from maabo_dist.contract.record import PAST_TENSE, ClusterRecord, JobCommand, JobRecord, is_applied
from maabo_dist.errors import FormatError, InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns


Say = Callable[[str], None]


def deliver(
    columns: "Columns", settings: ClusterSettings, cluster: ClusterRecord | None, client: Any, say: Say
) -> None:
    """Store the table under its fingerprint: in the store that the user named, else in the cluster's, else in Redis."""
    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "table"
        columns.save(path)
        table = _Table(f"columns/{columns.fingerprint}", path, say)
        if "store_url" in settings.model_fields_set:
            table.put(open_store(settings, client))
        elif cluster is None or not _put_in_reach(table, cluster, settings, client):
            table.put(open_store(_with_store(settings, "redis://"), client))


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    path: Path
    say: Say

    def put(self, store: ArtifactStore) -> None:
        stored = store.has(self.name)
        # Put even then: its age starts anew, so that it is not swept away before the job names it.
        store.put(self.name, self.path)
        if stored:
            self.say("table already stored")


def _put_in_reach(table: _Table, cluster: ClusterRecord, settings: ClusterSettings, client: Any) -> bool:
    """Whether the cluster's own store has the table now. A directory is in reach on its own machine only."""
    if urlsplit(cluster.store).scheme in {"", "file"} and cluster.host != gethostname():
        return False
    try:
        table.put(open_store(_with_store(settings, cluster.store), client))
    except (SettingsError, StoreError) as error:
        # Not to be permitted is common where the cluster has a user of its own.
        if not isinstance(error.__cause__, PermissionError):
            table.say(f"{error} The table goes through Redis instead.")
        return False
    return True


def _with_store(settings: ClusterSettings, url: str) -> ClusterSettings:
    return settings.model_copy(update={"store_url": url})


Found = TypeVar("Found")
Record = TypeVar("Record", bound=BaseModel)

ANSWER_SECONDS = 5.0
"""A scheduler takes requests in many times a second. When it has said nothing for so long, it is asked again."""
ATTEMPTS = 3
EFFECT_SECONDS = 20.0
"""Wishes are heard every few seconds."""
OUTAGE_SECONDS = 60.0
"""Who has followed a job for hours does not give up because Redis restarts."""
LOOK_PAUSE = 0.05
FOLLOW_PAUSE = 0.5
RECORDS_AT_ONCE = 500


class UnansweredError(MaaboError):
    """No scheduler has done what was asked; it may still happen."""


class QueueClient:
    """A cluster, seen through its Redis.

    `say` hears what a person may want to know on the way; `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        client: Any,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._redis, self._say, self._clock, self._sleep = settings, client, say, clock, sleep

    @classmethod
    def connected(cls, settings: ClusterSettings, say: Callable[[str], None]) -> Self:
        """A client whose Redis has answered: a wrong address is met before a table is read."""
        check_url(settings.redis_url)
        client = open_redis(settings)
        with redis_errors(settings.redis_url):
            client.ping()
        return cls(settings, client, say=say)

    @property
    def address(self) -> str:
        """Of the Redis, without its password."""
        return redact_url(self._settings.redis_url)

    def cluster(self) -> ClusterRecord | None:
        """What the schedulers say of the cluster; None when none is running."""
        return _parsed(ClusterRecord, self._get(names.CLUSTER))

    def submit(self, spec: JobSpec, columns: "Columns | None") -> JobRecord:
        """Bring the table to the cluster, unless it is there, and ask for the job; its record, once it has one.

        None is a table that was just brought with another job. A job that was refused has a record too: failed, with
        the reason.
        """
        if columns is not None:
            with redis_errors(self._settings.redis_url):
                deliver(columns, self._settings, self.cluster(), self._redis, self._say)
        request = Request(kind="submit", job=spec.id, document=spec.to_json())
        for _ in range(ATTEMPTS):
            self._send(request)
            record = self._wait_for(lambda: self._read(spec.id), ANSWER_SECONDS)
            if record is not None:
                return record
            if self.cluster() is None:
                break
        raise UnansweredError(
            f"{self._silence()} The job waits in the queue at {self.address} and starts with the next scheduler that "
            f"looks there; `maabo watch {spec.id}` then follows it."
        )

    def ask(self, job: str, wish: JobCommand) -> JobRecord:
        """Ask for a change to a job. Its record once the change shows, or once the job has ended in another way."""
        record = self.record(job)
        if record.state.ended:
            raise InputError(f"Job {short_id(job)} is {record.state.value}; it cannot be {PAST_TENSE[wish]}.")
        self._send(Request(kind=wish, job=job))
        changed = self._wait_for(lambda: self._changed(job, wish), EFFECT_SECONDS)
        if changed is None:
            raise UnansweredError(
                f"{self._silence()} Job {short_id(job)} is not {PAST_TENSE[wish]} yet; the request waits in the queue."
            )
        return changed

    def record(self, job: str) -> JobRecord:
        """Where a job stands. A record that is gone from Redis is asked for: the ledger may still know the job."""
        record = self._read(job)
        if record is None:
            self._send(Request(kind="look", job=job))
            record = self._wait_for(lambda: self._read(job), ANSWER_SECONDS)
        if record is None:
            silent = "" if self.cluster() else " No scheduler is running that could look further."
            raise NoSuchJobError(f"There is no job {short_id(job)} at {self.address}.{silent}")
        return record

    def find(self, prefix: str) -> JobRecord:
        """The job of this id, or the only one whose id begins so."""
        digits = parse_prefix(prefix)
        return self.record(digits if len(digits) == DIGITS else match_one(digits, self._ids(digits)))

    def jobs(self) -> list[JobRecord]:
        """All jobs that have a record, newest first."""
        with redis_errors(self._settings.redis_url):
            ids = self._redis.zrevrange(self._settings.key(names.JOB_LIST), 0, -1)
            keys = [self._settings.key(f"{names.JOB_RECORD}:{job.decode()}") for job in ids]
            parts = [keys[start : start + RECORDS_AT_ONCE] for start in range(0, len(keys), RECORDS_AT_ONCE)]
            texts = [text for part in parts for text in self._redis.mget(part)]
        return [record for text in texts if (record := _parsed(JobRecord, text)) is not None]

    def document(self, job: str) -> str | None:
        """The rules as the JSON of `maabo mine`: final, or so far while the job runs; None before anyone has looked."""
        text = self._get(f"{names.JOB_DOCUMENT}:{job}")
        return None if text is None else text.decode()

    def final_document(self, job: str) -> str:
        """The rules of a job that is done. They may come a moment after its record, or have to be asked for."""
        text = self._wait_for(lambda: self._final(job), ANSWER_SECONDS / 2)
        if text is None:
            self._send(Request(kind="look", job=job))
            text = self._wait_for(lambda: self._final(job), ANSWER_SECONDS)
        if text is None:
            raise UnansweredError(
                f"{self._silence()} Job {short_id(job)} is done, but its rules are not at {self.address}."
            )
        return text

    def follow(self, job: str) -> Iterator[JobRecord]:
        """The record now, whenever it changes, and when the job has ended."""
        record = self.record(job)
        yield record
        seen = self._clock()
        while not record.state.ended:
            self._sleep(FOLLOW_PAUSE)
            try:
                latest = self.record(job)
            except (UnreachableError, NoSuchJobError):
                if self._clock() - seen > OUTAGE_SECONDS:
                    raise
                continue
            seen = self._clock()
            if latest != record:
                record = latest
                yield record

    def _ids(self, prefix: str) -> list[str]:
        key = self._settings.key(names.JOB_LIST)
        with redis_errors(self._settings.redis_url):
            # A scan may give an id twice.
            return sorted({name.decode() for name, _ in self._redis.zscan_iter(key, match=f"{prefix}*", count=1000)})

    def _changed(self, job: str, wish: JobCommand) -> JobRecord | None:
        """The record if the wish has come true, or no longer can."""
        record = self._read(job)
        return record if record is not None and is_applied(record, wish) else None

    def _final(self, job: str) -> str | None:
        text = self.document(job)
        return None if text is None or json.loads(text)["search"]["stopped"] == "running" else text

    def _silence(self) -> str:
        return "No scheduler is running." if self.cluster() is None else "The schedulers have not answered."

    def _read(self, job: str) -> JobRecord | None:
        return _parsed(JobRecord, self._get(f"{names.JOB_RECORD}:{job}"))

    def _get(self, name: str) -> bytes | None:
        with redis_errors(self._settings.redis_url):
            text: bytes | None = self._redis.get(self._settings.key(name))
            return text

    def _send(self, request: Request) -> None:
        with redis_errors(self._settings.redis_url):
            send_request(self._redis, self._settings, request)

    def _wait_for(self, look: Callable[[], Found | None], seconds: float) -> Found | None:
        end = self._clock() + seconds
        while (found := look()) is None and self._clock() < end:
            self._sleep(LOOK_PAUSE)
        return found


def _parsed(kind: type[Record], text: bytes | None) -> Record | None:
    try:
        return None if text is None else kind.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "record"
        raise FormatError(
            f"A {kind.__name__} does not read: {where}: {problem['msg']}. Is this client older than the cluster?"
        ) from None
