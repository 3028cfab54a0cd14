"""Jobs that are paused, resumed or cancelled, that run out of time, or wait for others."""

import time

import pytest

from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from scheduler.core import dispatch
from tests import servers
from tests.cluster import a_scheduler, ended, some_trees, submit
from tests.scheduler.jobs.job_actions import QUICK, SLOW, digest_of, in_state, no_slots, queues_paused

pytestmark = pytest.mark.xdist_group("jobs")  # they share a cluster

# Pause, resume, cancel.


def test_a_job_paused_while_it_runs_has_the_same_result(cluster, columns, client, maabo, tmp_path):
    with a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, **SLOW)
        some_trees(ledger, job, 20)
        paused = maabo("pause", job)
        trees = ledger.jobs.get(job).trees
        paused_seconds = (in_state(client, job, JobState.PAUSED).seconds, time.sleep(1.2), client.record(job).seconds)
        still = ledger.jobs.get(job).trees
        resumed = maabo("resume", job)
        row = ended(ledger, job)

    assert paused[:2] == (0, f"Job {job[:8]} is paused.\n")
    assert resumed[0] == 0
    assert 20 <= trees == still < 100
    assert paused_seconds[0] == paused_seconds[2]
    assert (row.state, row.trees, row.digest) == (JobState.DONE, 100, digest_of(columns, SLOW))


def test_a_job_paused_in_the_queue_is_not_started_before_it_is_resumed(cluster, columns, client, tmp_path, monkeypatch):
    with a_scheduler(cluster) as ledger:
        with no_slots(monkeypatch):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.QUEUED)
            client.send_command(job, "pause")
        other = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        untouched = ledger.jobs.get(job)
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (untouched.state, untouched.started) == (JobState.PAUSED, None)
    assert row.digest == other.digest == digest_of(columns, QUICK)


def test_a_job_paused_while_its_rules_are_mined_is_done_once_resumed(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.MINING)
            client.send_command(job, "pause")
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, digest_of(columns, QUICK))


def test_a_paused_job_stays_paused_when_the_scheduler_changes(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, **SLOW)
        some_trees(ledger, job, 5)
        client.send_command(job, "pause")
    with a_scheduler(cluster, "second") as ledger:
        other = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        still = ledger.jobs.get(job).state
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (other.state, still) == (JobState.DONE, JobState.PAUSED)
    assert row.digest == digest_of(columns, SLOW)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.PAUSED, JobState.MINING])
def test_a_cancelled_job_ends_and_leaves_nothing_behind(cluster, columns, client, maabo, tmp_path, monkeypatch, state):
    with a_scheduler(cluster) as ledger, queues_paused(cluster, names.RULES_QUEUE), monkeypatch.context() as patch:
        if state is JobState.QUEUED:
            patch.setattr(dispatch, "MAX_JOBS", 0)
            patch.setattr(dispatch, "IDLE_TENANT_SLOTS", 0)
        job = submit(cluster, tmp_path, columns, **(QUICK if state is JobState.MINING else SLOW))
        if state is JobState.PAUSED:
            some_trees(ledger, job, 5)
            client.send_command(job, "pause")
        in_state(client, job, state)
        code, out, _ = maabo("cancel", job)
        row = ledger.jobs.get(job)

    assert (code, out) == (0, f"Job {job[:8]} is cancelled.\n")
    assert (row.state, row.digest) == (JobState.CANCELLED, None)
    assert (list(ledger.search.batches(job)), list(ledger.search.results(job)), ledger.search.tasks(job)) == (
        [],
        [],
        [],
    )
    assert maabo("cancel", job)[0] == 2


# A budget of time.


def test_a_time_limit_ends_the_search_after_a_complete_batch_with_a_note(cluster, columns, client, tmp_path):
    mining = {"trees": 4000, "initial": 12, "batch": 8, "seed": 3}
    with a_scheduler(cluster) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **mining, time_limit=1.0))
        document = client.final_document(row.id).to_json()

    assert (row.state, row.reason, document["search"]["stopped"]) == (
        JobState.DONE,
        "the time limit was reached",
        "time",
    )
    assert 0 < row.trees == document["search"]["trees"] < 4000
    assert any("The time limit ended the search" in note and "faster machine" in note for note in document["notes"])
    assert row.digest == digest_of(columns, mining | {"trees": row.trees})


def test_another_scheduler_keeps_the_batches_that_the_time_limit_allowed(cluster, columns, tmp_path):
    mining = {"trees": 4000, "initial": 12, "batch": 8, "in_flight": 3, "seed": 3}
    with queues_paused(cluster, names.EVALUATE_QUEUE):
        with a_scheduler(cluster) as ledger:
            job = submit(cluster, tmp_path, columns, **mining, time_limit=0.5)
            first = servers.wait_for(lambda: (row := ledger.jobs.get(job)) and row.stop_after, what="the time's end")
        with a_scheduler(cluster, "second") as ledger:
            servers.wait_for(lambda: ledger.jobs.get(job).fence > 1, what="another holder")
            batches = list(ledger.search.batches(job))
    with a_scheduler(cluster, "third") as ledger:
        row = ended(ledger, job)

    assert (row.state, row.reason, row.stop_after) == (JobState.DONE, "the time limit was reached", first)
    assert len(batches) == first
    assert row.digest == digest_of(columns, mining | {"trees": row.trees})


def test_time_that_runs_out_after_the_last_tree_changes_nothing(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK, time_limit=1.5)
            in_state(client, job, JobState.MINING)
            time.sleep(2.0)
        row = ended(ledger, job)
        document = client.final_document(job).to_json()

    assert (row.state, row.reason, document["search"]["stopped"]) == (JobState.DONE, None, "budget")


# Waiting, and priorities.


def test_without_a_worker_a_job_waits(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.EVALUATE_QUEUE, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.RUNNING)
            time.sleep(2)
            waiting = client.record(job)
        row = ended(ledger, job)

    assert (waiting.state, waiting.trees, waiting.reason) == (JobState.RUNNING, 0, None)
    assert row.digest == digest_of(columns, QUICK)


def test_a_small_urgent_job_does_not_wait_for_a_wide_one(cluster, columns, client, tmp_path):
    wide = {"trees": 27_000, "subset_size": 4, "batch": 256, "in_flight": 16, "strategy": "random"}
    with a_scheduler(cluster.model_copy(update={"task_seconds": 0.02})) as ledger:
        low = submit(cluster, tmp_path, columns, document={"priority": "low"}, **wide)
        some_trees(ledger, low, 500)
        high = ended(ledger, submit(cluster, tmp_path, columns, document={"priority": "high"}, **QUICK))
        others = ledger.jobs.get(low)
        client.send_command(low, "cancel")

    assert high.digest == digest_of(columns, QUICK)
    assert (others.state, others.trees < 18_000) == (JobState.RUNNING, True)


def test_equal_jobs_progress_concurrently(cluster, columns, tmp_path):
    mining = {"trees": 1200, "batch": 64, "in_flight": 8}
    with a_scheduler(cluster.model_copy(update={"task_seconds": 0.005})) as ledger:
        jobs = [submit(cluster, tmp_path, columns, **mining, seed=seed) for seed in (1, 2)]
        rows = servers.wait_for(
            lambda: (rows := ledger.jobs.get_many(jobs)) and any(row.state.ended for row in rows) and rows,
            what="an end",
        )
        digests = {row.spec.settings.seed: row.digest for row in [ended(ledger, job) for job in jobs]}

    assert min(row.trees for row in rows) >= 400
    assert digests == {seed: digest_of(columns, mining | {"seed": seed}) for seed in (1, 2)}
