"""`Maintenance`: sends callbacks and removes expired data."""

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import collect_garbage
from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract.job import Callback, JobState
from scheduler.ledger.jobs import JobRow
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.messaging.webhooks import Webhooks
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.scheduler.maintenance")

PURGE_SECONDS, COLLECT_SECONDS = 60.0, 3600.0
# Added to the time that a webhook may take: how long no other scheduler calls back for a job.
CLAIM_SECONDS = 30.0


class Maintenance:
    """Runs between other work; what fails is done the next time."""

    def __init__(self, resources: Resources, status: StatusPublisher, publisher: TaskPublisher) -> None:
        self._resources, self._ledger, self._settings = resources, resources.ledger, resources.settings
        self._status, self._publisher = status, publisher
        self._webhooks = Webhooks(resources)
        self._next_purge = self._next_collection = 0.0

    def run(self, now: float, held: set[str]) -> None:
        """Send callbacks, and periodically remove what is older than the retention time. `held` jobs are running."""
        self._call_back(now)
        if now >= self._next_purge:
            self._next_purge = now + min(PURGE_SECONDS, self._settings.retention)
            self._purge(now)
            self._remove_stray_streams(held)
            self._correct_status(held)
        if now >= self._next_collection:
            self._next_collection = now + COLLECT_SECONDS
            artifacts = self._ledger.artifacts()
            removed = collect_garbage(self._resources.store, artifacts, self._settings.retention, now)
            if removed:
                logger.info("unused objects removed from the store", objects=len(removed))

    def run_purge_next(self) -> None:
        """Purge with the next run: after an outage, the ends of jobs may be missing in Redis."""
        self._next_purge = 0.0

    def close(self) -> None:
        """End the threads of webhooks."""
        self._webhooks.close()

    def _call_back(self, now: float) -> None:
        """Call back at least once: the success is recorded after sending."""
        seconds = CLAIM_SECONDS + 2 * self._settings.webhook_seconds
        for row in self._ledger.callbacks.claim(now, seconds):
            callback = row.spec.callback
            if isinstance(callback, Callback):
                self._send_callback(row, callback, now)
            elif callback is not None:
                self._webhooks.deliver(row, callback, now + seconds)

    def _send_callback(self, row: JobRow, callback: Callback, now: float) -> None:
        try:
            self._publisher.call_back(callback, {"job": row.id, "state": row.state.value, "digest": row.digest})
        except BrokerError:
            self._ledger.callbacks.record_failure([row.id], now)
            raise
        self._ledger.callbacks.record_success([row.id], now)
        facts = {"task": callback.task, "queue": callback.queue, "correlation": row.spec.correlation}
        logger.info("called back", job=row.id, **facts)

    def _purge(self, now: float) -> None:
        deleted = self._ledger.jobs.purge(now - self._settings.retention)
        if deleted:
            self._next_purge = now  # there may be more of them
            self._status.remove(deleted)
            logger.info("old jobs deleted", jobs=len(deleted))

    def _remove_stray_streams(self, held: set[str]) -> None:
        """Remove streams that late answers to ended jobs have created."""
        prefix = results_stream(self._settings, "")
        streams = {key.decode()[len(prefix) :]: key for key in self._resources.redis.scan_iter(match=f"{prefix}*")}
        strays = set(streams) - held
        if strays:
            strays -= {row.id for row in self._ledger.jobs.get_many(strays) if not row.state.ended}
        if strays:
            self._resources.redis.delete(*(streams[job] for job in strays))

    def _correct_status(self, held: set[str]) -> None:
        """Redis may have missed the end of a job, and lists jobs whose records expired or that were refused."""
        states = {job: record and record.state for job, record in self._status.published() if job not in held}
        doubtful = [job for job, state in states.items() if state in {None, JobState.RUNNING, JobState.MINING}]
        rows = {row.id: row for row in self._ledger.jobs.get_many(doubtful)}
        self._status.remove(job for job in doubtful if job not in rows and states[job] is None)
        self._status.publish(row.record for row in rows.values() if row.state is not states[row.id])
