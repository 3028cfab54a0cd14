"""`Scheduler`: the thin loop around the state machines. It reads streams, writes the ledger and sends tasks.

    turn:  upkeep, when due ─► dispatch ─► listen (requests and answers) ─► ledger ─► acknowledge

What is in memory is never ahead of the ledger for long: a job whose write failed is dropped and opened anew.
"""

import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from threading import Event
from time import sleep

import redis

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import MissingArtifactError, StoreError
from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.errors import MaaboError
from scheduler import metrics
from scheduler.core.dispatch import Seats, choose
from scheduler.core.housekeeping import Housekeeping
from scheduler.core.job import ActiveJob, HeldJob, JobSpans, ScreeningJob
from scheduler.core.preparation import Preparations, Prepared, prepare_held
from scheduler.core.recovery import open_job, tell_beginning
from scheduler.core.rules_handler import RulesDesk
from scheduler.core.screen_handler import ScreenDesk
from scheduler.core.search_handler import SearchDesk
from scheduler.ledger.database import LedgerError
from scheduler.ledger.leases import FencedError, Lease
from scheduler.messaging.answers import Answers, Desks
from scheduler.messaging.intake import Entry, Intake
from scheduler.messaging.publisher import LEAST_AHEAD, Post, PostError
from scheduler.messaging.status import MetricsPublisher, Mirror
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")

LISTEN, LISTEN_IDLE = 0.05, 0.5
"""Seconds to wait for something to happen, with jobs and without."""
LINGER = 0.01
OUTAGE_PAUSE = 0.5
LOOK_EVERY = 1.0
"""Seconds between two looks for tasks of which nothing was heard, and between two records of a job."""
ENTRIES = 100

OUTAGES = (redis.RedisError, LedgerError, StoreError, PostError, OSError)


class Scheduler:
    """One scheduler process. Any number may run on one ledger."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._resources, self._metrics = resources, resources.metrics
        self._board = MetricsPublisher(resources, owner)
        resources.ledger.database.observe_commit = partial(resources.metrics.observe, metrics.COMMIT_SECONDS)
        self._settings, self._ledger, self._redis = resources.settings, resources.ledger, resources.redis
        self._post, self._mirror = Post(resources), Mirror(resources)
        self._intake = Intake(resources, self._mirror, self._post)
        self._desks = Desks(
            SearchDesk(resources, self._post), ScreenDesk(resources, self._post), RulesDesk(resources, self._post)
        )
        self._answers, self._seats = Answers(resources, self._desks, self._mirror), Seats(resources, owner)
        self._housekeeping = Housekeeping(resources, self._mirror, self._post)
        self._jobs: dict[str, ActiveJob | ScreeningJob] = {}
        self._spans = JobSpans(resources.tracing)
        self._preparations = Preparations(
            partial(prepare_held, resources.ledger, resources.cache, resources.settings.screen_seconds)
        )
        self._next_upkeep = self._next_look = 0.0
        self._ample = False
        self._outage = ""
        self._unposted = False

    def run(self, stop: Event) -> None:
        """Turn until told to stop; then give the jobs back."""
        while not stop.is_set():
            try:
                self._unposted = False
                self.turn()
                if not self._unposted:
                    self._outage_over()
            except OUTAGES as error:
                self._note_outage(error)
                self._board.show(self._jobs.values(), self._resources.clock())
                stop.wait(OUTAGE_PAUSE)
        try:
            self._leave()
        except OUTAGES as error:
            logger.warning("jobs could not be given back; their leases will run out", reason=error)

    def turn(self) -> None:
        """Everything once."""
        now = self._resources.clock()
        if now >= self._next_upkeep:
            self._keep_up(now)
        if now >= self._next_look:
            self._look(now)
        self._open_prepared()
        sent = False
        with self._posting():
            sent = self._dispatch(now)
        if self._ample:  # workers have enough to do; answers that come meanwhile are dealt with together
            sleep(LINGER)
        self._listen(0.0 if sent else LISTEN if self._jobs or self._preparations else LISTEN_IDLE)
        self._board.show(self._jobs.values(), now)

    # Leases.

    def _keep_up(self, now: float) -> None:
        """Renew leases, hear what is wanted, take free jobs."""
        lease_seconds = self._settings.lease_seconds
        self._next_upkeep = now + lease_seconds / 5
        wanted = self._ledger.leases.renew(self._leases, now, lease_seconds)
        for lease in self._leases:
            if lease.job not in wanted:
                self._lost(lease)
                self._jobs.pop(lease.job, None)
                self._preparations.drop(lease.job)
        for name in wanted.keys() & self._jobs.keys():
            self._heed(self._jobs[name], wanted[name], now)
        taken = self._seats.fill({lease.job for lease in self._leases}, now)
        self._metrics.count(metrics.LEASES, "taken", len(taken))
        self._preparations.begin(taken)
        self._open_prepared()
        self._mirror.show_cluster(lease_seconds)
        with self._posting():
            self._housekeeping.tend(now, {lease.job for lease in self._leases})

    @property
    def _leases(self) -> list[Lease]:
        return [*(job.lease for job in self._jobs.values()), *self._preparations.leases]

    def _renew_in_between(self, opening: Lease) -> None:
        """While a long job is opened, no lease must run out."""
        now = self._resources.clock()
        if now >= self._next_upkeep:
            self._next_upkeep = now + self._settings.lease_seconds / 5
            self._ledger.leases.renew([opening, *self._leases], now, self._settings.lease_seconds)

    def _heed(self, job: HeldJob, wish: str, now: float) -> None:
        """Do what the job's owner wants."""
        with self._holding(job):
            if wish == "cancel":
                self._end(job, now, JobState.CANCELLED)
            elif wish == "pause":
                values = {"state": JobState.PAUSED.value, "run_seconds": job.run_seconds(now), "lease_until": 0.0}
                self._ledger.search.write(job.lease, now, values)
                job.state = JobState.PAUSED
                self._mirror.show([job.record(now)])
                del self._jobs[job.lease.job]
                logger.info("job paused", **job.log_fields, trees=job.trees)

    def _open_prepared(self) -> None:
        """Open the jobs whose tables are ready."""
        for lease, prepared in self._preparations.ready():
            self._open(lease, prepared, self._resources.clock())

    def _open(self, lease: Lease, prepared: "Future[Prepared]", now: float) -> None:
        renew = partial(self._renew_in_between, lease)
        try:
            job = open_job(self._ledger, lease, prepared.result(), now, renew, self._settings.task_seconds)
        except MissingArtifactError as error:
            self._fail(lease, now, f"{error} Submit the table again.")
        except OUTAGES:
            self._ledger.leases.release([lease], now)
            self._metrics.count(metrics.LEASES, "given_back")
            raise
        except FencedError:
            self._lost(lease)
        except MaaboError as error:
            self._fail(lease, now, str(error))
        except Exception as error:  # noqa: BLE001 - one job must not end a process that serves all
            self._fail_by_our_fault(lease, now, error)
        else:
            self._begin(job, now)

    def _begin(self, job: ActiveJob | ScreeningJob, now: float) -> None:
        self._jobs[job.lease.job] = job
        self._spans.begin(job)
        with self._holding(job):
            started = job.row.started or now
            values = {"state": job.state.value, "started": started, "planned": job.plan.trees}
            self._ledger.search.write(job.lease, now, values)
            if job.row.started is None:
                self._metrics.observe(metrics.JOB_WAIT, now - job.row.created)
            tell_beginning(job)
            self._mirror.show([job.record(now)])
            if job.row.command == "run":
                self._advance(job, now)
            else:  # asked for while its table was made ready
                self._heed(job, job.row.command, now)

    def _leave(self) -> None:
        now = self._resources.clock()
        for job in list(self._jobs.values()):
            with self._holding(job):
                self._ledger.search.write(job.lease, now, {"run_seconds": job.run_seconds(now)})
        given_back = self._leases
        self._ledger.leases.release(given_back, now)
        self._metrics.count(metrics.LEASES, "given_back", len(given_back))
        self._preparations.close()
        self._housekeeping.close()
        logger.info("jobs given back", jobs=len(self._jobs))
        self._spans.settle(())
        self._board.show((), now, at_once=True)

    # Dispatch.

    def _dispatch(self, now: float) -> bool:
        """Keep the queue a little filled: tenants alike, and each tenant's jobs by their shares."""
        self._ample = False
        if not self._jobs:
            return False
        waiting = self._post.waiting(names.EVALUATE_QUEUE)
        self._ample = waiting >= LEAST_AHEAD // 2
        if waiting == 0:
            self._answers.horizon = now
        chosen = choose(self._jobs.values(), self._post.room(waiting), self._settings.task_seconds, now)
        found = bool(chosen)
        try:
            while chosen:
                name, tasks = chosen.popitem()
                job = self._jobs[name]
                with self._holding(job):
                    self._desks.send(job, tasks, now)
        finally:  # after an outage on the way, what is left is sent later
            for name, tasks in chosen.items():
                for task in reversed(tasks):
                    self._jobs[name].put_back(task)
        return found

    # Answers.

    def _listen(self, seconds: float) -> None:
        """Wait for requests and answers, and deal with them."""
        intake = self._settings.key(names.INTAKE_STREAM)
        streams = {intake: "0"} | {results_stream(self._settings, name): "0" for name in self._jobs}
        found = self._redis.xread(streams, count=ENTRIES, block=max(1, int(seconds * 1000)) if seconds else None)
        now = self._resources.clock()
        for stream, entries in found:
            name = stream.decode().rsplit(":", 1)[1]
            if stream == intake.encode():
                self._take_in(entries, now)
            elif name in self._jobs:
                self._hear(self._jobs[name], entries, now)
            if stream == intake.encode() or name in self._jobs:  # else the answers are for whoever holds the job now
                self._redis.xdel(stream, *(entry for entry, _ in entries))

    def _take_in(self, entries: Sequence[Entry], now: float) -> None:
        self._intake.take_in(entries, now)
        self._next_upkeep = now  # new jobs are taken up and wishes heeded at once

    def _hear(self, job: ActiveJob | ScreeningJob, entries: Sequence[Entry], now: float) -> None:
        with self._holding(job):
            for _, fields in entries:
                ending = self._answers.judge(job, fields, now)
                if ending is not None:
                    self._end(job, now, ending.state, **ending.values)
                    return
            self._advance(job, now)

    def _advance(self, job: ActiveJob | ScreeningJob, now: float) -> None:
        """Propose what can be proposed, and write all that happened."""
        if isinstance(job, ScreeningJob):
            self._advance_screen(job, now)
        else:
            self._desks.search.advance(job, now)
            with self._posting():
                self._desks.rules.tend(job, now)

    def _advance_screen(self, job: ScreeningJob, now: float) -> None:
        """When the screen is in the ledger, the job is opened as after any restart, and finds it there."""
        if self._desks.screens.finished(job, now):
            del self._jobs[job.lease.job]
            ready: Future[Prepared] = Future()
            ready.set_result(job.prepared)
            self._open(job.lease, ready, now)

    # Looking after what is under way.

    def _look(self, now: float) -> None:
        """Send again what should have been answered; mirror how far the jobs are."""
        self._next_look = now + LOOK_EVERY
        self._spans.settle(self._jobs)
        for job in list(self._jobs.values()):
            with self._holding(job):
                with self._posting():
                    self._desks.resend_silent(job, self._answers.horizon, now)
                self._advance(job, now)
        self._mirror.show([job.record(now) for job in self._jobs.values()])

    # Ends.

    def _end(self, job: HeldJob, now: float, state: JobState, **values: object) -> None:
        self._ledger.search.end_job(job.lease, now, state, run_seconds=job.run_seconds(now), **values)
        self._metrics.count(metrics.ENDED, state.value)
        del self._jobs[job.lease.job]
        job.state = state
        self._spans.end(job)
        shown = {"finished": now, "digest": values.get("digest"), "reason": values.get("reason")}
        self._mirror.show([job.record(now).model_copy(update=shown)])
        self._redis.delete(results_stream(self._settings, job.lease.job))
        facts = {"trees": job.trees, "seconds": job.run_seconds(now), "rules": job.record(now).rules}
        logger.info(f"job {state.value}", **job.log_fields, **facts, reason=values.get("reason"))

    def _fail(self, lease: Lease, now: float, reason: str) -> None:
        logger.warning("job cannot be run", **lease.log_fields, reason=reason)
        try:
            self._ledger.search.end_job(lease, now, JobState.FAILED, reason=reason)
            self._metrics.count(metrics.ENDED, JobState.FAILED.value)
            self._housekeeping.show(lease.job)
        except FencedError:
            self._lost(lease)

    def _fail_by_our_fault(self, lease: Lease, now: float, error: Exception) -> None:
        logger.warning("job failed by a fault of ours", **lease.log_fields, traceback=traceback.format_exc())
        self._fail(lease, now, f"An internal error: {error!r}. The scheduler's log says more.")

    def _lost(self, lease: Lease) -> None:
        logger.warning("job went to another scheduler", **lease.log_fields)
        self._metrics.count(metrics.LEASES, "lost")

    @contextmanager
    def _holding(self, job: HeldJob) -> Iterator[None]:
        """Whatever goes wrong between memory and ledger: the job is dropped, and opened anew from the ledger."""
        try:
            yield
        except FencedError:
            self._lost(job.lease)
            self._jobs.pop(job.lease.job, None)
        except LedgerError:
            self._jobs.pop(job.lease.job, None)
            raise
        except OUTAGES:
            raise
        except MaaboError as error:
            self._jobs.pop(job.lease.job, None)
            self._fail(job.lease, self._resources.clock(), str(error))
        except Exception as error:  # noqa: BLE001 - one job must not end a process that serves all
            self._jobs.pop(job.lease.job, None)
            self._fail_by_our_fault(job.lease, self._resources.clock(), error)

    @contextmanager
    def _posting(self) -> Iterator[None]:
        """A broker that is away keeps nobody from being heard: what was to be sent is sent later."""
        try:
            yield
        except PostError as error:
            self._unposted = True
            self._note_outage(error)

    def _note_outage(self, error: Exception) -> None:
        self._metrics.count(metrics.OUTAGES, _part_at_fault(error))
        said = f"{type(error).__name__}: {error}"
        if said != self._outage:
            logger.warning("outage; trying again", reason=said)
        self._outage = said

    def _outage_over(self) -> None:
        if self._outage:
            logger.info("outage over")
            self._outage = ""
            self._housekeeping.after_outage()


def _part_at_fault(error: Exception) -> str:
    faults = {LedgerError: "ledger", PostError: "broker", StoreError: "store", redis.RedisError: "redis"}
    return next((part for kind, part in faults.items() if isinstance(error, kind)), "other")
