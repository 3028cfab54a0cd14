"""`RulesDesk`: the trees of a job into the store, and GS-MRM over them on a worker, at the end and now and then."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from maabo_dist._util.backoff import backoff_delay
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import RulesAnswer, RulesMessage
from maabo_dist.contract.result import StopReason
from maabo_dist.trees.wire import Frame, write_segment
from scheduler import metrics
from scheduler.core.job import ActiveJob, RulesRequest
from scheduler.core.outbox import MAX_PATIENCE
from scheduler.ledger.jobs import Segment
from scheduler.messaging.publisher import Post
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.rules")

MOST_STRIKES = 4
SECONDS_A_TREE = 5e-5
"""A generous guess at GS-MRM, to know when an answer should have come."""
REST = 10
"""Rules so far are mined again when this many times as long has passed as it took."""


class RulesDesk:
    """Asks for rules and judges the answers."""

    def __init__(self, resources: Resources, post: Post) -> None:
        self._resources, self._post, self._metrics = resources, post, resources.metrics

    def tend(self, job: ActiveJob, now: float) -> None:
        """Ask for the rules of a search that is over, or for rules so far if it is time."""
        if job.machine.finished:
            if job.request is None or not job.request.final:
                job.state = JobState.MINING
                self._resources.ledger.search.write(job.lease, now, {"state": job.state.value})
                self._ask(job, now, final=True)
        elif self._time_for_partial(job, now):
            job.next_partial = now + self._resources.settings.partial_seconds
            self._ask(job, now, final=False)

    def resend_silent(self, job: ActiveJob, now: float) -> None:
        """Ask again if a worker took the request and nothing was heard since."""
        request = job.request
        if request is None:
            return
        if request.taken is None:
            request.taken = now if self._post.waiting(names.RULES_QUEUE) == 0 else None
        elif now - request.taken > _patience(request.trees, job.rules_silences):
            logger.warning("nothing heard of the rules", **job.log_fields, final=request.final)
            self._metrics.count(metrics.RESENT, "silent")
            job.rules_silences += 1
            job.request = None

    def accepted(self, job: ActiveJob, answer: RulesAnswer, now: float) -> bool:
        """Take an answer; whether the document beside it is to be shown."""
        if answer.kind == "done":
            return self._done(job, answer, now)
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, "rules")
        if job.request is None or answer.attempt != job.request.number:
            return False
        job.request = None
        job.next_partial = now + self._resources.settings.partial_seconds
        logger.warning(f"rules {answer.kind}", **job.log_fields, reason=answer.reason)
        self._metrics.count(metrics.RESENT, answer.kind)
        if answer.kind == "unavailable":
            self._forget_lost_segments(job)
        elif answer.final:
            job.rules_strikes += 1
        return False

    def _done(self, job: ActiveJob, answer: RulesAnswer, now: float) -> bool:
        if answer.final != job.machine.finished:  # of a search that was not over then, or is not now
            self._metrics.count(metrics.DROPPED, "rules")
            return False
        if job.request is not None and answer.attempt == job.request.number:
            job.request = None
        if not answer.final:
            job.next_partial = now + max(self._resources.settings.partial_seconds, REST * answer.seconds)
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "rules")
        job.rules, job.rules_silences, job.rules_seconds = answer.rules, 0, answer.seconds
        return True

    def _forget_lost_segments(self, job: ActiveJob) -> None:
        """If trees are gone from the store, all of them are stored again with the next request: the ledger has them."""
        if not all(self._resources.store.has(f"trees/{segment.digest}") for segment in job.segments):
            logger.warning("trees missing in the store; to be put there again", **job.log_fields)
            job.segments.clear()

    def _time_for_partial(self, job: ActiveJob, now: float) -> bool:
        if job.next_partial == 0.0:
            job.next_partial = now + self._resources.settings.partial_seconds
        exported = job.segments[-1].until if job.segments else 0
        return job.request is None and now >= job.next_partial and job.machine.observed > exported

    def _ask(self, job: ActiveJob, now: float, *, final: bool) -> None:
        self._export(job, now)
        job.requests += 1
        run = job.machine.run
        # Without what is no concern of a worker; its span belongs under the job's.
        spec = job.spec.model_copy(update={"callback": None, "dataset_id": None, "trace": job.trace})
        message = RulesMessage(
            spec=spec,
            attempt=job.requests,
            final=final,
            segments=tuple(segment.digest for segment in job.segments),
            seconds=job.run_seconds(now),
            stopped=run.reason if final else StopReason.RUNNING,
            failures=tuple(job.failures.values()),
        )
        self._post.mine(message)
        self._metrics.count(metrics.TASKS_SENT, "rules")
        job.request = RulesRequest(job.requests, final, run.grown, now)

    def _export(self, job: ActiveJob, now: float) -> None:
        """The trees of all batches observed since the last segment, as one more segment."""
        first, until = (job.segments[-1].until if job.segments else 0), job.machine.observed
        if until == first:
            return
        scratch = Path(self._resources.settings.cache_dir)
        scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=scratch, prefix=".segment-") as directory:
            path = Path(directory) / "segment"
            digest = write_segment(path, self._frames(job, first, until))
            self._resources.store.put(f"trees/{digest}", path)
        job.segments.append(Segment(digest, until))
        self._resources.ledger.search.write_segments(job.lease, now, job.segments)
        logger.debug("trees stored", **job.log_fields, segment=digest[:12], batches=until)

    def _frames(self, job: ActiveJob, first: int, until: int) -> Iterator[Frame]:
        subsets = {
            row.number: row.subsets for row in self._resources.ledger.search.batches(job.lease.job, first, until)
        }
        for row in self._resources.ledger.search.results(job.lease.job, first, until):
            batch = np.frombuffer(subsets[row.batch], "<i4").reshape(-1, job.plan.subset_size)
            yield batch[row.start : row.stop], row.trees


def _patience(trees: int, silences: int) -> float:
    """Seconds to wait for an answer over so many trees, when so many requests have stayed unanswered."""
    first = 5 + trees * SECONDS_A_TREE
    return backoff_delay(first, silences, MAX_PATIENCE * first)
