"""`Scheduler`: the thin loop around the state machines. It reads streams, writes the ledger and sends tasks."""

import json
import logging
from collections.abc import Callable
from threading import Event
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import BODY, HEADER, results_stream
from maabo_dist.cluster.tables import TableCache
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.messages import Answer
from maabo_dist.errors import MaaboError
from maabo_dist.report import dump_document, result_document
from maabo_dist.trees.wire import unpack_forest
from scheduler.active import ActiveJob
from scheduler.ledger import FencedError, Ledger, LedgerError, ResultRow
from scheduler.machine import TaskKey

log = logging.getLogger("maabo.scheduler")

LEASE_SECONDS = 15.0
MOST_JOBS = 50
QUEUED_AHEAD = 8
"""Messages that wait in the broker: enough that no worker idles, few enough that a small job need not wait."""
LARGEST_TASK = 16_384
PAUSE = 0.02


class Scheduler:
    """One scheduler process. Any number may run on one ledger."""

    def __init__(
        self,
        settings: ClusterSettings,
        ledger: Ledger,
        client: Any,
        celery: Celery,
        cache: TableCache,
        owner: str,
        clock: Callable[[], float],
    ) -> None:
        self._settings, self._ledger, self._redis, self._celery = settings, ledger, client, celery
        self._cache, self._owner, self._clock = cache, owner, clock
        self._jobs: dict[str, ActiveJob] = {}
        self._next_upkeep = 0.0

    def run(self, stop: Event) -> None:
        """Turn until told to stop; then give the jobs back."""
        while not stop.is_set():
            try:
                busy = self.turn()
            except FencedError as error:
                log.warning("%s", error)
                self._jobs.pop(error.job, None)
                busy = True
            except (redis.RedisError, OperationalError, LedgerError) as error:
                log.warning("an outage: %s; trying again", error)
                busy = False
            if not busy:
                stop.wait(PAUSE)
        self._ledger.release([job.lease for job in self._jobs.values()], self._clock())

    def turn(self) -> bool:
        """Everything once; whether there was something to do."""
        now = self._clock()
        taken_in = self._take_in(now)
        if now >= self._next_upkeep:
            self._keep_up(now)
        gathered = self._gather(now)
        sent = self._dispatch(now)
        return taken_in or gathered or sent

    def _take_in(self, now: float) -> bool:
        """Job documents from the intake stream, into the ledger before they leave the stream."""
        stream = self._settings.key(names.INTAKE_STREAM)
        entries = self._redis.xrange(stream, count=100)
        for entry, fields in entries:
            try:
                spec = JobSpec.parse(json.loads(fields[HEADER]))
                self._ledger.add(spec, now)
                self._record(spec.id, JobState.QUEUED)
            except (MaaboError, KeyError, ValueError) as error:
                log.warning("a job document was refused: %s", error)
            self._redis.xdel(stream, entry)
        return bool(entries)

    def _keep_up(self, now: float) -> None:
        """Renew leases, hear what is wanted, take free jobs, send again what should have been answered."""
        self._next_upkeep = now + LEASE_SECONDS / 5
        held, wanted = self._ledger.renew([job.lease for job in self._jobs.values()], now, LEASE_SECONDS)
        for name in set(self._jobs) - {lease.job for lease in held}:
            log.warning("job %s went to another scheduler", name)
            del self._jobs[name]
        for name, wish in wanted.items():
            if wish == "cancel":
                self._end(self._jobs[name], now, JobState.CANCELLED)
        for lease in self._ledger.acquire(self._owner, now, LEASE_SECONDS, MOST_JOBS - len(self._jobs)):
            self._open(lease, now)
        self._resend(now)

    def _open(self, lease: Any, now: float) -> None:
        try:
            job = ActiveJob.opened(self._ledger, lease, self._cache, now)
        except MaaboError as error:
            log.warning("job %s cannot be run: %s", lease.job, error)
            self._ledger.write_state(lease, now, JobState.FAILED, finished=now, reason=str(error))
            self._record(lease.job, JobState.FAILED, reason=str(error))
            return
        self._jobs[lease.job] = job
        self._ledger.write_state(lease, now, JobState.RUNNING, started=job.started, planned=job.plan.trees)
        self._record(lease.job, JobState.RUNNING)
        self._finish_if_done(job, now)

    def _resend(self, now: float) -> None:
        """Only when the queue is empty: a task that still waits in it is not lost, there is just no worker free."""
        if self._redis.llen(self._settings.key(names.EVALUATE_QUEUE)):
            return
        for job in self._jobs.values():
            for key, _ in job.machine.overdue(now):
                job.machine.again(key)

    def _gather(self, now: float) -> bool:
        """Answers, into the ledger before they leave the stream."""
        streams = {results_stream(self._settings, name): "0" for name in self._jobs}
        if not streams:
            return False
        found = self._redis.xread(streams, count=50)
        for stream, entries in found:
            job = self._jobs.get(stream.decode().rsplit(":", 1)[1])
            if job is not None:
                for entry, fields in entries:
                    self._hear(job, fields, now)
                    self._redis.xdel(stream, entry)
                self._finish_if_done(job, now)
        return bool(found)

    def _hear(self, job: ActiveJob, fields: dict[bytes, bytes], now: float) -> None:
        try:
            answer = Answer.read(fields.get(HEADER, b""))
            key = TaskKey(answer.batch, answer.start, answer.stop)
            if answer.kind == "done":
                self._accept(job, key, answer, fields.get(BODY, b""), now)
                return
        except MaaboError as error:
            log.warning("job %s: an answer was refused: %s", job.lease.job, error)
            return
        log.warning("job %s: batch %d: %s", job.lease.job, answer.batch, answer.reason)
        given_up = job.machine.lost(key, answer.attempt)
        if given_up is not None and job.machine.give_up(given_up):
            row = ResultRow(given_up.batch, given_up.start, given_up.stop, b"", answer.reason)
            self._write(job, row, answer.seconds, now)

    def _accept(self, job: ActiveJob, key: TaskKey, answer: Answer, body: bytes, now: float) -> None:
        if not job.machine.is_open(key):
            return
        forest = unpack_forest(body, job.machine.subsets(key))
        job.machine.answer(key, forest)
        job.learn_speed(key.size, answer.seconds)
        self._write(job, ResultRow(key.batch, key.start, key.stop, body, None), answer.seconds, now)

    def _write(self, job: ActiveJob, row: ResultRow, seconds: float, now: float) -> None:
        run = job.machine.run
        self._ledger.write_results(job.lease, now, [(row, seconds)], run.grown, run.best_score)
        for number, subsets in job.machine.propose():
            self._ledger.write_batch(job.lease, now, number, subsets.astype("<i4").tobytes())

    def _dispatch(self, now: float) -> bool:
        """Fill the queue a little, each time from the job that has least under way for its share."""
        room = QUEUED_AHEAD - self._redis.llen(self._settings.key(names.EVALUATE_QUEUE))
        sent = 0
        waiting = list(self._jobs.values())
        while sent < room and waiting:
            job = min(waiting, key=lambda j: ((j.machine.in_flight + 1) / j.spec.priority.share, j.lease.job))
            if self._send(job, now):
                sent += 1
            else:
                waiting.remove(job)
        return sent > 0

    def _send(self, job: ActiveJob, now: float) -> bool:
        size = int(self._settings.task_seconds / max(job.seconds_a_subset, 1e-6))
        task = job.machine.next_task(max(1, min(size, LARGEST_TASK)))
        if task is None:
            return False
        key, attempt, subsets = task
        self._ledger.write_tasks(job.lease, now, [(key.batch, key.start, key.stop, attempt)])
        expected = key.size * job.seconds_a_subset
        job.machine.sent(key, attempt, deadline=now + 5.0 + 20 * expected)
        message = job.message(key, attempt, subsets)
        self._celery.send_task(
            names.EVALUATE,
            kwargs=message.model_dump(mode="json"),
            queue=names.EVALUATE_QUEUE,
            argsrepr=message.argsrepr,
            kwargsrepr="",
        )
        return True

    def _finish_if_done(self, job: ActiveJob, now: float) -> None:
        if not job.machine.finished or job.lease.job not in self._jobs:
            return
        self._ledger.write_state(job.lease, now, JobState.MINING)
        result = job.result(self._clock())
        document = result_document(result, {"name": job.spec.dataset.name})
        self._end(job, now, JobState.DONE, digest=result.digest, document=dump_document(document))

    def _end(self, job: ActiveJob, now: float, state: JobState, **values: Any) -> None:
        self._ledger.write_state(job.lease, now, state, finished=now, **values)
        del self._jobs[job.lease.job]
        self._redis.delete(results_stream(self._settings, job.lease.job))
        self._record(job.lease.job, state, **{k: v for k, v in values.items() if k != "document"})

    def _record(self, job: str, state: JobState, **values: Any) -> None:
        """Mirror what clients may know; the ledger stays the truth."""
        record = json.dumps({"id": job, "state": state.value} | values)
        self._redis.set(self._settings.key(f"{names.JOB_RECORD}:{job}"), record, ex=int(self._settings.retention))
