"""`Scheduler`: the thin loop around the state machines. It reads streams, writes the ledger and sends tasks.

    turn:  upkeep, when due ─► dispatch ─► listen (requests and answers) ─► ledger ─► acknowledge

What is in memory is never ahead of the ledger for long: a job whose write failed is dropped and opened anew.
"""

import json
import random
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import sleep
from typing import Any

import redis

from maabo_dist.cluster.logs import Journal
from maabo_dist.cluster.streams import BODY, HEADER, MINED, SCREENED, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState, Priority
from maabo_dist.contract.messages import Answer, Mined, Screened
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.store import MissingArtifactError, StoreError
from maabo_dist.trees.wire import unpack_forest
from scheduler.active import ActiveJob, HeldJob, ScreeningJob, open_job
from scheduler.database import LedgerError
from scheduler.housekeeping import Housekeeping
from scheduler.intake import Entry, Intake
from scheduler.ledger import BatchRow, FencedError, Lease, ResultRow, TaskRow
from scheduler.machine import TaskKey
from scheduler.mining import MOST_STRIKES, RulesDesk
from scheduler.mirror import Mirror
from scheduler.parts import Parts
from scheduler.post import LEAST_AHEAD, POSTPONED, Post, PostError
from scheduler.preparation import Preparations, Prepared, prepare
from scheduler.registry import QuotaError
from scheduler.screen_desk import ScreenDesk
from scheduler.turns import Entrant, Turns

journal = Journal("maabo.scheduler")

MOST_JOBS = 50
"""Jobs that run side by side; others wait in the ledger."""
URGENT_SEATS, GUEST_SEATS = 10, 25
"""Beside those: for urgent jobs, and for one job each of tenants who have none running."""
LISTEN, LISTEN_IDLE = 0.05, 0.5
"""Seconds to wait for something to happen, with jobs and without."""
LINGER = 0.01
OUTAGE_PAUSE = 0.5
LOOK_EVERY = 1.0
"""Seconds between two looks for tasks of which nothing was heard, and between two records of a job."""
LEAST_LOAD = 0.05
ENTRIES = 100
EARLY_ENDS = {"time", "patience"}

OUTAGES = (redis.RedisError, LedgerError, StoreError, PostError, OSError)


class Scheduler:
    """One scheduler process. Any number may run on one ledger."""

    def __init__(self, parts: Parts, owner: str) -> None:
        self._parts, self._owner = parts, owner
        self._settings, self._ledger, self._redis = parts.settings, parts.ledger, parts.redis
        self._post, self._mirror = Post(parts), Mirror(parts)
        self._intake, self._rules = Intake(parts, self._mirror, self._post), RulesDesk(parts, self._post)
        self._screens = ScreenDesk(parts, self._post)
        self._housekeeping = Housekeeping(parts, self._mirror, self._post)
        self._jobs: dict[str, ActiveJob | ScreeningJob] = {}
        self._guests: set[str] = set()
        self._preparations = Preparations(self._prepared)
        self._next_upkeep = self._next_look = self._horizon = 0.0
        self._ample = False
        self._outage = ""

    def run(self, stop: Event) -> None:
        """Turn until told to stop; then give the jobs back."""
        while not stop.is_set():
            try:
                self.turn()
                self._outage_over()
            except OUTAGES as error:
                self._note_outage(error)
                stop.wait(OUTAGE_PAUSE)
        try:
            self._leave()
        except OUTAGES as error:
            journal.warn("jobs could not be given back; their leases will run out", reason=error)

    def turn(self) -> None:
        """Everything once."""
        now = self._parts.clock()
        if now >= self._next_upkeep:
            self._keep_up(now)
        if now >= self._next_look:
            self._look(now)
        self._open_prepared()
        sent = self._dispatch(now)
        if self._ample:  # workers have enough to do; answers that come meanwhile are dealt with together
            sleep(LINGER)
        self._listen(0.0 if sent else LISTEN if self._jobs or self._preparations else LISTEN_IDLE)

    # Leases.

    def _keep_up(self, now: float) -> None:
        """Renew leases, hear what is wanted, take free jobs."""
        lease_seconds = self._settings.lease_seconds
        self._next_upkeep = now + lease_seconds / 5
        wanted = self._ledger.renew(self._leases, now, lease_seconds)
        for lease in self._leases:
            if lease.job not in wanted:
                journal.warn("job went to another scheduler", job=lease.job)
                self._jobs.pop(lease.job, None)
                self._preparations.drop(lease.job)
        for name in wanted.keys() & self._jobs.keys():
            self._heed(self._jobs[name], wanted[name], now)
        self._preparations.begin(self._free_jobs(now))
        self._open_prepared()
        self._mirror.show_cluster(lease_seconds)
        self._housekeeping.tend(now, {lease.job for lease in self._leases})

    @property
    def _leases(self) -> list[Lease]:
        return [*(job.lease for job in self._jobs.values()), *self._preparations.leases]

    def _free_jobs(self, now: float) -> list[Lease]:
        """As many as there is room for; urgent ones and guests find a seat when all others are taken."""
        held = {lease.job for lease in self._leases}
        self._guests &= held
        room = MOST_JOBS - len(held - self._guests)
        take = partial(self._ledger.acquire, self._owner, now, self._settings.lease_seconds)
        if room > 0:
            return take(room)
        guests = take(GUEST_SEATS - len(self._guests), guests=True)
        self._guests |= {lease.job for lease in guests}
        return guests + take(room + URGENT_SEATS, Priority.HIGH)

    def _renew_in_between(self, opening: Lease) -> None:
        """While a long job is opened, no lease must run out."""
        now = self._parts.clock()
        if now >= self._next_upkeep:
            self._next_upkeep = now + self._settings.lease_seconds / 5
            self._ledger.renew([opening, *self._leases], now, self._settings.lease_seconds)

    def _heed(self, job: HeldJob, wish: str, now: float) -> None:
        """Do what the job's owner wants."""
        with self._holding(job):
            if wish == "cancel":
                self._end(job, now, JobState.CANCELLED)
            elif wish == "pause":
                values = {"state": JobState.PAUSED.value, "ran": job.ran(now), "lease_until": 0.0}
                self._ledger.write(job.lease, now, values)
                job.state = JobState.PAUSED
                self._mirror.show([job.record(now)])
                del self._jobs[job.lease.job]
                journal.tell("job paused", job=job.lease.job, trees=job.trees)

    def _prepared(self, lease: Lease) -> Prepared:
        """In the workshop's thread."""
        row = self._ledger.job(lease.job)
        if row is None:
            raise FormatError(f"The ledger has no job {lease.job}.")
        prepared = prepare(row.spec, self._parts.cache, self._settings.screen_seconds)
        limit = self._ledger.registry.quota(row.spec.tenant).trees
        if limit is not None and prepared.plan.trees is not None and prepared.plan.trees > limit:
            raise QuotaError("trees", limit, prepared.plan.trees)
        return prepared

    def _open_prepared(self) -> None:
        """Open the jobs whose tables are ready."""
        for lease, prepared in self._preparations.ready():
            self._open(lease, prepared, self._parts.clock())

    def _open(self, lease: Lease, prepared: "Future[Prepared]", now: float) -> None:
        renew = partial(self._renew_in_between, lease)
        try:
            job = open_job(self._ledger, lease, prepared.result(), now, renew, self._settings.task_seconds)
        except MissingArtifactError as error:
            self._fail(lease, now, f"{error} Submit the table again.")
        except OUTAGES:
            self._ledger.release([lease], now)
            raise
        except FencedError as error:
            journal.warn("lease lost", job=error.job)
        except MaaboError as error:
            self._fail(lease, now, str(error))
        except Exception as error:  # noqa: BLE001 - one job must not end a process that serves all
            self._fail_by_our_fault(lease, now, error)
        else:
            self._begin(job, now)

    def _begin(self, job: ActiveJob | ScreeningJob, now: float) -> None:
        self._jobs[job.lease.job] = job
        with self._holding(job):
            started = job.row.started or now
            values = {"state": job.state.value, "started": started, "planned": job.plan.trees}
            self._ledger.write(job.lease, now, values)
            _tell_beginning(job)
            self._mirror.show([job.record(now)])
            if job.row.wanted == "run":
                self._advance(job, now)
            else:  # asked for while its table was made ready
                self._heed(job, job.row.wanted, now)

    def _leave(self) -> None:
        now = self._parts.clock()
        for job in list(self._jobs.values()):
            with self._holding(job):
                self._ledger.write(job.lease, now, {"ran": job.ran(now)})
        self._ledger.release(self._leases, now)
        self._preparations.close()
        self._housekeeping.close()
        journal.tell("jobs given back", jobs=len(self._jobs))

    # Dispatch.

    def _dispatch(self, now: float) -> bool:
        """Keep the queue a little filled: tenants alike, and each tenant's jobs by their shares."""
        self._ample = False
        if not self._jobs:
            return False
        waiting = self._post.waiting(names.EVALUATE_QUEUE)
        self._ample = waiting >= LEAST_AHEAD // 2
        if waiting == 0:
            self._horizon = now
        chosen = self._choose(self._post.room(waiting), now)
        found = bool(chosen)
        try:
            while chosen:
                name, tasks = chosen.popitem()
                job = self._jobs[name]
                with self._holding(job):
                    self._send(job, tasks, now)
        finally:  # after an outage on the way, what is left is sent later
            for name, tasks in chosen.items():
                for task in reversed(tasks):
                    self._jobs[name].put_back(task)
        return found

    def _choose(self, room: int, now: float) -> dict[str, list[Any]]:
        chosen: dict[str, list[Any]] = {}
        turns = Turns(_entrant(job) for job in self._jobs.values() if job.state is JobState.RUNNING)
        while room > 0 and (name := turns.next()) is not None:
            job = self._jobs[name]
            task = job.next_task(self._settings.task_seconds, now)
            if task is None:
                turns.passed()
                continue
            chosen.setdefault(name, []).append(task)
            room -= 1
            turns.sent(max(LEAST_LOAD, job.speed.expected(task.key.size)))
        return chosen

    def _send(self, job: ActiveJob | ScreeningJob, tasks: Sequence[Any], now: float) -> None:
        if isinstance(job, ScreeningJob):
            self._screens.send(job, tasks, now)
            return
        rows = [TaskRow(task.key.batch, task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.write(job.lease, now, sent=rows)
        for task in tasks:  # before they are sent: what becomes of them in an outage shows by their answers
            job.machine.sent(task.key, task.attempt, now)
        self._post.evaluate([job.message(task) for task in tasks])

    # Answers.

    def _listen(self, seconds: float) -> None:
        """Wait for requests and answers, and deal with them."""
        intake = self._settings.key(names.INTAKE_STREAM)
        streams = {intake: "0"} | {results_stream(self._settings, name): "0" for name in self._jobs}
        found = self._redis.xread(streams, count=ENTRIES, block=max(1, int(seconds * 1000)) if seconds else None)
        now = self._parts.clock()
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
                if job.lease.job in self._jobs:
                    self._answered(job, fields, now)
            if job.lease.job in self._jobs:
                self._advance(job, now)

    def _answered(self, job: ActiveJob | ScreeningJob, fields: dict[bytes, bytes], now: float) -> None:
        try:
            if SCREENED in fields:
                self._screened(job, Screened.read(fields[SCREENED]), fields.get(BODY, b""), now)
                return
            if isinstance(job, ScreeningJob):
                raise FormatError("It is an answer to a search that has not begun.")
            if MINED in fields:
                self._mined(job, Mined.read(fields[MINED]), fields.get(BODY, b""), now)
                return
            answer = Answer.read(fields.get(HEADER, b""))
            key = TaskKey(answer.batch, answer.start, answer.stop)
            self._horizon = max(self._horizon, job.machine.sent_at(key) or 0.0)
            if answer.kind == "done":
                self._done(job, key, answer, fields.get(BODY, b""))
            else:
                self._not_done(job, key, answer, now)
        except FormatError as error:
            journal.warn("answer refused", job=job.lease.job, reason=error)

    def _screened(self, job: ActiveJob | ScreeningJob, answer: Screened, body: bytes, now: float) -> None:
        if isinstance(job, ActiveJob):
            journal.detail("answer dropped: the screen is made", job=job.lease.job)
            return
        block = job.screening.block(answer.start, answer.stop)
        if block is not None:
            self._horizon = max(self._horizon, job.screening.sent_at(block) or 0.0)
        reason = self._screens.accepted(job, answer, body, now)
        if reason is not None:
            self._end(job, now, JobState.FAILED, reason=reason)
        elif answer.kind == "unavailable":
            self._make_available(job, answer.reason, now)

    def _done(self, job: ActiveJob, key: TaskKey, answer: Answer, body: bytes) -> None:
        if not job.machine.is_open(key):
            journal.detail("answer dropped: another one came first", job=job.lease.job, batch=key.batch)
            return
        job.machine.answer(key, unpack_forest(body, job.machine.subsets(key)))
        job.unwritten.append(ResultRow(key.batch, key.start, key.stop, body, None, answer.seconds))
        job.speed.learn(key.size, answer.seconds)
        job.stuck_since = None

    def _not_done(self, job: ActiveJob, key: TaskKey, answer: Answer, now: float) -> None:
        facts = {"job": job.lease.job, "batch": key.batch, "subsets": key.size, "worker": answer.worker}
        journal.warn(f"task {answer.kind}", **facts, reason=answer.reason)
        if answer.kind == "unavailable":
            job.machine.postpone(key, answer.attempt, now + random.uniform(*POSTPONED))  # noqa: S311 - no secret
            self._make_available(job, answer.reason, now)
            return
        given_up = job.machine.strike(key, answer.attempt)
        if given_up is not None and job.give_up(given_up, answer.reason):
            job.unwritten.append(ResultRow(given_up.batch, given_up.start, given_up.stop, b"", answer.reason))
            journal.warn("subset given up", job=job.lease.job, batch=key.batch, subset=key.start, reason=answer.reason)

    def _make_available(self, job: ActiveJob | ScreeningJob, reason: str, now: float) -> None:
        """Put the table into the store again if it is gone; fail the job if no worker can begin for long."""
        job.stuck_since = job.stuck_since or now
        if now - job.stuck_since > self._settings.stuck_seconds:
            self._end(job, now, JobState.FAILED, reason=f"No worker could begin: {reason}")
            return
        try:
            if _restored(self._parts, job.spec.dataset.fingerprint):
                journal.warn("table missing in the store; put there again", job=job.lease.job)
        except (StoreError, OSError) as error:  # other jobs must not wait for this one's table
            journal.warn("table missing in the store", job=job.lease.job, reason=error)

    def _advance(self, job: ActiveJob | ScreeningJob, now: float) -> None:
        """Propose what can be proposed, and write all that happened."""
        if isinstance(job, ScreeningJob):
            self._advance_screen(job, now)
            return
        machine, values = job.machine, dict[str, object]()
        if job.overtime(now):
            job.stopping = True
            values["stop_after"] = machine.proposed
            machine.stop(machine.proposed, "time")
            journal.tell("time budget spent", job=job.lease.job, batches=machine.proposed)
        fresh = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
        if job.unwritten or fresh or values:
            run = machine.run
            values |= {"trees": run.grown, "best_score": run.best_score, "failed": job.failed, "ran": job.ran(now)}
            self._ledger.write(job.lease, now, values, new_batches=fresh, new_results=job.unwritten)
            job.unwritten.clear()
        self._rules.tend(job, now)

    def _advance_screen(self, job: ScreeningJob, now: float) -> None:
        """When the screen is in the ledger, the job is opened as after any restart, and finds it there."""
        if self._screens.finished(job, now):
            del self._jobs[job.lease.job]
            ready: Future[Prepared] = Future()
            ready.set_result(job.prepared)
            self._open(job.lease, ready, now)

    def _mined(self, job: ActiveJob, answer: Mined, document: bytes, now: float) -> None:
        if answer.kind == "done":
            _check_document(document)
        if self._rules.accepted(job, answer, now):
            self._mirror.show_document(job.lease.job, document)
            if answer.final:
                values = {"digest": answer.digest, "rules": answer.rules, "document": document.decode()}
                self._end(job, now, JobState.DONE, **values, reason=_early_end(job))
        elif job.rules_strikes >= MOST_STRIKES:
            self._end(job, now, JobState.FAILED, reason=f"The rules could not be mined: {answer.reason}")

    # Looking after what is under way.

    def _look(self, now: float) -> None:
        """Send again what should have been answered; mirror how far the jobs are."""
        self._next_look = now + LOOK_EVERY
        for job in list(self._jobs.values()):
            with self._holding(job):
                if isinstance(job, ScreeningJob):
                    self._screens.resend_silent(job, self._horizon, now)
                else:
                    self._resend_silent(job, now)
                self._advance(job, now)
        self._mirror.show([job.record(now) for job in self._jobs.values()])

    def _resend_silent(self, job: ActiveJob, now: float) -> None:
        job.machine.taken(self._horizon, now)
        silent = job.machine.resend_silent(now, lambda key: _allowance(job, key))
        if silent:
            journal.warn("nothing heard; sent again", job=job.lease.job, tasks=len(silent))
        self._rules.resend_silent(job, now)

    # Ends.

    def _end(self, job: HeldJob, now: float, state: JobState, **values: object) -> None:
        self._ledger.end(job.lease, now, state, ran=job.ran(now), **values)
        del self._jobs[job.lease.job]
        job.state = state
        shown = {"finished": now, "digest": values.get("digest"), "reason": values.get("reason")}
        self._mirror.show([job.record(now).model_copy(update=shown)])
        self._redis.delete(results_stream(self._settings, job.lease.job))
        facts = {"trees": job.trees, "seconds": job.ran(now), "rules": job.record(now).rules}
        journal.tell(f"job {state.value}", job=job.lease.job, **facts, reason=values.get("reason"))

    def _fail(self, lease: Lease, now: float, reason: str) -> None:
        journal.warn("job cannot be run", job=lease.job, reason=reason)
        try:
            self._ledger.end(lease, now, JobState.FAILED, reason=reason)
            self._housekeeping.show(lease.job)
        except FencedError:
            journal.warn("job went to another scheduler", job=lease.job)

    def _fail_by_our_fault(self, lease: Lease, now: float, error: Exception) -> None:
        journal.warn("job failed by a fault of ours", job=lease.job, traceback=traceback.format_exc())
        self._fail(lease, now, f"An internal error: {error!r}. The scheduler's log says more.")

    @contextmanager
    def _holding(self, job: HeldJob) -> Iterator[None]:
        """Whatever goes wrong between memory and ledger: the job is dropped, and opened anew from the ledger."""
        try:
            yield
        except FencedError:
            journal.warn("job went to another scheduler", job=job.lease.job)
            self._jobs.pop(job.lease.job, None)
        except LedgerError:
            self._jobs.pop(job.lease.job, None)
            raise
        except OUTAGES:
            raise
        except MaaboError as error:
            self._jobs.pop(job.lease.job, None)
            self._fail(job.lease, self._parts.clock(), str(error))
        except Exception as error:  # noqa: BLE001 - one job must not end a process that serves all
            self._jobs.pop(job.lease.job, None)
            self._fail_by_our_fault(job.lease, self._parts.clock(), error)

    def _note_outage(self, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        if said != self._outage:
            journal.warn("outage; trying again", reason=said)
        self._outage = said

    def _outage_over(self) -> None:
        if self._outage:
            journal.tell("outage over")
            self._outage = ""
            self._housekeeping.after_outage()


def _entrant(job: HeldJob) -> Entrant:
    return Entrant(job.lease.job, job.spec.tenant, job.spec.priority.share, job.under_way)


def _tell_beginning(job: ActiveJob | ScreeningJob) -> None:
    if isinstance(job, ScreeningJob):
        facts = {"screened": job.screening.screened, "of": job.screening.pairs, "blocks": job.screening.blocks}
        journal.tell("job screens pairs", job=job.lease.job, **facts)
    else:
        facts = {"trees": job.trees, "of": job.plan.trees}
        journal.tell("job resumed" if job.trees else "job started", job=job.lease.job, **facts)


def _allowance(job: ActiveJob, key: TaskKey) -> float:
    """Seconds that a worker may be silent. It may be busy with rules, and the first time has the table to fetch."""
    first = 20.0 if job.speed.seconds is None else 0.0
    return 3.0 + 8 * job.speed.expected(key.size) + 2 * job.rules_seconds + first


def _restored(parts: Parts, fingerprint: str) -> bool:
    """Whether the store lacked a table, and has it again. It is mapped here, even if its file is gone."""
    name = f"columns/{fingerprint}"
    if parts.store.has(name):
        return False
    with TemporaryDirectory(prefix="maabo-") as directory:
        path = Path(directory) / "table"
        parts.cache.columns(fingerprint).save(path)
        parts.store.put(name, path)
    return True


def _check_document(document: bytes) -> None:
    try:
        json.loads(document)
    except ValueError as error:
        raise FormatError(f"A document of rules does not read: {error}.") from None


def _early_end(job: ActiveJob) -> str | None:
    reason = job.machine.run.reason
    return reason if reason in EARLY_ENDS else None
