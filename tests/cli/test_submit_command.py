"""`maabo submit` over a real Redis, with a fake scheduler that answers the requests."""

import json
import re
import signal

import pytest

from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.errors import MaaboError
from tests.cli.cluster_commands import QUICK, options, started, timeless


def test_submit_accepts_every_option_of_mine():
    assert options("mine") <= options("submit")


def test_submit_refuses_a_sample(run, table):
    code, _, err = run("submit", table, "--target", "target", "--sample", "1000")

    assert code == 2
    assert "--sample 1000: a cluster draws samples of directories. Use all, or maabo mine." in err


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
