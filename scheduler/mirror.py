"""`Mirror`: records, documents and events in Redis, for whoever follows a job. The ledger stays the truth."""

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import ValidationError

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.problem import Problem, without_secrets
from maabo_dist.contract.record import ClusterRecord, JobRecord
from scheduler.news import Event, News
from scheduler.parts import Parts

RECORDS_AT_ONCE = 500
EVENTS_KEPT = 1000
"""Of a job, about: so far back can somebody resume who follows it."""


class Mirror:
    """Writes what anyone may know; everything expires."""

    def __init__(self, parts: Parts) -> None:
        self._redis, self._settings = parts.redis, parts.settings
        self._news = News()

    def show(self, records: Iterable[JobRecord]) -> None:
        """Mirror records, all in one go, and tell of what changed."""
        with self._telling() as pipe:
            for record in records:
                pipe.set(self._key(names.JOB_RECORD, record.id), record.model_dump_json(), ex=self._lifetime)
                pipe.zadd(self._settings.key(names.JOB_LIST), {record.id: record.created})
                self._tell(pipe, record.id, self._news.of_record(record))

    def show_document(self, job: str, document: str | bytes) -> None:
        """Mirror rules, so far or final, and tell of new ones."""
        with self._telling() as pipe:
            pipe.set(self._key(names.JOB_DOCUMENT, job), document, ex=self._lifetime)
            self._tell(pipe, job, self._news.of_document(job, document))

    def has_record(self, job: str) -> bool:
        """Whether anyone can see the job."""
        return bool(self._redis.exists(self._key(names.JOB_RECORD, job)))

    def listed(self) -> Iterator[tuple[str, JobRecord | None]]:
        """All jobs in the list, each with its record if that has not expired."""
        jobs = [job.decode() for job in self._redis.zrange(self._settings.key(names.JOB_LIST), 0, -1)]
        for start in range(0, len(jobs), RECORDS_AT_ONCE):
            part = jobs[start : start + RECORDS_AT_ONCE]
            texts = self._redis.mget([self._key(names.JOB_RECORD, job) for job in part])
            for job, text in zip(part, texts, strict=True):
                with suppress(ValidationError):  # of another version: not for us to judge
                    yield job, None if text is None else JobRecord.model_validate_json(text)

    def forget(self, jobs: Iterable[str]) -> None:
        """Take away what is mirrored of jobs."""
        with self._redis.pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.delete(*(self._key(kind, job) for kind in names.OF_A_JOB))
                pipe.zrem(self._settings.key(names.JOB_LIST), job)
                self._news.forget(job)
            pipe.execute()

    def show_cluster(self, lifetime: float) -> None:
        """Say that a scheduler is here, and where tables go."""
        # An address with a password in it is nobody else's business; what clients leave in Redis is found too.
        store = "redis://" if "@" in self._settings.store_url else self._settings.store_url
        record = ClusterRecord(version=__version__, store=store, host=socket.gethostname())
        self._redis.set(self._settings.key(names.CLUSTER), record.model_dump_json(), px=int(lifetime * 1000))

    def refuse(self, request: bytes, problem: Problem) -> None:
        """Keep a refused request with its reason, but without its secrets, among the last thousand."""
        kept = _without_secrets(request)[:65536]
        entry = {"request": kept, "reason": problem.detail, "problem": json.dumps(problem.to_json())}
        self._redis.xadd(self._settings.key(names.REFUSED_STREAM), entry, maxlen=1000, approximate=True)

    @contextmanager
    def _telling(self) -> Iterator[Any]:
        """A pipeline. A record stands in it before the event that tells of it, so that who hears of it finds it."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                yield pipe
                pipe.execute()
        except BaseException:
            self._news.untold()
            raise
        self._news.told()

    def _tell(self, pipe: Any, job: str, event: Event | None) -> None:
        if event is not None:
            kind, data = event
            pipe.xadd(self._key(names.JOB_EVENTS, job), {kind: data}, maxlen=EVENTS_KEPT, approximate=True)
            pipe.expire(self._key(names.JOB_EVENTS, job), self._lifetime)

    def _key(self, kind: str, job: str) -> str:
        return self._settings.key(f"{kind}:{job}")

    @property
    def _lifetime(self) -> int:
        return max(1, int(self._settings.retention))


def _without_secrets(request: bytes) -> bytes:
    try:
        read = json.loads(request)
    except (ValueError, RecursionError):  # it is nothing of ours
        return request
    clean = without_secrets(read)
    return request if clean == read else json.dumps(clean).encode()
