"""Handlers of work that is cut into blocks in advance: screens, searches on shuffled labels, passes over the rows."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeGuard, TypeVar

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.messages import CountAnswer, ScreenAnswer, ShuffleAnswer
from maabo_dist.errors import FormatError
from maabo_dist.findings.wire import unpack_searches
from maabo_dist.mining.shuffles import ShufflePlan
from maabo_dist.screens.screen import Screen
from maabo_dist.screens.wire import pack_screen
from scheduler.core.blocks import Block, BlockTask, cut_searches
from scheduler.core.handlers import TaskHandler, explain_answer
from scheduler.core.job import BlockJob, CertifyingJob, HeldJob, JobEnd, ScreeningJob, SearchingJob, certifying_job
from scheduler.ledger.search import BlockRow, ShufflePlanRow, ShuffleRow

logger = StructuredLogger("maabo.scheduler")

Job = TypeVar("Job", bound=BlockJob)
Answer = TypeVar("Answer", ScreenAnswer, ShuffleAnswer, CountAnswer)


class BlockHandler(TaskHandler[Job], Generic[Job, Answer]):
    """The base class: handles answers, whose contents subclasses accept and write."""

    job_type: ClassVar[type[BlockJob]]

    def handle(self, job: HeldJob, answer: Answer, body: bytes, now: float) -> JobEnd | None:
        """Accept or reject an answer; `commit` writes it. Return the end of the job, if it ends."""
        if not self._is_awaited(job, answer):
            self._drop(job, self.job_type.task, "all of them are answered")
            return None
        block = job.machine.block(answer.start, answer.stop)
        if block is None:
            raise FormatError(f"No task {job.task!r} of this job has the blocks {answer.start} to {answer.stop - 1}.")
        self._queue.note_taken(job.outbox.sent_at(block))
        if answer.kind == "done":
            if not job.machine.is_open(block):
                self._drop(job, job.task, "another one came first, or it is not needed any more")
                return None
            self._accept(job, block, answer, body)
            self._note_done(job, block.size, answer.seconds, now)
            return None
        given_up = self._retry(job, block, answer, now) and job.machine.is_open(block)
        if given_up or (isinstance(answer, CountAnswer) and answer.permanent):
            return JobEnd.failure(f"{job.describe(block)}: {explain_answer(answer)}")
        return self._check(job, answer, now)

    def commit(self, job: Job, now: float) -> bool:
        """Write the accepted answers to the ledger. True if every block that is needed is answered."""
        if job.unwritten:
            self._write_answers(job, now, {"run_seconds": job.run_seconds(now)})
            job.unwritten.clear()
        return job.machine.finished

    def _is_awaited(self, job: HeldJob, answer: Answer) -> TypeGuard[Job]:  # noqa: ARG002 - subclasses look at it
        """True if the job is doing the work that the answer belongs to."""
        return isinstance(job, self.job_type)

    @abstractmethod
    def _accept(self, job: Job, block: Block, answer: Answer, body: bytes) -> None:
        """Accept the answer to an open block, and keep it for `commit`. Raise FormatError if it is invalid."""

    @abstractmethod
    def _write_answers(self, job: Job, now: float, columns: Mapping[str, object]) -> None:
        """Write the answers that are not in the ledger yet, and these columns of the job."""


class ScreenHandler(BlockHandler[ScreeningJob, ScreenAnswer]):
    """Handles `maabo.screen` tasks."""

    job_type = ScreeningJob

    def commit(self, job: ScreeningJob, now: float) -> bool:
        """Write the accepted answers to the ledger, and the screen once it is complete. True if it is."""
        if not super().commit(job, now):
            return False
        study = job.prepared.study
        classes, triples = len(study.columns.classes), job.machine.best_triples
        screen = Screen.from_scores(study.table.root_scores, job.machine.best, classes, triples)
        seconds = job.run_seconds(now)
        self._ledger.screens.write_screen(job.lease, now, pack_screen(screen), {"run_seconds": seconds})
        kept = {"pairs": len(screen.pairs), "triples": len(screen.triples)}
        logger.info("screened", **job.log_fields, sets=job.machine.sets, **kept, seconds=seconds)
        return True

    def _accept(self, job: ScreeningJob, block: Block, answer: ScreenAnswer, body: bytes) -> None:
        job.machine.accept(block, job.machine.unpack(block, body))
        job.unwritten.append(BlockRow(block.start, block.stop, answer.attempt, body, answer.seconds))

    def _write_answers(self, job: ScreeningJob, now: float, columns: Mapping[str, object]) -> None:
        self._ledger.screens.write_blocks(job.lease, now, job.unwritten, columns)

    def _write_sent(self, job: ScreeningJob, tasks: Sequence[BlockTask], now: float) -> None:
        rows = [BlockRow(task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.screens.write_blocks(job.lease, now, rows)


class ShuffleHandler(BlockHandler[CertifyingJob, ShuffleAnswer]):
    """Handles `maabo.shuffle` tasks."""

    job_type = CertifyingJob

    def begin(self, search: SearchingJob, plan: ShufflePlan, now: float) -> CertifyingJob:
        """Cut the searches into tasks and write them to the ledger, before the first is sent."""
        ranges = cut_searches(plan.count, search.repeat_seconds, self._queue.task_lengths)
        rows = [ShuffleRow(start, stop) for start, stop in ranges]
        self._ledger.shuffles.write_plan(search.lease, now, ShufflePlanRow(plan.count, plan.undecided), rows)
        return certifying_job(search, plan, ranges)

    def _accept(self, job: CertifyingJob, block: Block, answer: ShuffleAnswer, body: bytes) -> None:
        job.machine.accept(block, unpack_searches(body, block.size), answer.seconds)
        job.unwritten.append(ShuffleRow(block.start, block.stop, answer.attempt, body, answer.seconds))

    def _write_answers(self, job: CertifyingJob, now: float, columns: Mapping[str, object]) -> None:
        self._ledger.shuffles.write(job.lease, now, job.unwritten, columns)

    def _write_sent(self, job: CertifyingJob, tasks: Sequence[BlockTask], now: float) -> None:
        rows = [ShuffleRow(task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.shuffles.write(job.lease, now, rows)
