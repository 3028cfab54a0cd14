"""The commands and the client over a real server, a real scheduler and a real worker."""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from maabo_dist.client import AsyncClient, AsyncRemoteJob, Client, ProblemError, RemoteJob
from scheduler.ledger.tenants import make_token
from tests import servers
from tests.cli.tables import numbers, write_csv
from tests.cluster import a_scheduler, cluster_settings

pytestmark = pytest.mark.xdist_group("http-commands")

QUICK = ("--target", "y", "--trees", "10", "--min-samples", "20")
SCOPES = {"worker": ("read", "submit"), "reader": ("read",), "admin": ("admin",)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Yields the address of a server, and the tokens of a tenant by purpose."""
    folder = tmp_path_factory.mktemp("http")
    with servers.redis_server(folder) as url:
        settings = cluster_settings(url, folder, partial_seconds=0.2)
        with (
            servers.http_server(settings, folder) as address,
            servers.worker(settings, folder, "-P", "threads", "-c", "1", "--without-mingle", "--without-gossip"),
            a_scheduler(settings) as ledger,
        ):
            tokens = {}
            for use, scopes in SCOPES.items():
                token = make_token("us", frozenset(scopes), 1.0, name="", seconds=None)
                ledger.tokens.add(token.row)
                tokens[use] = token.text
            yield address, tokens


@pytest.fixture
def run(maabo, cluster, monkeypatch):
    address, tokens = cluster
    monkeypatch.setenv("MAABO_SERVER", address)
    monkeypatch.setenv("MAABO_TOKEN", tokens["worker"])
    return maabo


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path, numbers().assign(constant=1))


def timeless(text):
    document = json.loads(text)
    document["search"]["seconds"] = document["certificate"]["seconds"] = 0
    return document


@pytest.mark.parametrize("arguments", [("TABLE", *QUICK, "--probes", "3"), ("--dataset", "wine", "--trees", "10")])
def test_with_wait_the_same_json_is_printed_as_by_mine(run, table, arguments):
    arguments = [table if argument == "TABLE" else argument for argument in arguments]

    code, out, err = run("submit", *arguments, "--wait", "--json")
    _, mined, notes = run("mine", *arguments, "--json")

    assert code == 0, err
    assert timeless(out) == timeless(mined)
    assert err.endswith(notes)


@pytest.mark.parametrize(
    "options",
    [("--group", "who"), ("--time", "when", "--holdout", "0.2"), ("--weight", "times"), ("--weight", "share")],
)
def test_columns_that_describe_rows_mean_the_same_as_for_mine(run, tmp_path, options):
    rows = np.arange(200)
    frame = numbers().assign(who=rows // 4, when=rows[::-1], times=rows % 3, share=rows / 200 + 0.5)
    arguments = (write_csv(tmp_path, frame), "--target", "y", "--trees", "10", *options)

    code, out, err = run("submit", *arguments, "--wait", "--json")
    _, mined, _ = run("mine", *arguments, "--json")

    assert code == 0, err
    assert timeless(out) == timeless(mined)


def test_a_job_is_submitted_listed_watched_and_its_rules_printed(run, table):
    run("submit", table, *QUICK)
    code, out, err = run("submit", table, *QUICK, "--name", "my table", "--priority", "high", "--seed", "1")
    job = out.strip()
    watched = run("watch", job)
    _, listed, _ = run("jobs", "--limit", "1")
    _, facts, _ = run("status", job[:8])
    record = json.loads(run("status", job, "--json")[1])
    _, sql, _ = run("rules", job[:8], "--format", "sql", "--table-name", "t")

    assert (code, len(job)) == (0, 32)
    assert err == (
        "maabo: the server already has this table and keeps its name, 'table.csv'.\n"
        f"maabo: job submitted; `maabo watch {job[:8]}` follows it.\n"
    )
    assert watched[1].startswith(f"Job {job[:8]} is done: ")
    assert re.search(rf"{job[:8]} +done +table.csv +10/10 \(100 %\)", listed)
    assert re.search(r"tenant +us\npriority +high", facts)
    assert (record["state"], record["trees"], record["tenant"]) == ("done", 10, "us")
    assert 'FROM "t"' in sql


def test_an_equal_job_is_reused_unless_fresh_is_given(run, table):
    mining = (*QUICK, "--seed", "2")
    first, again = run("submit", table, *mining), run("submit", table, *mining)
    fresh = run("submit", table, *mining, "--fresh")

    assert again[1] == first[1] != fresh[1]
    assert f"maabo: job {again[1][:8]} has the same table and settings and is used; --fresh starts another." in again[2]
    assert "--fresh" not in first[2] + fresh[2]


def test_a_job_is_paused_resumed_and_cancelled(run, table):
    job = run("submit", table, "--target", "y", "--probes", "40", "--trees", "5000", "--batch", "1")[1].strip()

    outputs = [run(command, job) for command in ("pause", "resume", "cancel")]
    ended = run("pause", job)

    assert [re.sub(r"running|queued", "going", out) for _, out, _ in outputs] == [
        f"Job {job[:8]} is {state}.\n" for state in ("paused", "going", "cancelled")
    ]
    assert ended == (2, "", f"maabo: Job {job[:8]} is cancelled; it cannot be paused.\n")


def test_repeats_are_combined_as_by_mine(run, table):
    repeats = ("--min-samples", "16", "--repeats", "2", "--consensus", "0.3", "--seed", "5")
    code, out, _ = run("submit", table, *QUICK, *repeats, "--wait", "--json")
    _, mined, _ = run("mine", table, *QUICK, *repeats, "--json")

    assert code == 0
    assert timeless(out) == timeless(mined)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--target", "z"], "'z'"),
        (["--trees", "-1"], "--trees '-1'"),
        (["--tenant", "them"], "--tenant them: the token belongs to tenant us"),
        (["--subset-size", "5"], "--subset-size 5"),
        (["--name", "x" * 201], "--name has 201 characters"),
    ],
)
def test_invalid_input_is_one_line_with_exit_code_2(arguments, word, run, table):
    code, out, err = run("submit", table, *QUICK, *arguments)

    assert (code, out) == (2, "")
    assert word in err
    assert "Traceback" not in err


def test_the_server_and_the_token_may_be_given_before_the_command_or_after_it(maabo, cluster, tmp_path):
    address, tokens = cluster
    file = tmp_path / "token"
    file.write_text(tokens["reader"] + "\n")

    for arguments in (
        ["--server", address, "--token", tokens["reader"], "jobs"],
        ["jobs", "--server", address, "--token-file", file],
        ["--server", "http://127.0.0.1:1", "--token", "wrong", "jobs", "--server", address, "--token-file", file],
    ):
        code, _, err = maabo(*arguments, "--json")
        assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["jobs", "--redis", "redis://127.0.0.1:1/0"], "--redis and --server cannot be used together"),
        (["jobs", "--token", "a", "--token-file", "b"], "--token and --token-file cannot be used together"),
        (["jobs", "--token-file", "nowhere"], "--token-file nowhere cannot be read"),
        (["jobs", "--token", "two words"], "The token is empty or contains"),
        (["jobs", "--token", "maabo_wrong"], "The token is not valid: it is unknown, revoked or expired."),
        (["jobs", "--token", "READER", "--server", "http://maabo.example"], "over plain http"),
        (["jobs", "--server", "localhost"], "'localhost' does not begin with http"),
        (["cancel", "0" * 32, "--token", "READER"], "There is no job"),
        (["token", "list", "--token", "READER"], "This needs the scope 'admin'; the token has read."),
        (["token", "create", "--expires", "soon"], "'soon' is not a duration"),
        (
            ["token", "create", "--scopes", "root", "--token", "ADMIN"],
            "'read', 'submit' or 'admin' (got 'root')",
        ),
        (["token", "revoke", "0" * 12, "--token", "ADMIN"], "There is no valid token 000000000000"),
        (["status", "abcdef", "--token", "READER"], "There is no job abcdef"),
    ],
)
def test_an_error_message_contains_no_token(arguments, word, maabo, cluster):
    address, tokens = cluster
    filled_arguments = [tokens.get(argument.lower(), argument) for argument in arguments]

    code, out, err = maabo("--server", address, *filled_arguments)

    assert (code, out) == (2, "")
    assert word in err
    assert "maabo_" not in err


def test_a_missing_scope_and_a_missing_token_have_different_messages(maabo, cluster, table):
    address, tokens = cluster

    reader = maabo("submit", table, *QUICK, "--server", address, "--token", tokens["reader"])
    nobody = maabo("jobs", "--server", address)

    assert reader[2] == (
        "maabo: This needs the scope 'submit'; the token has read. Use a token created with --scopes submit.\n"
    )
    assert nobody[2] == (
        "maabo: The request has no token. Give a valid token: token=… in Python, --token-file or MAABO_TOKEN on "
        "the command line.\n"
    )
    assert (reader[0], nobody[0]) == (2, 2)


@pytest.mark.parametrize("command", [["jobs"], ["submit", "--dataset", "wine"], ["token", "list"], ["quota", "show"]])
def test_an_unreachable_server_is_reported_with_a_remedy(command, maabo, monkeypatch):
    monkeypatch.setattr("maabo_dist.client.Retrying.pause", lambda *_: 0.0)
    address = f"http://127.0.0.1:{servers.free_port()}"

    code, out, err = maabo(*command, "--server", address)

    assert (code, out) == (2, "")
    assert err.startswith(f"maabo: The server at {address} cannot be reached (")
    assert err.endswith("Check that it runs, and the address.\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["jobs", "--token", "x"], "A token needs a server"),
        (["--token", "x", "jobs", "--redis", "redis://127.0.0.1:1/0"], "--redis cannot be combined with a token"),
        (["--redis", "redis://127.0.0.1:1/0", "token", "list"], "Use --server instead of --redis"),
    ],
)
def test_a_token_without_a_server_is_rejected(arguments, word, maabo, monkeypatch):
    monkeypatch.delenv("MAABO_SERVER", raising=False)

    code, out, err = maabo(*arguments)

    assert (code, out) == (2, "")
    assert word in err


def test_without_httpx_the_command_to_install_it_is_shown():
    program = (
        "import sys; sys.modules['httpx'] = None; sys.argv = ['maabo', 'jobs', '--server', 'http://localhost']; "
        "from maabo_dist.cli import main; main()"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.endswith("Run: pip install 'maabo-dist[client]'\n")
    assert "Traceback" not in finished.stderr


def test_a_token_is_created_listed_used_and_revoked(maabo, cluster, monkeypatch):
    address, tokens = cluster
    monkeypatch.setenv("MAABO_SERVER", address)
    monkeypatch.setenv("MAABO_TOKEN", tokens["admin"])

    options = ("--tenant", "sales", "--scopes", "read", "--expires", "12h", "--name", "n")
    code, out, err = maabo("token", "create", *options)
    token = out.strip()
    number = token.split("_")[1]
    tokens_of_tenant = json.loads(maabo("token", "list", "--tenant", "sales", "--json")[1])
    _, table, _ = maabo("token", "list")
    used = maabo("quota", "show", "--json", "--token", token)
    revoked = maabo("token", "revoke", number)
    after = maabo("quota", "show", "--token", token)

    assert (code, len(out.splitlines())) == (0, 1)
    assert f"token {number} for tenant sales with scopes read, valid until" in err
    assert token not in err + table
    assert [(entry["id"], entry["name"]) for entry in tokens_of_tenant] == [(number, "n")]
    assert tokens_of_tenant[0]["expires"] - tokens_of_tenant[0]["created"] == pytest.approx(12 * 3600)
    assert re.search(rf"{number} +sales +read", table)
    assert json.loads(used[1])["tenant"] == "sales"
    assert revoked == (0, f"Token {number} is revoked.\n", "")
    assert after[0] == 2


def test_a_quota_is_set_shown_and_enforced(maabo, cluster, monkeypatch, table):
    address, tokens = cluster
    monkeypatch.setenv("MAABO_SERVER", address)
    admin = ("--token", tokens["admin"])
    _, token_text, _ = maabo("token", "create", "--tenant", "small", *admin)

    code, out, _ = maabo("quota", "set", "small", "--trees", "5", "--bytes", "1000", *admin)
    refused = maabo("submit", table, *QUICK, "--token", token_text.strip())

    assert code == 0
    assert re.search(r"tenant +small\nqueued +no limit\nrunning +no limit\nbytes +1,000 \(0 stored\)\ntrees +5\n", out)
    assert refused[0] == 2
    assert "The quota of 1,000 bytes of tables is used up" in refused[2]


def test_the_example_in_the_docs_runs(cluster, table, monkeypatch, capsys):
    page = (servers.ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    monkeypatch.chdir(table.parent)

    exec(example.replace("http://127.0.0.1:8080", cluster[0]).replace("maabo_…", cluster[1]["worker"]), {})

    assert capsys.readouterr().out.startswith("R1 ")


@pytest.mark.parametrize("kind", [Client, RemoteJob, AsyncClient, AsyncRemoteJob])
def test_the_examples_in_the_docstrings_of_the_clients_run(kind, cluster, table, monkeypatch):
    address, tokens = cluster
    monkeypatch.chdir(table.parent)

    async def run_examples():
        names = {"AsyncClient": AsyncClient, "Client": Client}
        make_client = AsyncClient if "Async" in kind.__name__ else Client
        names["client"] = make_client(address, tokens["worker"])
        for example in doctest.DocTestParser().get_examples(kind.__doc__):
            source = example.source.replace("http://127.0.0.1:8080", address).replace("maabo_…", tokens["worker"])
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = compile(source, kind.__name__, "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, names)
                if inspect.iscoroutine(result):
                    await result
            assert printed.getvalue() == example.want

    asyncio.run(run_examples())


def test_ctrl_c_leaves_a_watched_job_alone(cluster, table):
    address, tokens = cluster
    with Client(address, tokens["worker"]) as client:
        job = client.submit(table, target="y", probes=40, trees=5000, batch=1, seed=9)
        job.pause()
        listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        command = [sys.executable, "-c", f"{listening}from maabo_dist.cli import main; main()", "watch", job.id]
        environment = os.environ | {"MAABO_SERVER": address, "MAABO_TOKEN": tokens["worker"]}
        with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as process:
            while process.stderr.readline() != "maabo: paused\n":
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)

        assert (process.returncode, out) == (130, "")
        assert "no longer waiting" in err
        assert job.status().state == "paused"
        job.cancel()


def test_the_python_client_works_on_a_real_cluster(cluster, table):
    address, tokens = cluster
    events = []
    with Client(address, tokens["worker"]) as client:
        job = client.submit(table, target="y", seed=6, trees=10, min_samples=20).wait(on_event=events.append)
        rules = job.rules()
        other = client.submit(table, target="y", seed=7, trees=10, min_samples=20).wait()
        explained = job.explain(numbers(rows=3))

        assert rules[0].text in job.export("markdown") + "".join(rule.text for rule in rules)
        assert rules[0].conditions[0].feature.startswith("x")
        assert 0 < rules[0].train.precision <= 1
        assert events[-1].kind == "end"
        assert len(list(job.trees())) == job.last_status.trees == 10
        assert len(explained.rows) == 3
        assert "<html" in job.report()
        assert job.diff(other)["one"]["digest"] == job.last_status.digest
        assert other.id in {listed_job.id for listed_job in client.jobs(state="done")}
        other.delete()
        with pytest.raises(ProblemError, match="There is no job"):
            other.status()


def test_the_asynchronous_client_does_the_same(cluster, table):
    address, tokens = cluster

    async def use():
        async with AsyncClient(address, tokens["worker"]) as client:
            job = await client.submit(table, target="y", seed=8, trees=10, min_samples=20)
            kinds = [event.kind async for event in job.events()]
            return kinds, await (await job.wait()).rules(), [each.id async for each in client.jobs()], job.id

    kinds, rules, ids, job = asyncio.run(use())

    assert kinds[-1] == "end"
    assert rules[0].id == "R1"
    assert job in ids


def test_a_result_becomes_a_report_and_is_compared_with_another(run, table, tmp_path):
    job = run("submit", table, *QUICK, "--seed", "6")[1].strip()
    run("watch", job)
    run("mine", table, *QUICK, "--seed", "6", "--out", tmp_path / "run", "-q")
    run("mine", table, *QUICK, "--seed", "7", "--out", tmp_path / "other", "-q")

    page = tmp_path / "report.html"
    report_run = run("report", job[:8], "--out", page)
    _, printed, _ = run("report", tmp_path / "run", "--out", "-")
    same = run("diff", job, tmp_path / "run")
    _, difference, _ = run("diff", tmp_path / "run" / "rules.json", tmp_path / "other", "--json")
    _, lines, _ = run("diff", tmp_path / "run", tmp_path / "other")

    assert report_run == (0, "", f"maabo: wrote {page}.\n")
    assert "figure-history" in page.read_text(encoding="utf-8"), "with the pictures of the search"
    assert "<html" in printed
    assert same[1].endswith("The rules are the same.\n")
    assert not json.loads(difference)["equal"]
    assert "rules are the same in both." in lines
    assert re.search(r"Only in ONE:|Different thresholds:|different evidence:|Only in OTHER:", lines)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"rules": []}'])
def test_a_file_without_rules_is_rejected(text, maabo, tmp_path):
    file = tmp_path / "rules.json"
    file.write_text(text)
    for arguments in (["report", file], ["diff", tmp_path, file]):
        code, out, err = maabo(*arguments)

        assert (code, out) == (2, "")
        assert re.search(r"maabo-rules/1|is not JSON", err)


@pytest.mark.soak  # over Redis, the same is among the quick tests
def test_an_experiment_of_the_paper_gives_the_same_files_on_a_cluster(run, tmp_path):
    arguments = ("paper", "exp3", "--dataset", "diabetes", "--seeds", "1", "--quiet", "--out")

    code, remote, err = run(*arguments, tmp_path / "far", "--cluster")
    _, local, _ = run(*arguments, tmp_path / "here")

    assert code == 0, err
    assert remote == local
    for name in ("exp3.csv", "exp3_rules.csv"):
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
