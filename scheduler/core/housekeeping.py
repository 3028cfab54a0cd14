"""`Housekeeping`: callbacks, and the end of what nobody needs any more."""

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import collect_garbage
from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract.job import Callback, JobState
from maabo_dist.contract.record import JobRecord
from scheduler.core.job import record_of
from scheduler.ledger.jobs import JobRow
from scheduler.messaging.publisher import Post, PostError
from scheduler.messaging.status import Mirror
from scheduler.messaging.webhooks import Webhooks
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.housekeeping")

PURGE_EVERY, COLLECT_EVERY = 60.0, 3600.0
CLAIM = 30.0
"""Seconds, beside what a webhook may take, for which nobody else calls back for a job."""
_UNDER_WAY = {JobState.RUNNING, JobState.MINING}


class Housekeeping:
    """Done between other things; whatever fails is done next time."""

    def __init__(self, resources: Resources, mirror: Mirror, post: Post) -> None:
        self._resources, self._mirror, self._post = resources, mirror, post
        self._webhooks = Webhooks(resources)
        self._next_purge = 0.0
        self._next_collection = 0.0

    def tend(self, now: float, held: set[str]) -> None:
        """Call back; now and then forget what is older than the retention time. `held` jobs are under way."""
        self._call_back(now)
        if now >= self._next_purge:
            self._next_purge = now + min(PURGE_EVERY, self._resources.settings.retention)
            self._purge(now)
            self._remove_stray_streams(held)
            self._correct_mirror(held)
        if now >= self._next_collection:
            self._next_collection = now + COLLECT_EVERY
            self._collect(now)

    def show(self, job: str) -> None:
        """Mirror the record of a job that nobody holds."""
        self._mirror.show(record_of(row) for row in self._resources.ledger.jobs.get_many([job]))

    def after_outage(self) -> None:
        """Look through what Redis shows at the next opportunity: the end of a job may not have reached it."""
        self._next_purge = 0.0

    def close(self) -> None:
        """Nothing more will be done."""
        self._webhooks.close()

    def _call_back(self, now: float) -> None:
        """At least once: noted after it was sent."""
        seconds = CLAIM + 2 * self._resources.settings.webhook_seconds
        for row in self._resources.ledger.callbacks.claim(now, seconds):
            callback = row.spec.callback
            if isinstance(callback, Callback):
                self._call(row, callback, now)
            elif callback is not None:
                self._webhooks.deliver(row, callback, now + seconds)

    def _call(self, row: JobRow, callback: Callback, now: float) -> None:
        try:
            self._post.call(callback, {"job": row.id, "state": row.state.value, "digest": row.digest})
        except PostError:
            self._resources.ledger.callbacks.record_failure([row.id], now)
            raise
        self._resources.ledger.callbacks.record_success([row.id], now)
        facts = {"task": callback.task, "queue": callback.queue, "correlation": row.spec.correlation}
        logger.info("called back", job=row.id, **facts)

    def _purge(self, now: float) -> None:
        gone = self._resources.ledger.jobs.purge(now - self._resources.settings.retention)
        if gone:
            self._next_purge = now  # there may be more of them
            self._mirror.forget(gone)
            logger.info("jobs forgotten", jobs=len(gone))

    def _remove_stray_streams(self, held: set[str]) -> None:
        """A late answer to a job that has ended makes its stream anew; nobody would read it."""
        prefix = results_stream(self._resources.settings, "")
        found = {key.decode()[len(prefix) :]: key for key in self._resources.redis.scan_iter(match=f"{prefix}*")}
        strays = set(found) - held
        if strays:
            strays -= {row.id for row in self._resources.ledger.jobs.get_many(strays) if not row.state.ended}
        if strays:
            self._resources.redis.delete(*(found[job] for job in strays))

    def _correct_mirror(self, held: set[str]) -> None:
        """Redis may have missed the end of a job, and lists jobs whose records expired or that were refused."""
        shown = {job: record for job, record in self._mirror.listed() if job not in held}
        doubtful = [job for job, record in shown.items() if record is None or record.state in _UNDER_WAY]
        known = {row.id: row for row in self._resources.ledger.jobs.get_many(doubtful)}
        self._mirror.forget(job for job in doubtful if job not in known and shown[job] is None)
        self._mirror.show(record_of(row) for row in known.values() if not _agree(shown[row.id], row))

    def _collect(self, now: float) -> None:
        settings = self._resources.settings
        gone = collect_garbage(self._resources.store, self._resources.ledger.artifacts(), settings.retention, now)
        if gone:
            logger.info("artifacts removed", artifacts=len(gone))


def _agree(record: JobRecord | None, row: JobRow) -> bool:
    return record is not None and record.state is row.state
