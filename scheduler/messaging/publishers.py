"""Publishes tasks through the broker, and the state of jobs, of the cluster and of metrics in Redis.

`ChangeFeed` turns what changed since the last publication of a job into events for subscribers:

    record   ──► state      its state changed: the record
             ──► progress   anything but its seconds changed: the record
    document ──► rules      the rules changed: how many there are, and the new ones

An event is one JSON object on one line. Each process remembers only what it published itself, so the first events after
another scheduler takes over a job repeat its state; no change is left out.
"""

import json
import socket
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kombu.entity import Queue
from pydantic import ValidationError
from redis import RedisError

from maabo_dist._version import __version__
from maabo_dist.cluster.broker import HARD_LIMIT_FACTOR
from maabo_dist.cluster.streams import add_refused
from maabo_dist.contract import names
from maabo_dist.contract.job import Callback, ClusterRecord, JobRecord
from maabo_dist.contract.messages import CountMessage, EvaluateMessage, RulesMessage, ScreenMessage, ShuffleMessage
from maabo_dist.contract.problem import Problem
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.errors import FormatError
from scheduler.messaging.envelopes import Envelopes
from scheduler.resources import RedisBroker, Resources

TaskMessage = EvaluateMessage | ScreenMessage | ShuffleMessage | CountMessage | RulesMessage

# The task name and queue of each message; all but rules go to the workers that evaluate.
_ROUTES = {
    EvaluateMessage: (names.EVALUATE, names.EVALUATE_QUEUE),
    ScreenMessage: (names.SCREEN, names.EVALUATE_QUEUE),
    ShuffleMessage: (names.SHUFFLE, names.EVALUATE_QUEUE),
    CountMessage: (names.COUNT, names.EVALUATE_QUEUE),
    RulesMessage: (names.RULES, names.RULES_QUEUE),
}


# A slow worker may take this multiple of the expected time.
SLOW_FACTOR = 10


class TaskPublisher:
    """Publishes tasks for workers, and callbacks to other services."""

    def __init__(self, resources: Resources) -> None:
        self._celery, self._broker = resources.celery, resources.broker
        self._envelopes = Envelopes(resources.celery)
        self._task_limit = resources.settings.task_limit

    def publish(self, messages: Sequence[TaskMessage]) -> None:
        """Send tasks to the workers."""
        if isinstance(self._broker, RedisBroker):
            self._push(self._broker, messages)
        else:
            self.send_with_celery(messages)

    def _push(self, broker: RedisBroker, messages: Sequence[TaskMessage]) -> None:
        items: dict[str, list[str]] = {}
        for message in messages:
            name, queue = _ROUTES[type(message)]
            limits = self._time_limits(message)
            hard, soft = limits.get("time_limit"), limits.get("soft_time_limit")
            item = self._envelopes.make(name, queue, message.model_dump_json(), message.argsrepr, (hard, soft))
            items.setdefault(queue, []).append(item)
        for queue, envelopes in items.items():
            broker.push(queue, envelopes)

    def send_with_celery(self, messages: Sequence[TaskMessage]) -> None:
        """Send tasks as every Celery client does."""
        with self._broker.sending() as producer:
            for message in messages:
                name, queue = _ROUTES[type(message)]
                self._celery.send_task(
                    name,
                    kwargs=message.model_dump(mode="json"),
                    queue=queue,
                    producer=producer,
                    retry=False,
                    argsrepr=message.argsrepr,
                    kwargsrepr="",
                    # The ledger has them: RabbitMQ need not write them to its disk before it confirms.
                    delivery_mode="transient",
                    **self._time_limits(message),
                )

    def _time_limits(self, message: TaskMessage) -> dict[str, float]:
        """A whole search on one core, or a large row group, may take longer than the limit that other tasks have."""
        if not isinstance(message, ShuffleMessage | CountMessage) or SLOW_FACTOR * message.expected <= self._task_limit:
            return {}
        limit = SLOW_FACTOR * message.expected
        return {"soft_time_limit": limit, "time_limit": limit * HARD_LIMIT_FACTOR}

    def call_back(self, callback: Callback, values: dict[str, object]) -> None:
        """Send a task to another service."""
        with self._broker.sending() as producer:
            self._celery.send_task(
                callback.task, kwargs=values, queue=Queue(callback.queue), producer=producer, retry=False
            )


STATE, PROGRESS, RULES = "state", "progress", "rules"
# Older jobs are treated as new.
MAX_JOBS_REMEMBERED = 5000
# New rules in one event; the document has them all.
MAX_RULES = 20
MAX_TEXT = 500
# Records read in one command.
MAX_RECORDS = 500
# Events kept of a job, approximately; a subscriber can resume this far back.
MAX_EVENTS = 1000
PUBLISH_SECONDS, REFRESH_SECONDS = 1.0, 20.0
# The metrics of a scheduler that does not write them any more are dropped after this time.
METRICS_EXPIRE_SECONDS = 60

# The kind, and the data as JSON.
Event = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The last publication of a job."""

    # Without its seconds, which always change.
    record: JobRecord | None = None
    # The digest of the rules, and True if they are partial.
    rules: tuple[str, bool] | None = None
    # Hashes of the rules' texts.
    texts: frozenset[int] = frozenset()


@dataclass(slots=True)
class ChangeFeed:
    """Finds the events of changes; `commit` remembers them as published."""

    _published: OrderedDict[str, PublishedState] = field(default_factory=OrderedDict)
    _pending: dict[str, PublishedState] = field(default_factory=dict)

    def record_event(self, record: JobRecord) -> Event | None:
        """The event of a record, or None if nothing changed."""
        last, plain = self._last(record.id), record.model_copy(update={"seconds": 0.0})
        if plain == last.record:
            return None
        self._pending[record.id] = replace(last, record=plain)
        moved = last.record is None or last.record.state is not record.state
        return (STATE if moved else PROGRESS), record.model_dump_json()

    def document_event(self, job: str, document: str | bytes) -> Event | None:
        """The event of a result document; None if nothing changed, or if another version wrote it."""
        try:
            result = ResultDocument.parse_text(document)
        except FormatError:
            return None
        last, digest, partial = self._last(job), result.digest, result.running
        if last.rules == (digest, partial):
            return None
        texts = [hash(rule.text) for rule in result.rules]
        new = [rule for rule, text in zip(result.rules, texts, strict=True) if text not in last.texts]
        event = {
            "rules": len(texts),
            "partial": partial,
            "digest": digest,
            "new": [_summarize(rule) for rule in new[:MAX_RULES]],
            "new_total": len(new),
            "gone": len(last.texts.difference(texts)),
        }
        data = json.dumps(event, allow_nan=False)
        self._pending[job] = replace(last, rules=(digest, partial), texts=frozenset(texts))
        return RULES, data

    def commit(self) -> None:
        """Remember the pending events as published."""
        for job, state in self._pending.items():
            self._published[job] = state
            self._published.move_to_end(job)
        self._pending.clear()
        while len(self._published) > MAX_JOBS_REMEMBERED:
            self._published.popitem(last=False)

    def roll_back(self) -> None:
        """Discard the pending events, which are found again next time."""
        self._pending.clear()

    def forget(self, job: str) -> None:
        """Forget a deleted job."""
        self._published.pop(job, None)

    def _last(self, job: str) -> PublishedState:
        return self._pending.get(job) or self._published.get(job) or PublishedState()


def _summarize(rule: RuleRecord) -> dict[str, Any]:
    return {
        "id": rule.id,
        "text": rule.text[:MAX_TEXT],
        "class": rule.label[:MAX_TEXT],
        "n": rule.n,
        "gini": rule.gini,
        "precision": rule.validation.precision,
    }


class StatusPublisher:
    """Writes public records, documents and events; everything expires."""

    def __init__(self, resources: Resources) -> None:
        self._redis, self._settings = resources.redis, resources.settings
        self._lifetime = max(1, int(self._settings.retention))
        self._feed = ChangeFeed()

    def publish(self, records: Iterable[JobRecord]) -> None:
        """Write records, and the events of their changes."""
        with self._pipeline() as pipe:
            for record in records:
                pipe.set(self._key(names.JOB_RECORD, record.id), record.model_dump_json(), ex=self._lifetime)
                pipe.zadd(self._settings.key(names.JOB_LIST), {record.id: record.created})
                self._add_event(pipe, record.id, self._feed.record_event(record))

    def publish_document(self, job: str, document: str | bytes) -> None:
        """Write a partial or final result document, and the event of new rules."""
        with self._pipeline() as pipe:
            pipe.set(self._key(names.JOB_DOCUMENT, job), document, ex=self._lifetime)
            self._add_event(pipe, job, self._feed.document_event(job, document))

    def has_record(self, job: str) -> bool:
        """True if a record of the job is published."""
        return bool(self._redis.exists(self._key(names.JOB_RECORD, job)))

    def published(self) -> Iterator[tuple[str, JobRecord | None]]:
        """All listed jobs, each with its record unless that has expired."""
        jobs = [job.decode() for job in self._redis.zrange(self._settings.key(names.JOB_LIST), 0, -1)]
        for start in range(0, len(jobs), MAX_RECORDS):
            some = jobs[start : start + MAX_RECORDS]
            texts = self._redis.mget([self._key(names.JOB_RECORD, job) for job in some])
            for job, text in zip(some, texts, strict=True):
                with suppress(ValidationError):  # written by another version
                    yield job, None if text is None else JobRecord.model_validate_json(text)

    def remove(self, jobs: Iterable[str]) -> None:
        """Remove everything published of jobs."""
        with self._redis.pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.delete(*(self._key(kind, job) for kind in names.JOB_KEYS))
                pipe.zrem(self._settings.key(names.JOB_LIST), job)
                self._feed.forget(job)
            pipe.execute()

    def publish_cluster(self, lifetime: float) -> None:
        """Announce that a scheduler is running, and where tables are stored."""
        # An address with a password is not published; what clients put into Redis is found as well.
        store = "redis://" if "@" in self._settings.store_url else self._settings.store_url
        tables = "" if "@" in self._settings.tables_url else self._settings.tables_url
        record = ClusterRecord(version=__version__, store=store, host=socket.gethostname(), tables=tables)
        self._redis.set(self._settings.key(names.CLUSTER), record.model_dump_json(), px=int(lifetime * 1000))

    def add_refused(self, stream: str, data: bytes, problem: Problem) -> None:
        """Keep a refused entry of a stream with its reason, but without its secrets."""
        add_refused(self._redis, self._settings, f"stream {stream}", data, problem)

    @contextmanager
    def _pipeline(self) -> Iterator[Any]:
        """Records come before their events in the pipeline, so that a subscriber finds them."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                yield pipe
                pipe.execute()
        except BaseException:
            self._feed.roll_back()
            raise
        self._feed.commit()

    def _add_event(self, pipe: Any, job: str, event: Event | None) -> None:
        if event is not None:
            kind, data = event
            pipe.xadd(self._key(names.JOB_EVENTS, job), {kind: data}, maxlen=MAX_EVENTS, approximate=True)
            pipe.expire(self._key(names.JOB_EVENTS, job), self._lifetime)

    def _key(self, kind: str, job: str) -> str:
        return self._settings.key(f"{kind}:{job}")


class MetricsPublisher:
    """Writes a scheduler's metrics when they changed, and before they expire."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._redis, self._metrics = resources.redis, resources.metrics
        self._key = resources.settings.key(f"{names.METERS}:{owner}")
        self._text = ""
        self._next = self._refresh = 0.0

    def is_due(self, now: float) -> bool:
        """True if the metrics were not written recently."""
        return now >= self._next

    def publish(self, now: float) -> None:
        """Write the metrics. A failure is ignored: the next attempt writes the same and more."""
        self._next = now + PUBLISH_SECONDS
        text = self._metrics.snapshot().model_dump_json()
        if text == self._text and now < self._refresh:
            return
        try:
            self._redis.set(self._key, text, ex=METRICS_EXPIRE_SECONDS)
        except RedisError:
            return
        self._text, self._refresh = text, now + REFRESH_SECONDS
