"""Passes over the rows of a dataset as tasks: after any fault, the digest is that of one process."""

import json
import os
import re
import shutil
import signal
from functools import cache
from uuid import uuid4

import numpy as np
import pytest

from maabo_dist import MiningSettings, TableSettings, mine_dataset
from maabo_dist.cluster.streams import BODY, COUNT_HEADER
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import CountAnswer
from maabo_dist.data.datasets import Dataset
from tests import servers
from tests.cluster import ask
from tests.test_mine_dataset import table, write

pytestmark = pytest.mark.xdist_group("faults")

MINING = {"trees": 30, "batch": 10, "seed": 1}
SAMPLE, ROWS = 2000, 8000
KINDS = ("plan", "draw", "count")


@cache
def expected():
    return mine_dataset(table(ROWS), TableSettings(target="y"), MiningSettings(**MINING), sample=SAMPLE).result


def held(world, kind):
    return world.hold.with_name(f"{world.hold.name}-{kind}")


@pytest.fixture(autouse=True)
def _no_task_is_held_afterwards(world):
    yield
    for kind in KINDS:
        held(world, kind).unlink(missing_ok=True)


@pytest.fixture
def sales(world):
    """The path of a new dataset of three files."""
    return write_sales(world)


def write_sales(world, parts=3, frame=None, **options):
    world.tables.mkdir(exist_ok=True)
    name = uuid4().hex
    write(table(ROWS) if frame is None else frame, world.tables / name, parts, **({"row_group_size": 500} | options))
    return name


def submit(world, path, **changes):
    job, dataset = uuid4().hex, Dataset.open(world.tables / path)
    many = {"path": path, "sample": SAMPLE, "rows": dataset.rows, "columns": len(dataset.names)}
    reference = {"fingerprint": dataset.fingerprint, "name": "sales", "settings": {"target": "y"}, "many": many}
    document = {"id": job, "dataset": reference | changes, "settings": MINING}
    ask(world.settings, "submit", job, document=document)
    return job


def half_read(world, path, kind):
    """Return a job of which some tasks of a pass are answered and the others are held by workers."""
    held(world, kind).touch()
    job = submit(world, path)
    servers.wait_for(lambda: f"holds a {kind} task of job {job}" in world.first_worker.log, 40, what=f"a {kind} task")
    return job


def release(world):
    for kind in KINDS:
        held(world, kind).unlink(missing_ok=True)


def check_done(world, job, seconds=60):
    release(world)
    row = world.check_done(job, digest=expected().digest, seconds=seconds)
    assert (world.ledger.passes.rows(job), world.ledger.passes.blocks(job, 0)) == ([], [])
    return row


def check_failed(world, job, match):
    row = world.ended(job, seconds=40)
    assert row.state is JobState.FAILED
    assert re.search(match, row.reason), row.reason
    assert world.ledger.passes.rows(job) == []
    assert all(world.ledger.passes.blocks(job, number) == [] for number in range(5))
    return row


@pytest.mark.slow
def test_the_rules_are_those_of_one_process_whatever_the_files(world, sales):
    shuffled = table(ROWS).sample(frac=1, random_state=3)
    jobs = [submit(world, sales), submit(world, write_sales(world, 7, shuffled, row_group_size=97))]

    for job in jobs:
        check_done(world, job)
    documents = [json.loads(world.document(job)) for job in jobs]
    assert documents[0]["rules"] == documents[1]["rules"]
    assert documents[0]["coverage"] == documents[1]["coverage"]
    assert documents[0]["dataset"]["sample"]["checksum"] == documents[1]["dataset"]["sample"]["checksum"]
    assert documents[0]["dataset"]["parts"] == expected().rows
    counts = [rule["train"]["counts"] for rule in documents[0]["rules"]]
    assert counts == [rule.train.counts for rule in expected().rules]
    assert documents[0]["notes"][0] == expected().notes[0]


def test_identical_rows_in_several_tasks_are_numbered_as_in_one_process(world):
    rng = np.random.default_rng(2)
    frame = table(ROWS)[["city", "y"]].assign(x=rng.integers(0, 30, ROWS))
    frame.loc[frame["x"] > 25, "y"] = "yes"
    alone = mine_dataset(frame, TableSettings(target="y"), MiningSettings(**MINING), sample=SAMPLE).result

    job = submit(world, write_sales(world, frame=frame))

    world.check_done(job, digest=alone.digest, seconds=60)
    document = json.loads(world.document(job))
    assert [rule["holdout"]["counts"] for rule in document["rules"]] == [rule.holdout.counts for rule in alone.rules]
    assert len(re.findall(f"reading rows job={job} kind=draw", world.first_scheduler.log)) == 2


@pytest.mark.slow
def test_progress_is_published(world, sales):
    job = half_read(world, sales, "draw")
    record = servers.wait_for(
        lambda: (current := world.record(job)) and current.rows_read and current, 10, what="progress"
    )

    check_done(world, job)
    assert (record.state, record.rows) == (JobState.RUNNING, ROWS)
    assert 0 < record.rows_read < ROWS
    assert (world.record(job).rows_read, world.record(job).rows) == (None, None)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "count" else pytest.mark.slow) for kind in KINDS]
)
def test_worker_children_killed_during_a_pass_change_nothing(world, sales, kind):
    before = len(world.first_scheduler.log)
    job = half_read(world, sales, kind)
    holding = re.findall(rf"process (\d+) holds a {kind} task of job {job}", world.first_worker.log)
    for child in set(map(int, holding)):
        os.kill(child, signal.SIGKILL)

    check_done(world, job)
    assert world.first_worker.alive
    assert re.search("task lost .*task=count", world.first_scheduler.log[before:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draw", "count"])
def test_a_worker_and_the_scheduler_killed_during_a_pass_change_nothing(world, sales, kind):
    job = half_read(world, sales, kind)
    number = len(world.ledger.passes.rows(job)) - 1

    def answered():
        return sum(block.size for block in world.ledger.passes.blocks(job, number) if block.answer is not None)

    servers.wait_for(answered, 20, what="an answer in the ledger")
    world.first_scheduler.signal(signal.SIGKILL)
    world.first_worker.signal(signal.SIGKILL)
    world.first_scheduler.exit_code(10)
    rows = answered()
    world.worker()
    second = world.scheduler()

    check_done(world, job, seconds=90)
    assert f"reading rows job={job} kind={kind} rows={rows} of={ROWS}" in second.log


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draw", pytest.param("count", marks=pytest.mark.soak)])
def test_a_job_cancelled_during_a_pass_ends_at_once_and_frees_its_workers(world, sales, kind):
    job = half_read(world, sales, kind)
    world.ask("cancel", job)

    assert world.ended(job, seconds=10).state is JobState.CANCELLED
    assert world.ledger.passes.rows(job) == []
    servers.wait_for(lambda: world.record(job).state is JobState.CANCELLED, 10, what="the job's record")
    assert world.record(job).rows_read is None
    release(world)
    check_done(world, submit(world, sales))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("draw", "removed"),
        ("count", "rewritten"),
        pytest.param("count", "damaged", marks=pytest.mark.soak),
        pytest.param("draw", "damaged", marks=pytest.mark.soak),
        pytest.param("count", "removed", marks=pytest.mark.soak),
        pytest.param("draw", "rewritten", marks=pytest.mark.soak),
    ],
)
def test_a_file_that_changes_during_a_pass_is_named(world, sales, kind, change):
    job = half_read(world, sales, kind)
    path = world.tables / sales / "2.parquet"
    if change == "removed":
        path.unlink()
    elif change == "rewritten":
        shutil.copy(path.with_name("1.parquet"), path)
    else:
        path.write_bytes(path.read_bytes()[:5000])
    release(world)

    check_failed(world, job, r"could not be (drawn from|counted): .*2\.parquet")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"settings": {"target": "absent"}}, "'absent'"),
        ({"settings": {"target": "y", "weight": "x0"}}, "--weight needs all rows"),
    ],
)
def test_a_dataset_that_cannot_be_mined_fails_at_once(world, sales, changes, match):
    job = submit(world, sales, **changes)

    check_failed(world, job, match)
    assert len(re.findall(f"task failed job={job}", world.first_scheduler.log)) == 1


def test_files_outside_the_table_directory_are_not_read(world, sales, tmp_path):
    secret = write(table(ROWS), tmp_path / "secret", 1)
    (world.tables / sales / "3.parquet").symlink_to(secret / "0.parquet")

    job = submit(world, sales)

    before = servers.wait_for(lambda: "is not in the table directory" in world.first_worker.log, 20, what="a refusal")
    world.ask("cancel", job)
    world.ended(job)
    assert before


def test_an_answer_that_does_not_match_a_task_is_refused(world, sales):
    job, before = half_read(world, sales, "draw"), len(world.first_scheduler.log)
    block = world.ledger.passes.blocks(job, 1)[-1]  # held
    header = {"kind": "done", "job": job, "attempt": 0, "worker": "unknown", "number": 1}
    for start, stop, body in [(block.start, block.stop, b"[]"), (0, 1000, b""), (block.start, block.stop, b"{")]:
        answer = CountAnswer.read(header | {"start": start, "stop": stop})
        world.client.xadd(world.stream(job), {COUNT_HEADER: answer.model_dump_json(), BODY: body})
    servers.wait_for(lambda: world.first_scheduler.log[before:].count("answer refused") >= 3, 15, what="refusals")

    check_done(world, job)


@pytest.mark.soak
def test_messages_that_arrive_twice_change_nothing(world, sales):
    world.proxy.duplicate_commands(b"XADD", b"LPUSH")
    try:
        check_done(world, submit(world, sales), seconds=90)
    finally:
        world.proxy.duplicate_commands()


@pytest.mark.soak
def test_a_scheduler_killed_at_any_step_of_a_pass_changes_nothing(world, sales):
    actions = ("pass", "pass-publish", "pass-complete", "pass-begin")
    steps = [f"{when} {action}" for action in actions for when in ("before", "after")]
    world.first_scheduler.signal(signal.SIGTERM)
    world.first_scheduler.exit_code(15)
    dying = world.scheduler("tests.faults.dying_scheduler", *steps, lease_seconds=1.0)
    jobs = [submit(world, sales) for _ in range(3)]
    for step in steps:
        servers.wait_for(lambda step=step: f"died: {step}, by signal 9" in dying.log, 60, what=f"a death {step}")

    for job in jobs:
        check_done(world, job, seconds=120)


@pytest.mark.soak
def test_a_job_paused_during_a_pass_resumes_there(world, sales):
    for kind in ("draw", "count"):
        job = half_read(world, sales, kind)
        world.ask("pause", job)
        servers.wait_for(lambda job=job: world.row(job).state is JobState.PAUSED, 10, what="a job that is paused")
        world.ask("resume", job)

        check_done(world, job)
