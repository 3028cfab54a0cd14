"""`News`: what changed of a job since it was shown last, as events for whoever follows it.

    record   ──► state      its state changed: the record
             ──► progress   anything else but its seconds changed: the record
    document ──► rules      the rules changed: how many there are, and the new ones

An event is one JSON object on one line. Each process remembers what it showed itself, so that a job that goes to
another scheduler is told of once more; nobody is told less for it.
"""

import json
import socket
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from redis import RedisError

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.problem import Problem, redact_secrets
from maabo_dist.contract.record import ClusterRecord, JobRecord
from maabo_dist.contract.result import ResultDocument, RuleRecord
from maabo_dist.errors import FormatError
from scheduler.core.job import HeldJob
from scheduler.metrics import BATCHES_IN_FLIGHT, TASKS_IN_FLIGHT, TASKS_UNSENT, MetricDefinition
from scheduler.resources import Resources

STATE, PROGRESS, RULES = "state", "progress", "rules"
REMEMBERED = 5000
"""Jobs; one that was forgotten is told of as if it were new."""
MOST_RULES = 20
"""New rules in one event; the document has them all."""
LONGEST_TEXT = 500

Event = tuple[str, str]
"""Its kind, and its data as JSON."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown of a job."""

    record: JobRecord | None = None
    """Without its seconds, which always change."""
    rules: tuple[str, bool] | None = None
    """Their digest, and whether they are partial."""
    texts: frozenset[int] = frozenset()
    """Hashes of the rules' sentences."""


@dataclass(slots=True)
class News:
    """Finds events, and remembers what was told once it has been."""

    _shown: OrderedDict[str, Shown] = field(default_factory=OrderedDict)
    _found: dict[str, Shown] = field(default_factory=dict)

    def of_record(self, record: JobRecord) -> Event | None:
        """The event that a record makes."""
        known, plain = self._known(record.id), record.model_copy(update={"seconds": 0.0})
        if plain == known.record:
            return None
        self._found[record.id] = replace(known, record=plain)
        moved = known.record is None or known.record.state is not record.state
        return (STATE if moved else PROGRESS), record.model_dump_json()

    def of_document(self, job: str, document: str | bytes) -> Event | None:
        """The event that rules make, so far or final; none if they are of a form that only another version knows."""
        try:
            return self._of_rules(job, ResultDocument.parse_text(document))
        except FormatError:
            return None

    def _of_rules(self, job: str, document: ResultDocument) -> Event | None:
        known, digest, partial = self._known(job), document.digest, document.running
        if known.rules == (digest, partial):
            return None
        texts = [hash(rule.text) for rule in document.rules]
        fresh = [rule for rule, text in zip(document.rules, texts, strict=True) if text not in known.texts]
        said = {
            "rules": len(texts),
            "partial": partial,
            "digest": digest,
            "new": [_told(rule) for rule in fresh[:MOST_RULES]],
            "new_total": len(fresh),
            "gone": len(known.texts.difference(texts)),
        }
        data = json.dumps(said, allow_nan=False)
        self._found[job] = replace(known, rules=(digest, partial), texts=frozenset(texts))
        return RULES, data

    def told(self) -> None:
        """What was found has reached Redis."""
        for job, shown in self._found.items():
            self._shown[job] = shown
            self._shown.move_to_end(job)
        self._found.clear()
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)

    def untold(self) -> None:
        """It has not, and is to be found again."""
        self._found.clear()

    def forget(self, job: str) -> None:
        """The job is gone."""
        self._shown.pop(job, None)

    def _known(self, job: str) -> Shown:
        return self._found.get(job) or self._shown.get(job) or Shown()


def _told(rule: RuleRecord) -> dict[str, Any]:
    return {
        "id": rule.id,
        "text": rule.text[:LONGEST_TEXT],
        "class": rule.label[:LONGEST_TEXT],
        "n": rule.n,
        "gini": rule.gini,
        "precision": rule.validation.precision,
    }


RECORDS_AT_ONCE = 500
EVENTS_KEPT = 1000
"""Of a job, about: so far back can somebody resume who follows it."""


class Mirror:
    """Writes what anyone may know; everything expires."""

    def __init__(self, resources: Resources) -> None:
        self._redis, self._settings = resources.redis, resources.settings
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
                pipe.delete(*(self._key(kind, job) for kind in names.JOB_KEYS))
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
    clean = redact_secrets(read)
    return request if clean == read else json.dumps(clean).encode()


SHOW_EVERY, REFRESH_EVERY = 1.0, 20.0
KEPT = 60
"""Seconds after which a scheduler of which nothing is heard is not shown any more."""


class MetricsPublisher:
    """Writes when something changed, and now and then so that what is shown does not expire."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._redis, self._metrics = resources.redis, resources.metrics
        self._key = resources.settings.key(f"{names.METERS}:{owner}")
        self._task_seconds = resources.settings.task_seconds
        self._shown = ""
        self._next = self._refresh = 0.0

    def show(self, jobs: Collection[HeldJob], now: float, *, at_once: bool = False) -> None:
        """Show the meters, if it is time, with what is under way for these jobs.

        Nothing that goes wrong here is worth an outage: the next attempt shows the same and more.
        """
        if now < self._next and not at_once:
            return
        self._next = now + SHOW_EVERY
        self._measure(jobs)
        text = self._metrics.reading().model_dump_json()
        if text == self._shown and now < self._refresh:
            return
        try:
            self._redis.set(self._key, text, ex=KEPT)
        except RedisError:
            return
        self._shown, self._refresh = text, now + REFRESH_EVERY

    def _measure(self, jobs: Collection[HeldJob]) -> None:
        self._metrics.show(BATCHES_IN_FLIGHT, sum(job.batches_under_way for job in jobs))
        self._show_tasks(TASKS_IN_FLIGHT, [job.tasks_under_way for job in jobs])
        self._show_tasks(TASKS_UNSENT, [job.tasks_to_come(self._task_seconds) for job in jobs])

    def _show_tasks(self, metric: MetricDefinition, of_jobs: Sequence[Mapping[str, int]]) -> None:
        for task in metric.values:
            self._metrics.show(metric, sum(tasks.get(task, 0) for tasks in of_jobs), task)
