"""`Obstacles`: finds out why jobs do not advance, for their public records."""

from maabo_dist._util.text import format_count
from maabo_dist.cluster.store import StoreError
from maabo_dist.contract.job import JobRecord, JobState, Obstacle
from scheduler.core.dispatch import TaskQueue
from scheduler.core.job import HeldJob, SearchingJob
from scheduler.ledger.database import LedgerError
from scheduler.resources import BrokerError, Resources

# Seconds without an answer after which the record calls a job waiting, and slow.
WAIT_SECONDS, SLOW_SECONDS = 10.0, 30.0
# Queued jobs whose place is published.
MAX_QUEUED = 100

_FULL = (
    "Redis refuses writes, because its memory limit (maxmemory) is reached",
    "Raise maxmemory of Redis, or delete keys that other programs left there. Jobs continue by themselves.",
)
_OUTAGES: dict[str, tuple[str, str]] = {
    "redis": ("Redis cannot be used", "Start Redis, or check its log and MAABO_REDIS. Jobs continue by themselves."),
    "broker": ("the broker cannot be reached", "Start RabbitMQ, or check MAABO_BROKER. Jobs continue by themselves."),
    "store": ("the artifact store cannot be used", "Check MAABO_STORE, its disk space and its permissions."),
}


def describe_outage(error: Exception, since: float, *, separate_broker: bool) -> Obstacle | None:
    """What an error of another service means for jobs; None for the ledger, without which nothing can be recorded."""
    if isinstance(error, LedgerError):
        return None
    kind = "store" if isinstance(error, StoreError) else "redis"
    if separate_broker and isinstance(error, BrokerError):
        kind = "broker"
    text, remedy = _FULL if kind == "redis" and "'maxmemory'" in str(error) else _OUTAGES[kind]
    reason = f"{type(error).__name__}: {str(error).rstrip('.')}"
    return Obstacle(kind=kind, text=f"{text} ({reason})"[:2000], remedy=remedy, since=since)


class Obstacles:
    """Watches the tasks of jobs. A worker is only counted missing if tasks wait in vain."""

    def __init__(self, resources: Resources, queue: TaskQueue) -> None:
        self._resources, self._queue = resources, queue
        # The current outage, if any.
        self.outage: Obstacle | None = None

    def add_to(self, record: JobRecord, job: HeldJob, now: float) -> JobRecord:
        """Return the record of a job with its obstacle, if it has one."""
        return record.model_copy(update={"obstacle": self.find(job, now)})

    def find(self, job: HeldJob, now: float) -> Obstacle | None:
        """Return what keeps a job from advancing, or None."""
        if job.state not in {JobState.RUNNING, JobState.MINING}:
            return None
        if self.outage is not None:
            return self.outage
        if job.stuck_since is not None and now - job.stuck_since > WAIT_SECONDS:
            text = f"no worker can begin its tasks: {job.stuck_reason}"
            return Obstacle(kind="workers", text=text[:2000], remedy=_REMEDY_STUCK, since=job.stuck_since)
        return self._find_silence(job, now) if _has_work(job) else None

    def _find_silence(self, job: HeldJob, now: float) -> Obstacle | None:
        """Return why no task of a job was done for a while, or None if one was."""
        since = max(job.opened, job.answered or 0.0)
        if now - since < WAIT_SECONDS:
            return None
        workers = self._queue.fleet.workers
        if workers == 0:
            return Obstacle(kind="workers", text="no worker is connected", remedy=_REMEDY_WORKERS, since=since)
        if not _is_taken(job):
            text = f"its tasks wait until one of {format_count(workers, 'busy worker')} is free"
            return Obstacle(kind="busy", text=text, remedy="Start more workers, or wait.", since=since)
        usual = max((job.speed.expected(key.size) for key in job.outbox.sent), default=0.0)
        if now - since < max(SLOW_SECONDS, 3 * usual):
            return None
        text = f"no task was done for a while, and tasks take about {max(1.0, usual):.0f} s"
        return Obstacle(kind="slow", text=text, remedy=_REMEDY_SLOW, since=since)

    def describe_queued(self, limit: int = MAX_QUEUED) -> list[JobRecord]:
        """The records of the first jobs that no scheduler has taken, with their places in the queue."""
        rows, running = self._resources.ledger.jobs.waiting(limit)
        ahead: dict[str, int] = {}
        records = []
        for row in rows:
            before = ahead.get(row.spec.tenant, 0)
            ahead[row.spec.tenant] = before + 1
            text = f"waiting for its turn: {_jobs_are(running)} running"
            if before:
                text += f", and {_jobs_are(before)} ahead of it"
            obstacle = Obstacle(kind="queue", text=text, remedy=_REMEDY_QUEUE, since=row.created)
            records.append(row.record.model_copy(update={"obstacle": obstacle}))
        return records


def _jobs_are(number: int) -> str:
    return "1 job is" if number == 1 else f"{number:,} jobs are"


_REMEDY_STUCK = "Fix this on the workers; their log has the details. The job fails after MAABO_STUCK_SECONDS."
_REMEDY_WORKERS = (
    "Start workers: `celery -A workers.app worker`, with the same MAABO_REDIS. The job continues by itself."
)
_REMEDY_SLOW = "Look at the log and the load of the workers. Overdue tasks are sent again."
_REMEDY_QUEUE = (
    "It starts by itself. To start it sooner, raise the tenant's quota of running jobs, start another scheduler, or "
    "give it a higher priority."
)


def _has_work(job: HeldJob) -> bool:
    """True if a worker has something to do for the job."""
    request = job.request is not None if isinstance(job, SearchingJob) else False
    return bool(job.outbox.sent or job.outbox.unsent or request)


def _is_taken(job: HeldJob) -> bool:
    """True if a worker has taken one of its tasks."""
    request = job.request if isinstance(job, SearchingJob) else None
    if request is not None and request.taken_at is not None:
        return True
    return any(sent.taken_at is not None for sent in job.outbox.sent.values())
