"""Cluster commands that cannot connect, and those that are interrupted or shown on a terminal."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from maabo_dist.contract.job import JobState
from tests import servers
from tests.cli.cluster_commands import JOB, QUICK, options, started

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


def test_every_cluster_command_accepts_an_address():
    for name in {command[0] for command in EVERY_COMMAND}:
        assert "--redis" in options(name)
