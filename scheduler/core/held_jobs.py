"""`HeldJobs`: the jobs that this scheduler holds, from their start to their end, pause or loss."""

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import ceil
from typing import Any

import redis

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import results_stream
from maabo_dist.cluster.tracing import Span
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState, paused_obstacle
from maabo_dist.errors import MaaboError
from scheduler import metrics
from scheduler.core.job import CertifyingJob, HeldJob, JobEnd, ScreeningJob, SearchingJob
from scheduler.core.obstacles import Obstacles
from scheduler.core.passes import PassJob
from scheduler.ledger.database import LedgerError
from scheduler.ledger.leases import FencedError, Lease
from scheduler.messaging.publishers import StatusPublisher
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.scheduler")

# Errors of other services: the scheduler waits and tries again.
OUTAGES = (redis.RedisError, LedgerError, StoreError, BrokerError, OSError)


# How long workers can learn that a job has ended: longer than most tasks take.
ENDED_SECONDS = 3600


class HeldJobs:
    """Jobs by their ids. Their state in memory is never ahead of the ledger for long."""

    def __init__(self, resources: Resources, status: StatusPublisher) -> None:
        self._resources, self._ledger, self._metrics = resources, resources.ledger, resources.metrics
        self._status = status
        # Trace spans, children of the requests' spans and parents of the tasks' spans.
        self._spans: dict[str, Span] = {}
        self.by_id: dict[str, HeldJob] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self.by_id.values()))

    def add(self, job: HeldJob, now: float) -> None:
        """Hold a job that was opened, and publish that it runs."""
        name = job.lease.job
        self.by_id[name] = job
        if name not in self._spans:  # else the span of its screen continues
            attributes: dict[str, Any] = {"correlation": job.spec.correlation, "tenant": job.spec.tenant}
            self._spans[name] = self._resources.tracing.span("job", job.spec.trace, job=name, **attributes)
        job.trace = self._spans[name].traceparent
        if isinstance(job, CertifyingJob | PassJob) and job.search is not None:
            job.search.trace = job.trace
        columns = {"state": job.state.value, "started": job.row.started or now, "planned": job.planned}
        self._ledger.search.write(job.lease, now, columns)
        if job.row.started is None:
            self._metrics.observe(metrics.JOB_WAIT, now - job.row.created)
        if isinstance(job, ScreeningJob):
            facts = {"screened": job.machine.screened, "of": job.machine.sets, "blocks": job.machine.blocks}
            logger.info("screening", **job.log_fields, **facts)
        elif isinstance(job, CertifyingJob):
            self._log_shuffling(job)
        elif isinstance(job, PassJob):
            self._log_pass(job)
        else:
            facts = {"trees": job.trees, "of": job.planned or 0}
            logger.info("job resumed" if job.trees else "job started", **job.log_fields, **facts)
        self._status.publish([job.record(now)])

    def begin_shuffles(self, job: CertifyingJob, now: float) -> None:
        """Hold a job whose searches on shuffled labels begin, in place of its search."""
        job.trace = job.search.trace
        self.by_id[job.lease.job] = job
        self._log_shuffling(job)
        self._status.publish([job.record(now)])

    def end_shuffles(self, job: CertifyingJob) -> SearchingJob:
        """Hold the search again, with the results of the searches on shuffled labels, and return it."""
        job.search.shuffled = job.machine.result()
        self.by_id[job.lease.job] = job.search
        facts = {"searches": len(job.search.shuffled.searches), "seconds": job.machine.seconds}
        logger.info("searches on shuffled labels complete", **job.log_fields, **facts)
        return job.search

    def _log_shuffling(self, job: CertifyingJob) -> None:
        facts = {"done": job.machine.done, "of": job.machine.plan.count, "tasks": job.machine.blocks}
        logger.info("searching on shuffled labels", **job.log_fields, **facts)

    def replace_pass(self, job: PassJob | SearchingJob, now: float) -> None:
        """Hold a job that begins a pass over the rows of its dataset, or goes on after one."""
        self.by_id[job.lease.job] = job
        if isinstance(job, PassJob):
            self._log_pass(job)
            self._status.publish([job.record(now)])

    def _log_pass(self, job: PassJob) -> None:
        facts = {"kind": job.machine.plan.kind, "rows": job.machine.done, "of": job.machine.rows}
        logger.info("reading rows", **job.log_fields, **facts, tasks=job.machine.blocks)

    def drop(self, job: str) -> None:
        """Forget a job in memory; the ledger has it."""
        self.by_id.pop(job, None)

    def close(self) -> None:
        """Forget all jobs, which were given back."""
        self.by_id.clear()
        self._end_spans()

    def apply_command(self, job: HeldJob, command: str, now: float) -> None:
        """Pause or cancel a job if its owner asked for it."""
        with self.guard(job.lease):
            if command == "cancel":
                self.end(job, JobEnd(JobState.CANCELLED), now)
            elif command == "pause":
                columns = {"state": JobState.PAUSED.value, "run_seconds": job.run_seconds(now), "lease_until": 0.0}
                self._ledger.search.write(job.lease, now, columns)
                job.state = JobState.PAUSED
                record = job.record(now).model_copy(update={"obstacle": paused_obstacle(job.lease.job)})
                self._status.publish([record])
                self.drop(job.lease.job)
                logger.info("job paused", **job.log_fields, trees=job.trees)

    def end(self, job: HeldJob, end: JobEnd, now: float) -> None:
        """Write and publish the end of a job."""
        columns = {"run_seconds": job.run_seconds(now), **end.columns}
        self._ledger.search.end_job(job.lease, now, end.state, **columns)
        self._metrics.count(metrics.ENDED, end.state.value)
        self.drop(job.lease.job)
        job.state = end.state
        span = self._spans.pop(job.lease.job, None)
        if span is not None:
            span.annotate(state=job.state.value, trees=job.trees)
            span.end()
        reason = end.columns.get("reason")
        update = {"finished": now, "digest": end.columns.get("digest"), "reason": reason}
        update |= {"first_trees": None, "first_seconds": None}  # as in the ledger, which does not have them
        self._status.publish([job.record(now).model_copy(update=update)])
        self._resources.redis.delete(results_stream(self._resources.settings, job.lease.job))
        if end.state is not JobState.DONE:
            self._tell_workers(job.lease.job)
        facts = {"trees": job.trees, "seconds": job.run_seconds(now), "rules": job.record(now).rules}
        logger.info(f"job {end.state.value}", **job.log_fields, **facts, reason=reason)

    def _tell_workers(self, job: str) -> None:
        """Tell workers that a job has ended; one that does not learn it finishes its task in vain."""
        settings = self._resources.settings
        with suppress(redis.RedisError):
            seconds = ceil(min(ENDED_SECONDS, settings.retention))
            self._resources.redis.set(settings.key(f"{names.JOB_ENDED}:{job}"), b"", ex=seconds)

    def fail(self, lease: Lease, reason: str, now: float) -> None:
        """Write and publish the failure of a job that is not open here."""
        logger.warning("job cannot be run", **lease.log_fields, reason=reason)
        try:
            self._ledger.search.end_job(lease, now, JobState.FAILED, reason=reason)
            self._metrics.count(metrics.ENDED, JobState.FAILED.value)
            self._status.publish(row.record for row in self._ledger.jobs.get_many([lease.job]))
        except FencedError:
            self.note_lost(lease)

    def note_lost(self, lease: Lease) -> None:
        """Record that another scheduler has taken a job over."""
        logger.warning("job was taken over by another scheduler", **lease.log_fields)
        self._metrics.count(metrics.LEASES, "lost")

    def publish(self, now: float, obstacles: Obstacles) -> None:
        """Publish the progress of all jobs, and what keeps them from advancing."""
        self._end_spans()
        self._status.publish([obstacles.add_to(job.record(now), job, now) for job in self])

    def _end_spans(self) -> None:
        """End the spans of jobs that are no longer held."""
        for name in self._spans.keys() - self.by_id.keys():
            self._spans.pop(name).end()

    def measure(self, task_seconds: float) -> None:
        """Set the gauges of batches and tasks."""
        in_flight, unsent, batches = Counter[str](), Counter[str](), 0
        for job in self:
            in_flight[job.task] += job.outbox.messages
            if isinstance(job, SearchingJob):
                in_flight["rules"] += job.request is not None
                unsent[job.task] += job.outbox.count_unsent(job.speed.task_size(task_seconds))
                batches += job.machine.proposed - job.machine.observed
            else:  # blocks are cut in advance
                unsent[job.task] += len(job.outbox.unsent) + len(job.outbox.postponed)
        self._metrics.set(metrics.BATCHES_IN_FLIGHT, batches)
        for metric, counts in ((metrics.TASKS_IN_FLIGHT, in_flight), (metrics.TASKS_UNSENT, unsent)):
            for task in metric.values:
                self._metrics.set(metric, counts[task], task)

    @contextmanager
    def guard(self, lease: Lease) -> Iterator[None]:
        """On an error between memory and ledger, drop the job; it is restored from the ledger, or failed."""
        try:
            yield
        except FencedError:
            self.note_lost(lease)
            self.drop(lease.job)
        except LedgerError:
            self.drop(lease.job)
            raise
        except OUTAGES:
            raise
        except MaaboError as error:
            self.drop(lease.job)
            self.fail(lease, str(error), self._resources.clock())
        except Exception as error:  # noqa: BLE001 - one job must not end a process that serves all
            self.drop(lease.job)
            logger.warning("job failed with an internal error", **lease.log_fields, traceback=traceback.format_exc())
            reason = f"An internal error: {error!r}. See the scheduler's log."
            self.fail(lease, reason, self._resources.clock())
