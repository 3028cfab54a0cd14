"""`RulesHandler`: has workers mine the rules of a job, at intervals and at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from maabo_dist._util.network import backoff_delay
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import RulesAnswer, RulesMessage, StoredShuffles
from maabo_dist.contract.passes import PassPlan
from maabo_dist.contract.result import StopReason
from maabo_dist.findings.wire import pack_searches
from maabo_dist.mining.shuffles import ShufflePlan, ShuffleResult
from maabo_dist.trees.wire import Frame, pack_segment, write_segment
from scheduler import metrics
from scheduler.core.job import JobEnd, RulesRequest, SearchingJob
from scheduler.core.losses import cause_of, explain
from scheduler.core.outbox import MAX_PATIENCE
from scheduler.ledger.jobs import Segment
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.rules")

# Failures of the final rules after which a job has failed.
MAX_RULES_FAILURES = 4
# Seconds between two attempts to mine rules so far, at most, after failures.
MAX_PARTIAL_DELAY = 600.0
# A generous estimate for mining, to detect overdue answers.
SECONDS_PER_TREE = 5e-5
# Rules so far are mined again after this multiple of the time that it took.
REST_FACTOR = 10
# Trees whose segment is packed in memory; it takes a few megabytes.
MAX_TREES_IN_MEMORY = 10_000
COMPLETE_SEARCH = {StopReason.BUDGET, StopReason.EXHAUSTED}


class RulesHandler:
    """Handles `maabo.rules` tasks."""

    def __init__(self, resources: Resources, publisher: TaskPublisher, status: StatusPublisher) -> None:
        self._resources, self._publisher, self._status = resources, publisher, status
        self._ledger, self._metrics = resources.ledger, resources.metrics

    def send_if_due(self, job: SearchingJob, now: float) -> None:
        """Request the rules of a search that is over, or rules so far if they are due."""
        if job.machine.finished:
            if job.request is None or not job.request.final:
                job.state = JobState.MINING
                self._ledger.search.write(job.lease, now, {"state": job.state.value})
                self._send(job, now, final=True)
            return
        job.next_partial = job.next_partial or now + self._resources.settings.partial_seconds
        exported = job.segments[-1].until if job.segments else 0
        # Rules of a sample are counted on all rows once, at the end.
        many = job.spec.dataset.many is not None
        if job.request is None and now >= job.next_partial and job.machine.observed > exported and not many:
            job.next_partial = now + self._resources.settings.partial_seconds
            self._send(job, now, final=False)

    def resend_unanswered(self, job: SearchingJob, now: float) -> None:
        """Drop a request whose answer is overdue; `send_if_due` sends it again."""
        request = job.request
        if request is None:
            return
        # The rules of a dataset are mined again after each pass, with about the same work.
        allowance = 5 + request.trees * SECONDS_PER_TREE + 3 * job.rules_seconds
        if request.taken_at is None:
            waiting = self._resources.broker.waiting([names.RULES_QUEUE])[0]
            request.taken_at = now if waiting == 0 else None
        elif now - request.taken_at > backoff_delay(allowance, job.rules_timeouts, MAX_PATIENCE * allowance):
            logger.warning("no answer; sending again", **job.log_fields, task="rules", final=request.final)
            self._metrics.count(metrics.RESENT, "silent")
            job.rules_timeouts += 1
            job.request = None

    def handle(self, job: SearchingJob, answer: RulesAnswer, document: bytes, now: float) -> JobEnd | None:
        """Publish the rules, or note that they are to be mined again. Return the end of the job, if it ends."""
        if answer.kind != "done":
            self._note_failure(job, answer, now)
            if job.rules_failures < MAX_RULES_FAILURES:
                return None
            reason = explain(answer.reason, cause_of(answer.kind, answer.reason))
            return JobEnd.failure(f"The rules of the table {job.table_text} could not be mined: {reason}")
        if answer.final != job.machine.finished:  # the search was not over then, or is not now
            self._metrics.count(metrics.DROPPED, "rules")
            return None
        job.answered = now
        if job.request is not None and answer.attempt == job.request.number:
            job.request = None
        if answer.counting or answer.shuffles is not None:
            self._plan_work(job, answer, document)
            return None
        job.partial_failures = 0
        if not answer.final:
            job.next_partial = now + max(self._resources.settings.partial_seconds, REST_FACTOR * answer.seconds)
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "rules")
        job.rules, job.rules_timeouts, job.rules_seconds = answer.rules, 0, answer.seconds
        self._status.publish_document(job.lease.job, document)
        if not answer.final:
            return None
        reason = job.machine.run.reason
        columns = {"digest": answer.digest, "rules": answer.rules, "document": document.decode()}
        return JobEnd(JobState.DONE, columns | {"reason": None if reason in COMPLETE_SEARCH else reason.explanation})

    def _plan_work(self, job: SearchingJob, answer: RulesAnswer, document: bytes) -> None:
        """Note what the rules need first."""
        if answer.counting:
            self._plan_counts(job, answer, PassPlan.parse(document))
        else:
            self._plan_shuffles(job, answer)

    def _plan_shuffles(self, job: SearchingJob, answer: RulesAnswer) -> None:
        """Note how many searches on shuffled labels the rules need; the loop begins them."""
        if job.shuffled is not None or answer.shuffles is None or not job.machine.finished:
            self._metrics.count(metrics.DROPPED, "rules")
            return
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "rules")
        job.rules_timeouts, job.rules_seconds = 0, answer.seconds
        job.shuffle_plan = ShufflePlan(answer.shuffles, answer.undecided)

    def _plan_counts(self, job: SearchingJob, answer: RulesAnswer, plan: PassPlan) -> None:
        """Note which rules have to be counted on all rows; the loop begins the pass."""
        if any(counted.request == plan.request for counted in job.counted) or job.spec.dataset.many is None:
            self._metrics.count(metrics.DROPPED, "rules")
            return
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "rules")
        job.rules_timeouts, job.rules_seconds = 0, answer.seconds
        job.count_plan = plan

    def _note_failure(self, job: SearchingJob, answer: RulesAnswer, now: float) -> None:
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, "rules")
        if job.request is None or answer.attempt != job.request.number:
            return
        final = job.request.final
        job.request = None
        # Rules so far are not needed: mining them must not end a process every few seconds.
        job.partial_failures += not final
        seconds = self._resources.settings.partial_seconds
        job.next_partial = now + backoff_delay(seconds, job.partial_failures, MAX_PARTIAL_DELAY)
        logger.warning(f"task {answer.kind}", **job.log_fields, task="rules", reason=answer.reason)
        self._metrics.count(metrics.RESENT, answer.kind)
        if answer.kind == "unavailable":
            # If the store has lost trees, all of them are stored again with the next request: the ledger has them.
            if not all(self._resources.store.has(f"trees/{segment.digest}") for segment in job.segments):
                logger.warning("trees missing in the store; storing them again", **job.log_fields)
                job.segments.clear()
        elif answer.final:
            job.rules_failures += 1

    def _send(self, job: SearchingJob, now: float, *, final: bool) -> None:
        self._store_trees(job, now)
        job.requests += 1
        run, settings = job.machine.run, job.spec.settings
        message = RulesMessage(
            spec=job.worker_spec,
            attempt=job.requests,
            final=final,
            segments=tuple(segment.digest for segment in job.segments),
            seconds=job.run_seconds(now),
            stopped=run.reason if final else StopReason.RUNNING,
            failures=tuple(job.failures.values()),
            untried_triples=run.untried_triples if final else None,
            plan_shuffles=final and job.shuffled is None and settings.publishes_findings and settings.certify != "off",
            shuffled=self._store_shuffles(job.shuffled) if final and job.shuffled else None,
            counted=tuple(job.counted),
        )
        self._publisher.publish([message])
        self._metrics.count(metrics.TASKS_SENT, "rules")
        job.request = RulesRequest(job.requests, final, run.trees)

    def _store_trees(self, job: SearchingJob, now: float) -> None:
        """Store the trees of all batches observed since the last segment as one more segment."""
        first, until = (job.segments[-1].until if job.segments else 0), job.machine.observed
        if until == first:
            return
        digest = self._put_segment(job, first, until)
        job.segments.append(Segment(digest, until))
        self._ledger.search.write_segments(job.lease, now, job.segments)
        logger.debug("trees stored", **job.log_fields, segment=digest[:12], batches=until)

    def _put_segment(self, job: SearchingJob, first: int, until: int) -> str:
        frames, store = self._frames(job, first, until), self._resources.store
        if job.trees <= MAX_TREES_IN_MEMORY:  # most jobs: without a scratch file
            data, digest = pack_segment(frames)
            store.put_bytes(f"trees/{digest}", data)
            return digest
        with self._scratch_file() as path:
            digest = write_segment(path, frames)
            store.put(f"trees/{digest}", path)
        return digest

    def _store_shuffles(self, shuffled: ShuffleResult) -> StoredShuffles:
        """Store the searches on shuffled labels, unless the store has them."""
        data = pack_searches(shuffled.searches)
        digest = sha256(data).hexdigest()
        if not self._resources.store.has(f"shuffles/{digest}"):
            self._resources.store.put_bytes(f"shuffles/{digest}", data)
        return StoredShuffles(
            digest=digest, count=len(shuffled.searches), planned=shuffled.planned, seconds=shuffled.seconds
        )

    @contextmanager
    def _scratch_file(self) -> Iterator[Path]:
        scratch = Path(self._resources.settings.cache_dir)
        scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=scratch, prefix=".segment-") as directory:
            yield Path(directory) / "segment"

    def _frames(self, job: SearchingJob, first: int, until: int) -> Iterator[Frame]:
        subsets = {row.number: row.subsets for row in self._ledger.search.batches(job.lease.job, first, until)}
        for row in self._ledger.search.results(job.lease.job, first, until):
            batch = np.frombuffer(subsets[row.batch], "<i4").reshape(-1, job.plan.subset_size)
            yield batch[row.start : row.stop], row.trees
