"""`Scheduler`: the loop around the state machines. It reads streams, writes the ledger and sends tasks.

    turn:  renew leases, when due ─► dispatch ─► read streams (requests and answers) ─► ledger ─► acknowledge

docs/architecture.md follows a batch from its proposal to the workers and back, function by function.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event
from time import sleep
from typing import Any
from uuid import uuid4

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import MissingArtifactError
from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract import names
from maabo_dist.contract.messages import CountAnswer, EvaluationAnswer, RulesAnswer, ScreenAnswer, ShuffleAnswer
from maabo_dist.contract.problem import problem_of
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.core.block_handlers import ScreenHandler, ShuffleHandler
from scheduler.core.dispatch import JobSlots, TaskQueue, choose_tasks
from scheduler.core.handlers import SearchHandler, read_answer
from scheduler.core.held_jobs import OUTAGES, HeldJobs
from scheduler.core.job import CertifyingJob, HeldJob, JobEnd, PreparedTable, ScreeningJob, SearchingJob
from scheduler.core.maintenance import Maintenance
from scheduler.core.obstacles import Obstacles
from scheduler.core.outage_log import OutageLog
from scheduler.core.passes import PassHandler, PassJob
from scheduler.core.preparation import Preparations, open_job, prepare_job
from scheduler.core.rules_handler import RulesHandler
from scheduler.ledger.leases import Lease
from scheduler.ledger.presence import CHECK_SECONDS as PRESENCE_SECONDS
from scheduler.ledger.presence import Presence
from scheduler.ledger.schema import MAX_OWNER
from scheduler.messaging.intake import Entry, Intake
from scheduler.messaging.publishers import MetricsPublisher, StatusPublisher, TaskPublisher
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.scheduler")

# How long to wait for entries of streams, with jobs and without.
READ_SECONDS, IDLE_READ_SECONDS = 0.05, 0.5
# How long to let answers accumulate while workers are busy, to handle them together.
COLLECT_SECONDS = 0.01
OUTAGE_SECONDS = 0.5
# Between two checks for overdue answers, and between two publications of progress.
CHECK_SECONDS = 1.0
# Between two publications of the places of queued jobs.
QUEUED_SECONDS = 5.0
MAX_ENTRIES = 100


class Scheduler:
    """One scheduler process. Any number may run on one ledger."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._resources, self._metrics = resources, resources.metrics
        self._settings, self._ledger, self._redis = resources.settings, resources.ledger, resources.redis
        self._ledger.database.observe_commit = partial(self._metrics.observe, metrics.COMMIT_SECONDS)
        self._publisher, self._status = TaskPublisher(resources), StatusPublisher(resources)
        self._metrics_publisher = MetricsPublisher(resources, owner)
        self._queue = TaskQueue(resources)
        self._obstacles = Obstacles(resources, self._queue)
        self._search = SearchHandler(resources, self._publisher, self._queue)
        self._screens = ScreenHandler(resources, self._publisher, self._queue)
        self._shuffles = ShuffleHandler(resources, self._publisher, self._queue)
        self._passes = PassHandler(resources, self._publisher, self._queue)
        self._rules = RulesHandler(resources, self._publisher, self._status)
        self._task_handlers: dict[type, Any] = {
            SearchingJob: self._search,
            ScreeningJob: self._screens,
            CertifyingJob: self._shuffles,
            PassJob: self._passes,
        }
        self._answer_handlers: dict[type, Any] = {
            EvaluationAnswer: self._search,
            ScreenAnswer: self._screens,
            ShuffleAnswer: self._shuffles,
            CountAnswer: self._passes,
            RulesAnswer: self._rules,
        }
        self._intake = Intake(resources, self._status, self._publisher)
        # Unlike `owner`, it is not used again by the next process in the same container.
        # The end of a long name tells more: names of hosts can have 64 characters.
        holder = f"{owner}:{uuid4().hex[:8]}"[-MAX_OWNER:]
        self._presence = Presence(resources.ledger.database, holder)
        self._slots = JobSlots(resources, holder)
        self._maintenance = Maintenance(resources, self._status, self._publisher)
        self.jobs = HeldJobs(resources, self._status)
        self._preparations = Preparations(
            partial(prepare_job, resources.ledger, resources.cache, resources.settings.screen_seconds)
        )
        self._next_presence = self._next_renewal = self._next_check = self._next_queued = 0.0
        self._backlogs: set[str] = set()
        self._outages = OutageLog(resources, self._obstacles, holder)
        self._broker_failed = False

    def run(self, stop: Event) -> None:
        """Run until `stop` is set; then give the jobs back."""
        while not stop.is_set():
            try:
                self._broker_failed = False
                self.turn()
                if self._outages.any and not self._broker_failed:
                    self._outages.end()
                    self._maintenance.run_purge_next()
            except OUTAGES as error:
                self._outages.note(error)
                self._publish_metrics(self._resources.clock())
                stop.wait(OUTAGE_SECONDS)
        try:
            self._release_jobs()
        except OUTAGES as error:
            logger.warning("jobs could not be released; their leases will expire", reason=error)

    def turn(self) -> None:
        """Run one iteration of the loop."""
        now = self._resources.clock()
        if now >= self._next_presence:
            self._check_presence(now)
        if now >= self._next_renewal:
            self._renew_leases(now)
        self._open_prepared()
        sent = False
        with self._tolerate_broker():
            sent = self.dispatch(now)
        if self.jobs and self._queue.is_full:
            sleep(COLLECT_SECONDS)
        idle = not self.jobs and not self._preparations
        self.read_streams(0.0 if sent else IDLE_READ_SECONDS if idle else READ_SECONDS)
        if now >= self._next_check:  # after reading: answers that came while this process was frozen are not overdue
            self._check_jobs(now)
        self._publish_metrics(now)

    # Leases.

    @property
    def _leases(self) -> list[Lease]:
        return [*(job.lease for job in self.jobs), *self._preparations.leases]

    def _renew_leases(self, now: float) -> None:
        """Renew leases, apply commands, take free jobs, and run the maintenance."""
        lease_seconds = self._settings.lease_seconds
        self._next_renewal = now + lease_seconds / 5
        commands = self._ledger.leases.renew(self._leases, self._ledger.now, lease_seconds)
        for lease in self._leases:
            if lease.job not in commands:
                self.jobs.note_lost(lease)
                self.jobs.drop(lease.job)
                self._preparations.cancel(lease.job)
        for job in self.jobs:
            self.jobs.apply_command(job, commands[job.lease.job], now)
        taken = self._slots.fill({lease.job for lease in self._leases})
        self._metrics.count(metrics.LEASES, "taken", len(taken))
        self._preparations.begin(taken)
        self._open_prepared()
        if now >= self._next_queued:
            self._next_queued = now + QUEUED_SECONDS
            self._status.publish(self._obstacles.describe_queued())
        self._status.publish_cluster(lease_seconds)
        with self._tolerate_broker():
            self._maintenance.run(now, {lease.job for lease in self._leases})

    def _check_presence(self, now: float) -> None:
        """Take over the jobs of schedulers that have died, without waiting for their leases to expire."""
        self._presence.refresh()
        for holder in self._presence.find_gone():
            jobs = self._ledger.leases.release_all(holder)
            self._presence.forget(holder)
            logger.warning("a scheduler has died; its jobs are free", scheduler=holder, jobs=jobs)
            self._next_renewal = now
        self._next_presence = now + PRESENCE_SECONDS

    def _renew_while_opening(self, lease: Lease) -> None:
        """Renew all leases while a long job is being opened."""
        now = self._resources.clock()
        if now >= self._next_renewal:
            self._next_renewal = now + self._settings.lease_seconds / 5
            self._ledger.leases.renew([lease, *self._leases], self._ledger.now, self._settings.lease_seconds)

    def _release_jobs(self) -> None:
        now = self._resources.clock()
        for job in self.jobs:
            with self.jobs.guard(job.lease):
                self._ledger.search.write(job.lease, now, {"run_seconds": job.run_seconds(now)})
        leases, jobs = self._leases, len(self.jobs)
        self._ledger.leases.release(leases, self._ledger.now)
        self._metrics.count(metrics.LEASES, "given_back", len(leases))
        self._preparations.close()
        self._maintenance.close()
        self._presence.close()
        logger.info("jobs released", jobs=jobs)
        self.jobs.close()
        self.jobs.measure(self._settings.task_seconds)
        self._metrics_publisher.publish(now)

    # Opening jobs.

    def _open_prepared(self) -> None:
        """Open the jobs whose tables are prepared."""
        for lease, prepared in self._preparations.take_done():
            self._open(lease, prepared.result, self._resources.clock())

    def _open(self, lease: Lease, prepared: Callable[[], PreparedTable | None], now: float) -> None:
        renew = partial(self._renew_while_opening, lease)
        with self.jobs.guard(lease):
            try:
                job = open_job(self._ledger, lease, prepared(), now, renew, self._queue.task_lengths)
            except MissingArtifactError as error:
                raise FormatError(f"The prepared table is missing: {error} Submit the table again.") from error
            except OUTAGES:
                self._ledger.leases.release([lease], self._ledger.now)
                self._metrics.count(metrics.LEASES, "given_back")
                raise
            self.jobs.add(job, now)
            if job.row.command != "run":  # the command came while the table was being prepared
                self.jobs.apply_command(job, job.row.command, now)
            else:
                self._advance(job, now)

    # Tasks out.

    def dispatch(self, now: float) -> bool:
        """Fill the queue a little ahead of the workers. True if tasks were sent."""
        if not self.jobs:
            return False
        room = self._queue.measure_room(now, sum(job.outbox.messages for job in self.jobs))
        chosen = choose_tasks(self.jobs.by_id.values(), room, self._queue.task_lengths, now)
        any_chosen = bool(chosen)
        try:
            while chosen:
                name, messages = chosen.popitem()
                job = self.jobs.by_id[name]
                with self.jobs.guard(job.lease):
                    self._task_handlers[type(job)].send(job, messages, now)
        finally:  # after an outage, the remaining tasks are sent later
            for name, messages in chosen.items():
                for task in reversed([task for tasks in messages for task in tasks]):
                    self.jobs.by_id[name].outbox.put_back(task.key, task.attempt)
        return any_chosen

    # Requests and answers in.

    def read_streams(self, seconds: float) -> None:
        """Wait for requests and answers, handle them, and delete them from their streams."""
        intake = self._settings.key(names.INTAKE_STREAM)
        streams = {intake: "0"} | {results_stream(self._settings, name): "0" for name in self.jobs.by_id}
        block = max(1, int(seconds * 1000)) if seconds else None
        entries_by_stream = self._redis.xread(streams, count=MAX_ENTRIES, block=block)
        now = self._resources.clock()
        for stream, entries in entries_by_stream:
            name = stream.decode().rsplit(":", 1)[1]
            if stream == intake.encode():
                self._intake.handle(entries, now)
                self._next_renewal = now  # new jobs are taken and commands applied immediately
            elif name in self.jobs.by_id:
                self._note_backlog(name, len(entries))
                self._handle_answers(self.jobs.by_id[name], entries, now)
            if stream == intake.encode() or name in self.jobs.by_id:  # else they are for the job's next holder
                self._redis.xdel(stream, *(entry for entry, _ in entries))

    def _note_backlog(self, job: str, entries: int) -> None:
        """Remember jobs with further answers in their streams: none of their tasks is overdue."""
        (self._backlogs.add if entries == MAX_ENTRIES else self._backlogs.discard)(job)

    def _handle_answers(self, job: HeldJob, entries: Sequence[Entry], now: float) -> None:
        with self.jobs.guard(job.lease):
            for _, fields in entries:
                try:
                    end = self._handle_answer(job, fields, now)
                except FormatError as error:
                    self._refuse_answer(job, fields, error)
                    continue
                if end is not None:
                    self.jobs.end(job, end, now)
                    return
            self._advance(job, now)

    def _handle_answer(self, job: HeldJob, fields: Mapping[bytes, bytes], now: float) -> JobEnd | None:
        """Decode, validate and accept an answer. Return the end of the job, if it ends."""
        answer, body = read_answer(fields)
        own = {ScreeningJob: ScreenAnswer, CertifyingJob: ShuffleAnswer, PassJob: CountAnswer}.get(type(job))
        if own is not None and not isinstance(answer, own | CountAnswer):
            if not job.is_searched:
                raise FormatError("The answer is for a search that has not started.")
            self._search.drop_late(job, answer)
            return None
        end: JobEnd | None = self._answer_handlers[type(answer)].handle(job, answer, body, now)
        return end

    def _refuse_answer(self, job: HeldJob, fields: Mapping[bytes, bytes], error: FormatError) -> None:
        """Keep an invalid answer with its reason; its task is sent again when it is overdue."""
        logger.warning("answer refused", **job.log_fields, reason=error)
        self._metrics.count(metrics.REFUSED)
        data = b" ".join(fields.values())
        self._status.add_refused(f"{names.RESULTS_STREAM}:{job.lease.job}", data, problem_of(error))

    def _advance(self, job: HeldJob, now: float) -> None:
        """Continue a job after answers, and write its progress to the ledger."""
        if isinstance(job, PassJob):
            if self._passes.commit(job, now):
                self._end_pass(job, now)
        elif isinstance(job, CertifyingJob):
            if self._shuffles.commit(job, now):
                self._advance(self.jobs.end_shuffles(job), now)
        elif isinstance(job, SearchingJob):
            self._search.advance(job, now)
            if job.shuffle_plan is not None and job.shuffled is None:
                self.jobs.begin_shuffles(self._shuffles.begin(job, job.shuffle_plan, now), now)
                return
            if job.count_plan is not None:
                plan, job.count_plan = job.count_plan, None
                self.jobs.replace_pass(self._passes.begin(job, plan, now), now)
                return
            with self._tolerate_broker():
                self._rules.send_if_due(job, now)
        elif isinstance(job, ScreeningJob) and self._screens.commit(job, now):
            # The job is opened again, with its screen.
            self.jobs.drop(job.lease.job)
            self._open(job.lease, lambda: job.prepared, now)

    def _end_pass(self, job: PassJob, now: float) -> None:
        """Continue a job whose pass over the rows is complete: with another pass, or with its search."""
        following = self._passes.complete(job, now)
        if following is not None:
            self.jobs.replace_pass(following, now)
            self._advance(following, now)
        else:  # its sample is drawn, and prepared like other tables
            self.jobs.drop(job.lease.job)
            self._preparations.begin([job.lease])

    def _check_jobs(self, now: float) -> None:
        """Send overdue tasks again, and publish the progress of the jobs."""
        self._next_check = now + CHECK_SECONDS
        self._backlogs &= self.jobs.by_id.keys()
        for job in self.jobs:
            with self.jobs.guard(job.lease):
                with self._tolerate_broker():
                    if job.lease.job not in self._backlogs:
                        self._task_handlers[type(job)].resend_unanswered(job, now)
                    if isinstance(job, SearchingJob):
                        self._rules.resend_unanswered(job, now)
                self._advance(job, now)
        self.jobs.publish(now, self._obstacles)

    def _publish_metrics(self, now: float) -> None:
        if self._metrics_publisher.is_due(now):
            self.jobs.measure(self._settings.task_seconds)
            self._metrics_publisher.publish(now)

    # Outages.

    @contextmanager
    def _tolerate_broker(self) -> Iterator[None]:
        """If the broker is down, answers are still read; what could not be sent is sent later."""
        try:
            yield
        except BrokerError as error:
            self._broker_failed = True
            self._outages.note(error)
