"""Screens in the scheduler, on a real Redis and ledger; the test itself is the worker."""

from contextlib import closing
from functools import cache
from threading import Event

import numpy as np
import pytest

from maabo_dist.cluster.streams import BODY, SCREEN_HEADER, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import ScreenAnswer
from maabo_dist.data.preparation import prepare
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.screens.blocks import ScreenPlan
from maabo_dist.screens.pairs import BitTable, PairTable, screen_block
from maabo_dist.screens.screen import MAX_PAIRS, MAX_TRIPLES, compute_screen
from maabo_dist.screens.triples import TripleTable, screen_triple_block
from maabo_dist.screens.wire import pack_pairs, pack_triples, unpack_screen
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import split_for
from maabo_dist.trees.training import TrainingTable
from scheduler.background import BackgroundThread
from scheduler.core import loop, preparation
from scheduler.core.blocks import MAX_BLOCK_FAILURES, MIN_BLOCKS
from scheduler.core.dispatch import choose_tasks
from scheduler.core.loop import Scheduler
from scheduler.core.task_lengths import TaskLengths
from scheduler.resources import Resources
from tests import servers
from tests.cluster import a_scheduler, ask, cluster_settings, ended, submit

MINING = {"trees": 40, "batch": 8, "seed": 2, "preset": "auto"}


@cache
def columns():
    frame, _ = generate(Recipe(rows=200, features=60, xor=1, seed=2))
    return prepare(frame, TableSettings(target="y")).columns


@cache
def split():
    return split_for(columns(), MiningSettings.parse(MINING))


@cache
def bits():
    return BitTable.build(columns(), split())


@pytest.fixture
def cluster(server, tmp_path):
    return cluster_settings(server, tmp_path, prefix=f"{tmp_path.name[-40:]}:", lease_seconds=1, screen_seconds=0.0)


@pytest.fixture(autouse=True)
def _short_idle_reads(monkeypatch):
    monkeypatch.setattr(loop, "IDLE_READ_SECONDS", 0.05)


class Worker:
    """Takes everything from the queue, and sends the answers that the test specifies."""

    def __init__(self, cluster, ledger, job):
        self.cluster, self.ledger, self.job = cluster, ledger, job

    def sent(self):
        """Wait for blocks that are sent and not answered."""
        return servers.wait_for(self.take, 20, what="a block to screen")

    def take(self):
        with open_redis(self.cluster) as client:
            client.delete(self.cluster.key(names.EVALUATE_QUEUE))
        return [
            block for block in self.ledger.screens.blocks(self.job) if block.attempt is not None and block.pairs is None
        ]

    def send_answer(self, block, kind, body=b"", reason=""):
        key = {"job": self.job, "start": block.start, "stop": block.stop, "attempt": block.attempt}
        header = ScreenAnswer.read(key | {"kind": kind, "reason": reason, "worker": "the test"})
        with open_redis(self.cluster) as client:
            client.xadd(results_stream(self.cluster, self.job), {SCREEN_HEADER: header.model_dump_json(), BODY: body})

    def answer(self, block):
        features = bits().features
        if block.start < features:
            body = pack_pairs(screen_block(PairTable.build(bits()), block.start, block.stop, MAX_PAIRS))
        else:
            laid_out = TripleTable.build(bits())
            body = pack_triples(
                screen_triple_block(laid_out, block.start - features, block.stop - features, MAX_TRIPLES)
            )
        self.send_answer(block, "done", body)

    def answer_all(self):
        """Answer all blocks until the search has started."""
        while not list(self.ledger.search.batches(self.job)):
            for block in self.take():
                self.answer(block)


def test_a_screen_made_in_blocks_equals_that_of_one_process(cluster, tmp_path):
    table = TrainingTable.build(columns(), split())
    expected = compute_screen(columns(), split(), table.root_scores, ScreenPlan(triples=True))
    with a_scheduler(cluster) as ledger:
        worker = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))
        blocks = len(worker.sent()) and len(ledger.screens.blocks(worker.job))
        worker.answer_all()
        screen = unpack_screen(ledger.screens.screen(worker.job), columns().count)

    assert blocks == pytest.approx(2 * MIN_BLOCKS, abs=4)
    assert np.array_equal(screen.features, expected.features)
    assert np.array_equal(screen.pairs, expected.pairs)
    assert len(expected.triples) > 0
    assert np.array_equal(screen.triples, expected.triples)


def test_a_small_screen_is_computed_by_the_scheduler_and_gives_the_same_search(cluster, tmp_path):
    with a_scheduler(cluster) as ledger:
        worker = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))
        worker.answer_all()
        first = list(ledger.search.batches(worker.job))
        ask(cluster, "cancel", worker.job)
        ended(ledger, worker.job)
    with a_scheduler(cluster.model_copy(update={"screen_seconds": 1.0})) as ledger:
        job = submit(cluster, tmp_path, columns(), **MINING)
        servers.wait_for(lambda: list(ledger.search.batches(job)), 20, what="a search")

        assert (ledger.screens.blocks(job), ledger.screens.screen(job)) == ([], None)
        assert list(ledger.search.batches(job)) == first


def test_another_scheduler_sends_only_unanswered_blocks_and_repeats_no_screen(cluster, tmp_path):
    with a_scheduler(cluster) as ledger:
        worker = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))
        answered = worker.sent()[0]
        worker.answer(answered)
        servers.wait_for(lambda: ledger.screens.blocks(worker.job)[0].pairs, 20, what="an answer in the ledger")
        ranges = [(block.start, block.stop) for block in ledger.screens.blocks(worker.job)]
    with a_scheduler(cluster.model_copy(update={"task_seconds": 1e-6}), "second") as ledger:
        worker.ledger = ledger
        assert answered.start not in {block.start for block in worker.sent()}
        assert [(block.start, block.stop) for block in ledger.screens.blocks(worker.job)] == ranges
        worker.answer_all()
        screen, batches = ledger.screens.screen(worker.job), list(ledger.search.batches(worker.job))
    with a_scheduler(cluster, "third") as ledger:
        servers.wait_for(lambda: ledger.jobs.get(worker.job).fence >= 3, 20, what="a third holder")

        assert (ledger.screens.screen(worker.job), ledger.screens.blocks(worker.job)) == (screen, [])
        assert list(ledger.search.batches(worker.job)) == batches


@pytest.mark.parametrize("kind", ["failed", "lost"])
def test_a_block_that_fails_repeatedly_fails_the_job_with_a_reason(cluster, tmp_path, kind):
    with a_scheduler(cluster) as ledger:
        worker = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))
        for attempt in range(MAX_BLOCK_FAILURES):
            block = servers.wait_for(
                lambda attempt=attempt: next(
                    (block for block in worker.take() if (block.start, block.attempt) == (0, attempt)), 0
                ),
                20,
                what=f"attempt {attempt}",
            )
            worker.send_answer(block, kind, reason="It burns.")
        row = ended(ledger, worker.job)

    assert row.state is JobState.FAILED
    assert row.reason.startswith(f"The pairs of features 0 to {block.stop - 1} could not be screened: ")
    assert "It burns." in row.reason


def test_a_screen_that_no_worker_can_start_fails_the_job(cluster, tmp_path):
    with a_scheduler(cluster.model_copy(update={"stuck_seconds": 0.5})) as ledger:
        worker = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))

        def refuse():
            for block in worker.take():
                worker.send_answer(block, "unavailable", reason="No room.")
            return (row := ledger.jobs.get(worker.job)) is not None and row.state.ended and row

        row = servers.wait_for(refuse, 20, what="the end of the job")

    assert (row.state, row.reason) == (JobState.FAILED, "No worker could begin: No room.")


@pytest.mark.parametrize(("priority", "least"), [("normal", 5), ("high", 10)])
def test_screening_and_searching_jobs_share_the_workers_by_priority(cluster, tmp_path, priority, least):
    screened = submit(cluster, tmp_path, columns(), document={"priority": priority}, **MINING)
    many = {"preset": "paper", "strategy": "random", "trees": 2000, "batch": 1000}
    other = submit(cluster, tmp_path, columns(), **MINING | many)
    with closing(Resources.connect(cluster)) as resources:
        scheduler = Scheduler(resources, "one")
        while len(scheduler.jobs) < 2:
            scheduler.turn()
        lengths = TaskLengths(cluster.task_seconds)
        chosen = choose_tasks(list(scheduler.jobs), 14, lengths, resources.clock())

    assert least <= len(chosen[screened]) < 14
    assert len(chosen[screened]) + len(chosen[other]) == 14


# Tables are prepared outside the loop.


def test_tables_are_prepared_while_other_jobs_continue(cluster, tmp_path, monkeypatch):
    ready, original = Event(), preparation.prepare

    def slow(spec, *rest):
        assert spec.priority != "low" or ready.wait(30)
        return original(spec, *rest)

    monkeypatch.setattr(preparation, "prepare", slow)
    with a_scheduler(cluster) as ledger:
        first = Worker(cluster, ledger, submit(cluster, tmp_path, columns(), **MINING))
        first.sent()
        slow_job = submit(cluster, tmp_path, columns(), document={"priority": "low"}, **MINING)
        cancelled = submit(cluster, tmp_path, columns(), document={"priority": "low"}, **MINING)
        servers.wait_for(lambda: ledger.jobs.get(cancelled), 20, what="a job in the ledger")
        ask(cluster, "cancel", cancelled)
        first.answer_all()
        before = (ledger.jobs.get(slow_job).state, ledger.jobs.get(slow_job).started)
        ready.set()
        servers.wait_for(lambda: ledger.screens.blocks(slow_job), 20, what="a prepared job")
        row = ended(ledger, cancelled)

    assert before == (JobState.QUEUED, None)
    assert row.state is JobState.CANCELLED


def test_a_background_thread_returns_results_and_errors_and_skips_cancelled_calls():
    thread, go = BackgroundThread(), Event()
    held = thread.submit(lambda: go.wait(10))
    failing, cancelled, last = thread.submit(lambda: 1 // 0), thread.submit(lambda: 1), thread.submit(lambda: "result")
    cancelled.cancel()
    go.set()

    assert held.result(10)
    assert isinstance(failing.exception(10), ZeroDivisionError)
    assert (last.result(10), cancelled.cancelled()) == ("result", True)
    thread.close()
