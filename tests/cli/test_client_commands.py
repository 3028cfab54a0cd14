"""The cluster commands over a real Redis, with a fake scheduler that answers the requests."""

import json
import re
import time

import pytest

from maabo_dist.cli.jobs import NewRules
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.job import JobRecord, JobState, Obstacle, paused_obstacle
from tests.cli.cluster_commands import JOB, OTHER, QUICK
from tests.report.handmade import AGE, make_document, make_rule


def test_jobs_lists_the_newest_first(run, scheduler):
    scheduler.add(JOB, JobState.RUNNING, name="wine", trees=120, planned=455, best_score=0.8125, rules=7, seconds=3)
    scheduler.add(OTHER, JobState.DONE, name="evil \x1b[31m[red]")

    code, out, err = run("jobs")

    rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines() if "7f3a" in line]
    assert (code, err) == (0, "")
    assert rows[0][:6] == ["7f3a1111", "done", "evil \\x1b[31m[red]", "0", "–", "–"]
    assert [*rows[1][:6], rows[1][7]] == ["7f3a0000", "running", "wine", "120/455 (26 %)", "0.812", "7", "3 s"]


def test_an_id_stays_whole_on_a_narrow_terminal(run, scheduler, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich treat a pipe as a terminal
    scheduler.add(JOB, JobState.CANCELLED, name="a long name of a table.parquet", trees=9999, planned=10_000, rules=99)

    _, out, _ = run("jobs")

    assert "7f3a0000" in out
    assert "cancelled" in out


def test_the_name_of_the_table_stays_readable_on_a_terminal_of_80_columns(run, scheduler, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    scheduler.add(JOB, JobState.RUNNING, name="customers.csv", trees=2048, planned=10_000, rules=12, seconds=9_000)

    _, out, _ = run("jobs")

    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    (line,) = (line for line in plain.splitlines() if "7f3a" in line)
    cells = re.split(r" {2,}", line.strip())
    assert cells[:5] == ["7f3a0000", "running", "customers.csv", "2,048/10,000 (20 %)", "12"]
    assert max(map(len, plain.splitlines())) <= 80


def test_jobs_are_filtered_and_limited(run, scheduler):
    for number in range(5):
        scheduler.add(f"{number:032x}", JobState.DONE if number % 2 else JobState.QUEUED)

    _, queued, _ = run("jobs", "--state", "queued", "--json")
    _, newest, _ = run("jobs", "--limit", "2", "--json")
    _, _, more = run("jobs", "--limit", "2")

    assert [int(record["id"], 16) for record in json.loads(queued)] == [4, 2, 0]
    assert [int(record["id"], 16) for record in json.loads(newest)] == [4, 3]
    assert more == "maabo: 3 more; --limit 5 shows all.\n"


def test_an_empty_list_is_reported(run, scheduler, server):
    assert run("jobs") == (0, f"There are no jobs at {server.redis_url}.\n", "")
    assert run("jobs", "--state", "paused") == (0, "No job is paused.\n", "")
    assert run("jobs", "--json") == (0, "[]\n", "")


def test_a_cluster_without_a_scheduler_gets_a_warning(run, redis):
    code, _, err = run("jobs")

    assert code == 0
    assert err.startswith("maabo: no scheduler is running at")


def test_status_shows_the_record(run, scheduler):
    scheduler.add(JOB, JobState.FAILED, name="wine", failed=3, reason="No worker came.", finished=1e9)

    code, out, _ = run("status", "7f3a")
    _, record, _ = run("status", JOB, "--json")

    assert code == 0
    assert re.search(r"state +failed", out)
    assert re.search(r"reason +No worker came\.", out)
    assert json.loads(record)["failed"] == 3


def test_a_job_that_does_not_advance_says_why_and_what_to_do(run, scheduler):
    obstacle = Obstacle(
        kind="workers", text="no worker \x1b is connected", remedy="Start workers.", since=time.time() - 60
    )
    scheduler.add(JOB, JobState.RUNNING, planned=500, trees=10, obstacle=obstacle)
    scheduler.add("a" * 32, JobState.PAUSED, obstacle=paused_obstacle("a" * 32))

    _, status, _ = run("status", JOB)
    _, jobs, _ = run("jobs")

    assert re.search(r"waiting +no worker \\x1b is connected, for 1 min\S*\. Start workers\.", " ".join(status.split()))
    assert "running: no workers" in jobs
    assert "paused " in jobs
    assert "paused: " not in jobs


def test_a_job_that_screens_pairs_shows_its_progress(run, scheduler):
    scheduler.add(JOB, JobState.RUNNING, planned=500, pairs_screened=5_000, pairs=12_497)

    listed, facts = run("jobs"), run("status", JOB)

    assert "screening 40 %" in listed[1]
    assert "screening 40 %" in facts[1]


def test_watch_ends_with_the_job(run, scheduler):
    scheduler.add(JOB, JobState.DONE, trees=455, rules=1, seconds=12.3, digest="ab" * 32)

    assert run("watch", "7f3a") == (
        0,
        "Job 7f3a0000 is done: 1 rule from 455 trees in 12 s, digest abababababababab\n",
        "",
    )


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (JobState.FAILED, r"Job 7f3a0000 failed: Why \x1b[2J not."),
        (JobState.CANCELLED, r"Job 7f3a0000 was cancelled: Why \x1b[2J not."),
    ],
)
def test_watch_of_a_job_without_a_result_is_a_failure(state, sentence, run, scheduler):
    scheduler.add(JOB, state, reason="Why \x1b[2J not.")

    assert run("watch", JOB) == (1, "", f"maabo: {sentence}\n")


def test_rules_so_far_are_marked_as_such(run, scheduler, table):
    _, job, _ = run("submit", table, *QUICK)
    run("watch", job.strip())
    record = scheduler.records[job.strip()]
    document = json.loads(scheduler.documents[record.id])
    document["search"]["stopped"] = "running"
    scheduler.change(record, json.dumps(document), state=JobState.RUNNING)

    code, out, err = run("rules", record.id[:8], "--json")
    _, table_text, _ = run("rules", record.id, "-q")

    assert code == 0
    assert json.loads(out) == document
    assert f"job {record.id[:8]} is running; these are the rules found so far" in err
    assert "R1" in table_text


def test_the_rules_of_a_job_come_in_every_format(run, scheduler, table):
    _, job, _ = run("submit", table, *QUICK)
    run("watch", job.strip())

    _, out, _ = run("rules", job.strip(), "--format", "sql", "--table-name", "t")

    assert 'FROM "t"' in out


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (JobState.QUEUED, "There are no rules yet: job 7f3a0000 is queued."),
        (JobState.FAILED, "Job 7f3a0000 failed."),
    ],
)
def test_a_job_without_rules_is_an_error_with_its_reason(state, sentence, run, scheduler):
    scheduler.add(JOB, state)

    assert run("rules", JOB) == (1, "", f"maabo: {sentence}\n")


def test_a_job_is_paused_resumed_and_cancelled(run, scheduler):
    scheduler.add(JOB, JobState.RUNNING)

    outputs = [run(command, "7f3a0")[:2] for command in ("pause", "resume", "cancel")]

    assert outputs == [(0, f"Job 7f3a0000 is {state}.\n") for state in ("paused", "running", "cancelled")]


@pytest.mark.parametrize(("command", "past"), [("pause", "paused"), ("resume", "resumed"), ("cancel", "cancelled")])
def test_a_job_that_has_ended_cannot_be_changed(command, past, run, scheduler):
    scheduler.add(JOB, JobState.DONE)

    assert run(command, JOB) == (2, "", f"maabo: Job 7f3a0000 is done; it cannot be {past}.\n")


@pytest.mark.parametrize("command", ["status", "watch", "rules", "pause", "resume", "cancel"])
@pytest.mark.parametrize(
    ("prefix", "word"), [("7f3a", "matches 2 jobs"), ("abcd", "no job abcd"), ("nonsense", "not a job id")]
)
def test_a_prefix_that_does_not_name_one_job_is_rejected(command, prefix, word, run, scheduler):
    scheduler.add(JOB)
    scheduler.add(OTHER)

    code, out, err = run(command, prefix)

    assert (code, out) == (2, "")
    assert word in err


@pytest.mark.soak
def test_schedulers_are_asked_for_an_unknown_id(run, scheduler):
    code, _, err = run("status", "0" * 32)

    assert code == 2
    assert "There is no job 00000000" in err
    assert scheduler.requests == ["look"]


def test_rules_are_printed_as_they_are_found():
    new_rules = NewRules()
    document = make_document(make_rule(AGE), make_rule(Condition("area", Op.ABOVE, 3.0), number=2))
    few = document.model_copy(update={"rules": document.rules[:1]})
    record = JobRecord(id=JOB, state=JobState.RUNNING, rules=1)

    assert not new_rules.may_have_changed(record.model_copy(update={"rules": None}))
    assert new_rules.may_have_changed(record)
    assert len(list(new_rules.lines(few))) == 1
    assert not new_rules.may_have_changed(record)
    assert new_rules.may_have_changed(record.model_copy(update={"rules": 2}))
    (line,) = new_rules.lines(document)
    assert line.startswith(document.rules[1].text)
    assert list(new_rules.lines(None)) == []
