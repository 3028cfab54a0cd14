"""The users of `deploy.redis_acl` on real Redis servers: each has the permissions it needs, and no others."""

import os
import stat
import subprocess
import sys
from uuid import uuid4

import httpx
import numpy as np
import pytest
import redis

from deploy.redis_acl import check_names, lines, read_passwords
from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import SettingsError
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from tests import factories, servers
from tests.cluster import a_scheduler, cluster_settings
from tests.secured_redis import DEBIAN, Certificates, SecuredRedis, needs_tls

MINING = {"trees": 40, "batch": 8, "subset_size": 2, "min_samples": 5, "seed": 3}
EXAMPLE = servers.ROOT / "deploy" / "redis" / "users.acl.example"
PREFIX = "t:"


@pytest.fixture(scope="module")
def columns():
    return factories.make_clear(np.random.default_rng(5), 60, 8)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """Redis 6.2, which is part of the test environment."""
    with SecuredRedis(tmp_path_factory.mktemp("bundled"), prefix=PREFIX, own_queues=("billing",)).running() as server:
        yield server


@pytest.fixture(scope="module")
def debian(tmp_path_factory, certificates):
    """Redis 7 with TLS, which requires client certificates."""
    options = {"program": DEBIAN, "prefix": PREFIX, "own_queues": ("billing",), "certificates": certificates}
    with SecuredRedis(tmp_path_factory.mktemp("debian"), **options).running() as server:
        yield server


def run_job(server, directory, columns):
    """Run a job in which each process uses its own user; return its record and events."""
    settings = cluster_settings(
        server.url("scheduler"), directory, prefix=server.prefix, lease_seconds=1, store_url="redis://"
    )

    def as_user(name):
        return settings.model_copy(update={"redis_url": server.url(name)})

    callback = {"callback": {"task": "billing.rules_ready", "queue": "billing"}}
    document = {"id": uuid4().hex, "dataset": {"fingerprint": columns.fingerprint}, "settings": MINING} | callback
    parts = servers.worker(as_user("worker"), directory, "-c", "1")
    with a_scheduler(settings), parts, servers.http_server(as_user("api"), directory) as url:
        client = QueueClient.connect(as_user("client"), lambda _: None)
        client.submit(JobSpec.parse(document), columns)
        record = list(client.follow(document["id"]))[-1]
        client.final_document(document["id"])
        assert [found.id for found in client.jobs()] == [client.find(document["id"][:6]).id]
        called = server.prefix + "billing"
        servers.wait_for(lambda: server.admin.llen(called), what="a callback")
        for path in ("/readyz", "/v1/load", "/metrics", f"/v1/jobs/{document['id']}/rules"):
            assert httpx.get(url + path).status_code == 200, path
        with httpx.stream("GET", f"{url}/v1/jobs/{document['id']}/events") as events:
            assert next(line for line in events.iter_lines() if line.startswith("data: "))
        assert httpx.delete(f"{url}/v1/jobs/{document['id']}").is_success
    return record


@pytest.mark.slow
def test_a_job_with_these_users_has_the_rules_of_mine(bundled, tmp_path, columns):
    record = run_job(bundled, tmp_path, columns)

    assert (record.state, record.digest) == (JobState.DONE, mine(columns, MiningSettings.parse(MINING)).digest)
    # redis-py sends CLIENT SETINFO, and ignores its failure.
    assert {what for _, _, what in bundled.refused()} <= {"client"}


@pytest.mark.soak
@needs_tls()
@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_a_job_with_these_users_over_tls_has_the_rules_of_mine(prefix, certificates, tmp_path, columns):
    options = {"program": DEBIAN, "prefix": prefix, "own_queues": ("billing",), "certificates": certificates}
    with SecuredRedis(tmp_path, **options).running() as server:
        record = run_job(server, tmp_path, columns)

        assert (record.state, record.digest) == (JobState.DONE, mine(columns, MiningSettings.parse(MINING)).digest)
        assert server.refused() == []


@pytest.mark.soak
@needs_tls()
def test_flower_and_another_service_work_over_tls(certificates, tmp_path, columns):
    options = {"program": DEBIAN, "prefix": PREFIX, "own_queues": ("billing",), "certificates": certificates}
    with SecuredRedis(tmp_path, **options).running() as server:
        settings = cluster_settings(server.url("scheduler"), tmp_path, prefix=PREFIX, store_url="redis://")
        worker = settings.model_copy(update={"redis_url": server.url("worker")})
        flower = settings.model_copy(update={"redis_url": server.url("flower")})
        with a_scheduler(settings) as ledger, servers.worker(worker, tmp_path, "-c", "1"):
            answer = sent_by_service(server, columns)
            servers.wait_for(lambda: ledger.jobs.get(answer), what="the job")
            assert lengths_by_flower(flower) == {"maabo.evaluate": 0, "maabo.jobs": 0, "maabo.rules": 0}
            assert server.refused() == []


def sent_by_service(server, columns):
    variables = {"MAABO_REDIS": server.url("service"), "MAABO_PREFIX": server.prefix}
    order = [sys.executable, "service.py", "order-7", columns.fingerprint, "{}"]
    example = servers.ROOT / "deploy" / "examples" / "celery_service"
    done = subprocess.run(order, cwd=example, env=os.environ | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip().strip('"')


def lengths_by_flower(settings):
    port = servers.free_port()
    command = [sys.executable, "-m", "celery", "-A", "deploy.local.flower_app", "flower", f"--port={port}"]
    variables = os.environ | settings.environment() | {"FLOWER_UNAUTHENTICATED_API": "true"}
    process = subprocess.Popen([*command, "--address=127.0.0.1"], cwd=servers.ROOT, env=variables)
    try:
        return servers.wait_for(lambda: _lengths(port), what="Flower's word on the queues")
    finally:
        process.kill()
        process.wait()


def _lengths(port):
    try:
        params = {"refresh": "1"}
        if not httpx.get(f"http://127.0.0.1:{port}/api/workers", params=params, timeout=20).json():
            return None
        queues = httpx.get(f"http://127.0.0.1:{port}/api/queues/length", timeout=20).json()["active_queues"]
    except (httpx.TransportError, ValueError):
        return None
    return {queue["name"]: queue["messages"] for queue in queues}


DENIED_TO_ALL = (
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "KEYS *",
    "ACL LIST",
    "SHUTDOWN",
    "EVAL return{} 0",
    "MONITOR",
)
NOT = {
    "client": (
        "SCAN 0",
        "XADD t:maabo:results:1 * header x",
        "XREAD STREAMS t:maabo:results:1 0",
        "XADD t:maabo:events:1 * state x",
        "LPUSH t:maabo.evaluate x",
        "LRANGE t:maabo.evaluate 0 -1",
        "GET t:maabo:meters:host:1",
        "GET other:maabo:job:1",
        "GET maabo:job:1",
        "PUBLISH t:/0.celery.pidbox x",
    ),
    "worker": (
        "SCAN 0",
        "GET t:maabo:job:1",
        "GET t:maabo:document:1",
        "ZRANGE t:maabo:jobs 0 -1",
        "XREAD STREAMS t:maabo:intake 0",
        "XREAD STREAMS t:maabo:results:1 0",
        "XRANGE t:maabo:refused - +",
        "XDEL t:maabo:refused 1-1",
        "BRPOP maabo.evaluate 1",
    ),
    "service": (
        "SCAN 0",
        "XADD t:maabo:intake * header x",
        "GET t:maabo:job:1",
        "LPUSH t:maabo.evaluate x",
        "HGET t:unacked x",
        "PUBLISH t:/0.celery.pidbox x",
        "SUBSCRIBE t:/0.celeryev/worker.heartbeat",
    ),
    "api": ("LPUSH t:maabo.evaluate x", "XADD maabo:intake * header x", "BRPOP t:maabo.jobs 1"),
    "flower": (
        "SCAN 0",
        "GET t:maabo:job:1",
        "LPUSH t:maabo.evaluate x",
        "XADD t:maabo:intake * header x",
        "HGET t:unacked x",
    ),
    "scheduler": ("BRPOP t:maabo.evaluate 1", "PUBLISH t:/0.celery.pidbox x", "GET other:maabo:job:1"),
}
NOT_WITH_SELECTORS = {
    "client": (
        "SET t:maabo:job:1 x",
        "SET t:maabo:document:1 x",
        "SET t:maabo:cluster x",
        "DEL t:maabo:jobs",
        "DEL t:maabo:intake",
        "XADD t:maabo:job:1 * x x",
    ),
    "worker": ("DEL t:maabo:results:1", "GET t:maabo.evaluate", "DEL t:maabo.evaluate", "SET t:maabo:intake x"),
    "service": ("DEL t:maabo.jobs", "BRPOP t:maabo.jobs 1", "SET t:celery-task-meta-1 x"),
    "api": ("XADD t:maabo:results:1 * header x", "SET t:maabo:job:1 x", "DEL t:maabo:intake", "DEL t:maabo.evaluate"),
    "scheduler": ("DEL t:maabo.evaluate", "SET t:maabo:jobs x"),
}


def allowed(server, user, commands):
    """Return those of the commands that the user may run."""
    with server.client(user) as client:
        return [command for command in commands if not _refused(client, command)]


def _refused(client, command):
    try:
        client.execute_command(*command.split())
    except redis.exceptions.NoPermissionError:
        return True
    except redis.ResponseError:  # permitted, and wrong in another way
        return False
    return False


@pytest.mark.parametrize("user", sorted(NOT))
def test_a_user_cannot_run_commands_that_it_does_not_need(bundled, user):
    assert allowed(bundled, user, (*DENIED_TO_ALL, *NOT[user])) == []


@needs_tls()
@pytest.mark.parametrize("user", sorted(NOT))
def test_redis_7_refuses_commands_on_keys_of_others(debian, user):
    assert allowed(debian, user, (*DENIED_TO_ALL, *NOT[user], *NOT_WITH_SELECTORS.get(user, ()))) == []


def run(*command, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAABO_")} | variables
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=servers.ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


STARTED = [("maabo_dist", "jobs"), ("scheduler",), ("celery", "-A", "workers.app", "worker", "-c", "1")]


@pytest.mark.parametrize("command", [STARTED[0], *(pytest.param(each, marks=pytest.mark.soak) for each in STARTED[1:])])
def test_a_wrong_password_is_exit_code_2_and_is_not_shown(bundled, tmp_path, command):
    local = {"MAABO_LEDGER": f"sqlite:///{tmp_path}/ledger.db", "MAABO_STORE": f"file://{tmp_path}/store"}
    code, output = run(*command, MAABO_REDIS=bundled.url("client", "a-wrong-secret"), **local)

    assert (code, "rejects the password or user" in output) == (2, True), output
    assert "a-wrong-secret" not in output


@needs_tls()
@pytest.mark.parametrize("command", [STARTED[0], *(pytest.param(each, marks=pytest.mark.soak) for each in STARTED[1:])])
def test_a_server_that_cannot_be_trusted_is_exit_code_2(debian, tmp_path, command):
    local = {"MAABO_LEDGER": f"sqlite:///{tmp_path}/ledger.db", "MAABO_STORE": f"file://{tmp_path}/store"}
    code, output = run(*command, MAABO_REDIS=debian.url("client", ssl_ca_certs="other.crt"), **local)

    assert (code, "ssl_ca_certs" in output) == (2, True), output
    assert debian.passwords["client"] not in output


@needs_tls()
def test_a_certificate_that_the_server_does_not_know_is_refused(debian, certificates):
    url = debian.url("client", ssl_certfile="other.crt", ssl_keyfile="other.key")

    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url) as client:
        client.ping()


def test_the_example_equals_the_output_of_the_command():
    assert EXAMPLE.read_text() == "".join(f"{line}\n" for line in lines())


def test_every_key_and_channel_has_the_prefix():
    rules = [word.strip("()") for line in lines("p:") for word in line.split()]

    named = [rule for rule in rules if rule[0] in "~&"]
    assert named
    assert [rule for rule in named if not rule[1:].startswith("p:")] == []


def test_passwords_are_generated_once_stored_privately_and_written_as_hashes(tmp_path):
    first = read_passwords(tmp_path / "passwords", ["client", "worker"])
    second = read_passwords(tmp_path / "passwords", ["client", "worker", "api"])

    assert {name: second[name] for name in first} == first
    assert stat.S_IMODE((tmp_path / "passwords").stat().st_mode) == 0o600
    acl = "\n".join(lines(passwords=dict.fromkeys(("scheduler", "service", "flower"), "x") | second))
    assert not any(password in acl for password in second.values())


@pytest.mark.parametrize("options", ["a*", "bil ling", "~x", "", "?"])
def test_names_that_are_patterns_are_refused(options):
    with pytest.raises(SettingsError, match="is not valid"):
        check_names([options])


def test_the_command_writes_users_for_the_selected_version_of_redis(tmp_path):
    given = ("--prefix", PREFIX, "--queue", "billing", "--redis", "6.2", "--passwords", str(tmp_path / "passwords"))
    code, output = run("deploy.redis_acl", *given)

    passwords = read_passwords(tmp_path / "passwords", [])
    expected = lines(PREFIX, own_queues=("billing",), selectors=False, passwords=passwords)
    assert (code, output.splitlines()) == (0, expected)
