"""Searches on shuffled labels as tasks: after any fault, rules and certificates are those of one process."""

import json
import os
import re
import signal
import time

import pytest

from maabo_dist.cluster.streams import BODY, SHUFFLE_HEADER
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import ShuffleAnswer
from tests import servers
from tests.faults.client import mined_here

pytestmark = pytest.mark.xdist_group("faults")

CERTIFIED = {"trees": 56, "batch": 8, "seed": 0, "significance": 0.9, "certify": 24}
WEAK = "weak"


def submit(world, **more):
    return world.submit(CERTIFIED | more, name=WEAK)


@pytest.fixture(autouse=True)
def _no_search_is_held_afterwards(world):
    yield
    world.hold.unlink(missing_ok=True)


def count_answered(tasks):
    return sum(task.stop - task.start for task in tasks if task.searches is not None)


def half_certified(world, least=3, **more):
    """Return a job of which some searches are answered and the others are held by workers until `check_done`."""
    world.hold.touch()
    job = submit(world, **more)

    def look():
        tasks = world.ledger.shuffles.rows(job)
        return tasks if tasks and least <= count_answered(tasks) < tasks[-1].stop else None

    servers.wait_for(look, 30, what="half of the shuffled searches")
    return job


def check_done(world, job, seconds=40, **more):
    """Check the digest and the certificates; those of two threads are the same too."""
    world.hold.unlink(missing_ok=True)
    mining = CERTIFIED | more
    row = world.check_done(job, mining, name=WEAK, seconds=seconds)
    document = json.loads(world.document(job))
    alone, threads = mined_here(mining, WEAK), mined_here(mining, WEAK, jobs=2)
    assert document["certificate"]["shuffles"] == alone.certificate.shuffles == threads.certificate.shuffles
    published = [rule["certificate"] for rule in document["rules"]]
    assert published == [rule.certificate.model_dump(mode="json") for rule in alone.rules]
    assert published == [rule.certificate.model_dump(mode="json") for rule in threads.rules]
    assert published
    assert (world.ledger.shuffles.plan(job), world.ledger.shuffles.rows(job)) == (None, [])
    return row


def test_shuffled_searches_on_workers_give_the_rules_of_one_process_and_their_progress_is_published(world):
    job = half_certified(world)
    record = servers.wait_for(
        lambda: (current := world.record(job)) and current.shuffles_done and current, 10, what="progress"
    )

    check_done(world, job)
    assert (record.state, record.shuffles, record.trees) == (JobState.MINING, 24, 56)
    assert 0 < record.shuffles_done < 24
    assert (world.record(job).shuffles_done, world.record(job).shuffles) == (None, None)


def test_worker_children_killed_during_the_shuffled_searches_change_nothing(world):
    before = len(world.first_scheduler.log)
    job = half_certified(world)
    children = world.first_worker.children
    for child in children:
        held = f"process {child} holds a shuffled search of job {job}"
        servers.wait_for(lambda held=held: held in world.first_worker.log, 30, what="a search for each process")
    for child in children:
        os.kill(child, signal.SIGKILL)

    check_done(world, job)
    assert world.first_worker.alive
    assert re.search("task lost .*task=shuffle", world.first_scheduler.log[before:])


@pytest.mark.slow
def test_a_worker_and_the_scheduler_killed_during_the_shuffled_searches_change_nothing(world):
    job = half_certified(world)
    world.first_scheduler.signal(signal.SIGKILL)
    world.first_worker.signal(signal.SIGKILL)
    world.first_scheduler.exit_code(10)
    answered = count_answered(world.ledger.shuffles.rows(job))
    world.worker()
    second = world.scheduler()

    check_done(world, job, seconds=60)
    assert answered >= 3
    assert f"searching on shuffled labels job={job} done={answered} of=24" in second.log


def test_a_job_cancelled_during_the_shuffled_searches_ends_at_once_and_frees_its_workers(world):
    job = half_certified(world)
    held = f"a shuffled search of job {job}"
    servers.wait_for(lambda: held in world.first_worker.log, 30, what="a search that is held")
    world.ask("cancel", job)
    started = time.monotonic()

    assert world.ended(job, seconds=5).state is JobState.CANCELLED
    assert (world.ledger.shuffles.plan(job), world.ledger.shuffles.rows(job)) == (None, [])
    servers.wait_for(lambda: world.record(job).state is JobState.CANCELLED, 10, what="the job's record")
    assert world.record(job).shuffles_done is None
    # The workers leave the searches, which are held for much longer, and are free for another job.
    servers.wait_for(lambda: "stopped: the job has ended" in world.first_worker.log, 10, what="a worker that is free")
    assert time.monotonic() - started < 25


@pytest.mark.soak
def test_a_job_paused_during_the_shuffled_searches_resumes_there(world):
    job = half_certified(world)
    world.ask("pause", job)
    servers.wait_for(lambda: world.row(job).state is JobState.PAUSED, 10, what="a job that is paused")
    assert world.ledger.shuffles.plan(job) is not None
    world.ask("resume", job)

    check_done(world, job)


@pytest.mark.soak
def test_a_redis_emptied_during_the_shuffled_searches_changes_nothing(world):
    job = half_certified(world)
    world.client.flushall()

    check_done(world, job)


@pytest.mark.soak
def test_many_searches_are_sent_several_in_a_task_and_answered_once_each(world):
    world.proxy.duplicate_commands(b"XADD", b"LPUSH")
    job = submit(world, certify=99)
    try:
        check_done(world, job, certify=99, seconds=60)
    finally:
        world.proxy.duplicate_commands()


def test_an_answer_that_does_not_match_a_task_is_refused(world):
    job, before = half_certified(world), len(world.first_scheduler.log)
    task = world.ledger.shuffles.rows(job)[-1]  # held
    header = {"kind": "done", "job": job, "attempt": 0, "worker": "unknown"}
    for start, stop, body in [(task.start, task.stop, b"short"), (0, 1000, b"")]:
        answer = ShuffleAnswer.read(header | {"start": start, "stop": stop})
        world.client.xadd(world.stream(job), {SHUFFLE_HEADER: answer.model_dump_json(), BODY: body})
    servers.wait_for(lambda: world.first_scheduler.log[before:].count("answer refused") >= 2, 15, what="two refusals")

    check_done(world, job)


@pytest.mark.soak
def test_a_scheduler_killed_at_any_step_of_the_shuffled_searches_changes_nothing(world):
    actions = ("shuffle-plan", "shuffle", "shuffle-publish")
    steps = [f"{when} {action}" for action in actions for when in ("before", "after")]
    world.first_scheduler.signal(signal.SIGTERM)
    world.first_scheduler.exit_code(15)
    dying = world.scheduler("tests.faults.dying_scheduler", *steps, lease_seconds=1.0)
    jobs = [submit(world) for _ in range(3)]  # a plan is written once
    for step in steps:
        servers.wait_for(lambda step=step: f"died: {step}, by signal 9" in dying.log, 40, what=f"a death {step}")

    for job in jobs:
        check_done(world, job, seconds=60)


@pytest.mark.soak
def test_kills_again_and_again_during_the_shuffled_searches_change_nothing(world):
    jobs = [submit(world, certify=99), submit(world, certify=74)]
    end = time.monotonic() + 30
    rounds = 0
    while time.monotonic() < end:
        time.sleep(1.5)
        rounds += 1
        if rounds % 3 != 2:
            process = world.first_worker if rounds % 3 else world.first_scheduler
            process.signal(signal.SIGKILL)
            process.exit_code(10)
        elif world.first_worker.children:
            os.kill(world.first_worker.children[0], signal.SIGKILL)
        world.revive()

    check_done(world, jobs[0], certify=99, seconds=90)
    check_done(world, jobs[1], certify=74, seconds=90)
