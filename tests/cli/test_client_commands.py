"""The cluster commands over a real Redis, with a fake scheduler that answers the requests."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from maabo_dist.cli import maabo as group
from maabo_dist.cli.jobs import NewRules
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.job import JobRecord, JobState, Obstacle, paused_obstacle
from maabo_dist.errors import MaaboError
from tests import servers
from tests.cli.tables import numbers, write_csv
from tests.cluster_client.fake_scheduler import FakeScheduler, running
from tests.report.handmade import AGE, make_document, make_rule

JOB = "7f3a" + "0" * 28
OTHER = "7f3a" + "1" * 28
QUICK = ("--target", "y", "--trees", "10", "--min-samples", "20")
# A background parent may ignore SIGINT, and a child inherits that.
LISTEN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from maabo_dist.cli import main; main()"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield ClusterSettings(redis_url=url)


@pytest.fixture
def redis(server):
    client = open_redis(server)
    yield client
    client.flushall()
    client.close()


@pytest.fixture
def scheduler(server, redis):
    with running(FakeScheduler(server, redis, mines=True)) as working:
        yield working


@pytest.fixture
def run(maabo, server, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", server.redis_url)
    return maabo


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path, numbers().assign(constant=1))


def timeless(text):
    document = json.loads(text)
    document["search"]["seconds"] = document["certificate"]["seconds"] = 0
    return document


def options(name):
    return {option for parameter in group.commands[name].params for option in parameter.opts}


def test_submit_accepts_every_option_of_mine():
    assert options("mine") <= options("submit")


def test_submit_refuses_a_sample(run, table):
    code, _, err = run("submit", table, "--target", "target", "--sample", "1000")

    assert code == 2
    assert "--sample 1000: a cluster searches all rows. Use --sample all, or maabo mine." in err


def test_with_wait_the_same_json_is_printed_as_by_mine(run, scheduler, table):
    code, out, err = run("submit", table, *QUICK, "--jobs", "1", "--wait", "--json")
    _, mined, notes = run("mine", table, *QUICK, "--json")

    assert code == 0
    assert timeless(out) == timeless(mined)
    assert err.endswith(notes)


@pytest.mark.parametrize("form", ["csv", "sql", "table"])
def test_with_wait_every_format_is_the_same_as_by_mine(form, run, scheduler, table):
    _, out, _ = run("submit", table, *QUICK, "--wait", "-q", "--format", form)
    _, mined, _ = run("mine", table, *QUICK, "-q", "--format", form)

    assert out == mined


def test_out_contains_the_files_of_a_job(run, scheduler, table, tmp_path):
    folder = tmp_path / "run"

    code, out, _ = run("submit", table, *QUICK, "--wait", "--json", "--out", folder)

    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["rules.csv", "rules.json", "run.json"]
    assert json.loads((folder / "rules.json").read_text(encoding="utf-8")) == json.loads(out)
    assert record["job"] in scheduler.records


def test_without_wait_stdout_is_only_the_id(run, scheduler, table):
    code, out, err = run("submit", table, *QUICK, "--name", "my table", "--priority", "high", "--tenant", "us")

    record = scheduler.records[out.strip()]
    assert (code, out) == (0, f"{record.id}\n")
    assert (record.name, record.priority, record.tenant) == ("my table", "high", "us")
    assert err == f"maabo: job submitted; `maabo watch {record.id[:8]}` follows it.\n"


def test_without_wait_json_is_the_record(run, scheduler, table):
    _, out, _ = run("submit", table, *QUICK, "--json")

    assert json.loads(out)["id"] in scheduler.records


def test_a_table_that_is_stored_is_not_sent_again(run, scheduler, table):
    _, _, first = run("submit", table, *QUICK)
    _, _, second = run("submit", table, *QUICK, "--seed", "1")
    _, _, third = run("submit", table, *QUICK, "--quiet")

    assert "stored" not in first
    assert second.startswith("maabo: the table is already stored.\n")
    assert third == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--format", "csv"], "--format csv needs the rules"),
        (["--out", "somewhere"], "--out needs the rules"),
        (["--subset-size", "5"], "--subset-size 5"),
        (["--gini", "2"], "--gini '2'"),
        (["--target", "z"], "'z'"),
        (["--name", "x" * 201], "dataset.name"),
        (["--priority", "highest"], "--priority"),
    ],
)
def test_invalid_input_is_rejected_before_anything_is_sent(arguments, word, run, scheduler, table):
    code, out, err = run("submit", table, *QUICK, *arguments)

    assert (code, out) == (2, "")
    assert word in err
    assert scheduler.records == {}


@pytest.mark.parametrize("options", [[], ["--wait"]])
def test_a_rejected_job_is_an_error_with_its_reason(options, run, scheduler, table, monkeypatch):
    def refuse(spec):
        scheduler.change(scheduler.records[spec.id], state=JobState.FAILED, reason="The table is cursed.")

    monkeypatch.setattr(scheduler, "mine", refuse)

    code, out, err = run("submit", table, *QUICK, *options)

    assert (code, out) == (1, "")
    assert re.search(r"maabo: Job \w{8} failed: The table is cursed\.", err)


@pytest.mark.soak
def test_submit_reports_that_no_scheduler_is_running(run, redis, table):
    code, out, err = run("submit", table, *QUICK)

    assert (code, out) == (1, "")
    assert err.startswith("maabo: No scheduler is running. The job is queued at")
    assert redis.xlen(names.INTAKE_STREAM) == 1


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


EVERY_COMMAND = [
    ["jobs"],
    ["submit", "--dataset", "wine"],
    *([name, JOB] for name in ("status", "watch", "rules", "pause", "resume", "cancel")),
]


@pytest.mark.parametrize("arguments", EVERY_COMMAND)
def test_an_unreachable_redis_is_reported_with_a_remedy(arguments, maabo):
    url = f"redis://:secret@127.0.0.1:{servers.free_port()}/0"

    code, out, err = maabo(*arguments, "--redis", url)

    assert (code, out) == (2, "")
    assert f"Redis at {url.replace(':secret@', '')} cannot be reached" in err
    assert "Check that it is running" in err
    assert "secret" not in err


@pytest.mark.parametrize("user", ["", ":wrong@"])
def test_a_wrong_password_is_rejected_and_not_printed(user, maabo, server, redis):
    url = server.redis_url.replace("redis://", f"redis://{user}")
    redis.config_set("requirepass", "right")
    try:
        code, _, err = maabo("jobs", "--redis", url)
    finally:
        redis.execute_command("AUTH", "right")
        redis.config_set("requirepass", "")

    assert code == 2
    assert f"Redis at {server.redis_url} rejects the password or user" in err
    assert "wrong" not in err.replace("WRONGPASS", "")


def test_an_invalid_address_is_rejected(maabo, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", "localhost:6379")

    code, _, err = maabo("jobs")

    assert code == 2
    assert "'localhost:6379', does not begin with redis://" in err


def test_without_the_extra_the_command_to_install_it_is_shown():
    program = (
        "import sys; sys.modules['redis'] = None; sys.argv = ['maabo', 'jobs']; from maabo_dist.cli import main; main()"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.endswith("Run: pip install 'maabo-dist[service]'\n")
    assert "Traceback" not in finished.stderr


@contextmanager
def started(server, *arguments, stderr=subprocess.PIPE):
    environment = os.environ | {"MAABO_REDIS": server.redis_url}
    command = [sys.executable, "-c", LISTEN, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_leaves_a_watched_job_alone(server, scheduler):
    scheduler.add(JOB, JobState.RUNNING)
    with started(server, "watch", JOB) as process:
        assert process.stderr.readline() == "maabo: searching\n"

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert err == (
        "maabo: no longer waiting; job 7f3a0000 keeps running. "
        "`maabo watch 7f3a0000` follows it, `maabo cancel 7f3a0000` cancels it.\n"
    )
    assert scheduler.records[JOB].state is JobState.RUNNING


def test_ctrl_c_leaves_a_submitted_job_alone(server, scheduler, table):
    scheduler.mines = False
    with started(server, "submit", table, *QUICK, "--wait") as process:
        assert process.stderr.readline() == "maabo: queued\n"

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert "keeps running" in err
    assert [record.state for record in scheduler.records.values()] == [JobState.QUEUED]


def test_a_watched_job_moves_a_bar_on_a_terminal(server, scheduler):
    reader, terminal = pty.openpty()
    scheduler.add(JOB, JobState.PAUSED, trees=120, planned=455, best_score=0.75, rules=7)
    with started(server, "watch", JOB, stderr=terminal) as process:
        os.close(terminal)
        output = b""
        while not re.search(rb"paused.*120/455 trees.*best F1 0\.750, 7 rules so far", output):
            output += os.read(reader, 4096)
        scheduler.change(scheduler.records[JOB], state=JobState.DONE)
        process.wait(60)
    os.close(reader)

    assert process.returncode == 0


def test_a_log_has_a_line_for_each_state_of_a_watched_job(server, scheduler):
    scheduler.add(JOB, JobState.RUNNING)
    with started(server, "watch", JOB) as process:
        assert process.stderr.readline() == "maabo: searching\n"
        scheduler.change(scheduler.records[JOB], state=JobState.MINING)
        assert process.stderr.readline() == "maabo: choosing the rules\n"
        scheduler.change(scheduler.records[JOB], state=JobState.DONE, trees=3)
        out, _ = process.communicate(timeout=60)

    assert (process.returncode, out) == (0, "Job 7f3a0000 is done: 3 trees in 0 s\n")


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


def test_every_cluster_command_accepts_an_address():
    for name in {command[0] for command in EVERY_COMMAND}:
        assert "--redis" in options(name)


REPEATS = ("--min-samples", "16", "--repeats", "3", "--consensus", "0.3")


def test_repeats_are_separate_jobs_and_the_json_is_the_same_as_by_mine(run, scheduler, table):
    code, out, err = run("submit", table, *QUICK, *REPEATS, "--wait", "--json")
    _, mined, notes = run("mine", table, *QUICK, *REPEATS, "--json")

    assert code == 0
    assert timeless(out) == timeless(mined)
    assert err.endswith(notes)
    assert timeless(out)["repeats"]["consensus"]
    assert [record.name for record in scheduler.records.values()] == [
        "table.csv",
        *(f"table.csv (repeat {number} of 3)" for number in (1, 2, 3)),
    ]


def test_repeats_without_wait_are_rejected_before_anything_is_sent(run, scheduler, table):
    code, _, err = run("submit", table, *QUICK, "--repeats", "3")

    assert code == 2
    assert err == "maabo: --repeats 3 needs the rules, which exist only when the job is done. Add --wait.\n"
    assert not scheduler.records


def test_a_failed_repeat_is_reported_and_the_others_are_used(run, scheduler, table, monkeypatch):
    mine_one = scheduler.mine

    def mine_all_but_the_second(spec):
        if "repeat 2" in spec.dataset.name:
            raise MaaboError("no luck")
        mine_one(spec)

    monkeypatch.setattr(scheduler, "mine", mine_all_but_the_second)

    code, out, err = run("submit", table, *QUICK, *REPEATS, "--wait", "--json")

    assert code == 0
    assert "failed: no luck" in err
    assert json.loads(out)["repeats"]["done"] == 2
    assert json.loads(out)["notes"][-1].startswith("Only 2 of 3 repeats were done")


def test_when_the_job_fails_the_repeats_that_keep_running_are_named(run, scheduler, table, monkeypatch):
    def fail_but_for_repeats(spec):
        if "repeat" not in spec.dataset.name:
            scheduler.change(scheduler.records[spec.id], state=JobState.RUNNING)
        else:
            first = next(iter(scheduler.records.values()))
            scheduler.change(first, state=JobState.FAILED, reason="a fault")

    monkeypatch.setattr(scheduler, "mine", fail_but_for_repeats)

    code, out, err = run("submit", table, *QUICK, *REPEATS, "--wait", "--json")

    first, *repeats = scheduler.records
    assert (code, out) == (1, "")
    assert f"jobs {', '.join(repeat[:8] for repeat in repeats)} keep running." in err
    assert f"Job {first[:8]} failed: a fault" in err


def test_ctrl_c_names_the_repeats_that_keep_running(server, scheduler, table):
    scheduler.mines = False
    with started(server, "submit", table, *QUICK, *REPEATS, "--wait") as process:
        assert process.stderr.readline() == "maabo: queued\n"

        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert f"no longer waiting; jobs {', '.join(job[:8] for job in scheduler.records)} keep running." in err
    assert len(scheduler.records) == 4


def test_an_experiment_of_the_paper_gives_the_same_files_on_a_cluster(run, scheduler, tmp_path):
    arguments = ("paper", "exp3", "--dataset", "diabetes", "--seeds", "1", "--quiet", "--out")

    code, remote, err = run(*arguments, tmp_path / "far", "--cluster")
    _, local, _ = run(*arguments, tmp_path / "here")

    assert code == 0, err
    assert remote == local
    for name in ("exp3.csv", "exp3_rules.csv"):
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
