"""RabbitMQ as the broker: the same rules after every fault, and invalid messages are rejected as over Redis."""

import json
import os
import pickle
import signal
import subprocess
import sys
from urllib.parse import urlencode

import psutil
import pytest

from maabo_dist.cluster.broker import check_broker, make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.errors import SettingsError
from scheduler.resources import AmqpBroker
from tests import servers
from tests.api_data import scrape
from tests.faults.test_bad_messages import Trap, evaluate, wait_for_log
from tests.faults.world import MINING, World, table
from tests.rabbitmq import PASSWORD, RabbitServer, needs_rabbitmq
from tests.secured_redis import Certificates, needs_tls

pytestmark = [pytest.mark.xdist_group("rabbitmq"), needs_rabbitmq()]

EXAMPLE = servers.ROOT / "deploy" / "examples" / "celery_service"
SHORT = MINING | {"trees": 200}


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory):
    """All processes start at the same time; those that are ready before the broker wait for it."""
    rabbit = RabbitServer(tmp_path_factory.mktemp("rabbit")).start(wait=False)
    world = World(tmp_path_factory.mktemp("over-rabbit"), broker_url=rabbit.url)
    world.rabbit = rabbit
    try:
        world.revive()
        rabbit.ready()
        yield world
    finally:
        world.close()
        rabbit.close()


@pytest.fixture
def world(shared_world):
    shared_world.revive()
    return shared_world


@pytest.fixture
def celery(world):
    app = make_celery(world.settings)
    yield app
    app.close()


@pytest.mark.slow
def test_a_job_over_rabbitmq_has_the_rules_of_mine_and_no_password_is_exposed(world):
    job = world.submit(SHORT)

    world.check_done(job, SHORT, seconds=60)
    assert not world.client.exists(world.settings.key(names.EVALUATE_QUEUE))
    metrics = scrape(world.ledger, world.client, world.settings, 0.0).decode()
    assert 'maabo_up{part="broker"} 1.0' in metrics
    assert 'maabo_queue_messages{queue="maabo.evaluate"} 0.0' in metrics
    refused = world.settings.model_copy(update={"broker_url": world.rabbit.url.replace(PASSWORD, "no-such-secret")})
    with pytest.raises(SettingsError, match="user, the password and the virtual host in MAABO_BROKER") as error:
        check_broker(refused, make_celery(refused))
    commands = [word for process in world.processes for word in psutil.Process(process.pid).cmdline()]
    output = "".join([*(process.log for process in world.processes), *commands, str(error.value)])
    assert [word for word in (PASSWORD, "no-such-secret") if word in output] == []


@pytest.mark.soak
def test_a_worker_main_that_is_killed_over_rabbitmq_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.signal(signal.SIGKILL)
    world.worker()

    world.check_done(job, seconds=60)


@pytest.mark.slow
def test_killing_and_restarting_rabbitmq_changes_no_rule(world):
    mining = MINING | {"trees": 8 * MINING["trees"]}
    job = world.submit(mining)
    world.under_way(job)
    world.rabbit.kill()
    world.rabbit.start()

    world.check_done(job, mining, seconds=90)
    assert world.first_worker.alive
    assert world.first_scheduler.alive


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_without_rabbitmq_a_scheduler_still_executes_commands(world, fault):
    job, other = world.submit(), world.submit(SHORT | {"seed": 9})
    world.under_way(job)
    if fault == "killed":
        world.rabbit.kill()
    else:
        world.rabbit.signal(signal.SIGSTOP)
    try:
        world.ask("cancel", job)
        row = world.ended(job)
    finally:
        world.rabbit.signal(signal.SIGCONT) if fault == "frozen" else world.rabbit.start()

    assert row.state is JobState.CANCELLED
    world.check_done(other, SHORT | {"seed": 9}, seconds=90)


@pytest.mark.soak
def test_invalid_messages_in_a_queue_are_refused_and_the_job_continues(world, celery, tmp_path):
    before, path = len(world.first_worker.log), tmp_path / "unpickled"
    job = world.submit()
    world.under_way(job)
    scheduler_before = len(world.first_scheduler.log)
    with celery.producer_pool.acquire() as producer:
        task_message = celery.amqp.create_task_message("1", names.EVALUATE, (), {})
        route = {"exchange": "", "routing_key": names.EVALUATE_QUEUE}
        pickled = {"content_type": "application/x-python-serialize", "content_encoding": "binary"}
        producer.publish(pickle.dumps(([Trap(path)], {}, {})), headers=task_message.headers, **pickled, **route)
        producer.publish(b"not JSON", content_type="application/json", content_encoding="utf-8", **route)
        producer.publish({"no": "task"}, **route)
    celery.send_task("os.system", args=["true"], queue=names.EVALUATE_QUEUE)
    for _ in range(2):
        celery.send_task(names.EVALUATE, kwargs=evaluate(job, version=1), queue=names.EVALUATE_QUEUE)

    wait_for_log(world.first_worker, "is not accepted; use application/json", before)
    wait_for_log(world.first_worker, "There is no task 'os.system'", before)
    wait_for_log(world.first_worker, "The message has no headers of a task", before)
    refused = [fields for _, fields in world.client.xrange(world.settings.key(names.REFUSED_STREAM))]
    assert [fields[b"request"] for fields in refused if b"no headers" in fields[b"reason"]][:1] == [b"not JSON"]
    wait_for_log(world.first_scheduler, "contract version 1", scheduler_before)
    world.check_done(job)
    assert (path.exists(), world.first_worker.alive) == (False, True)


@pytest.mark.soak
def test_tasks_that_are_delivered_twice_change_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.signal(signal.SIGSTOP)
    servers.wait_for(lambda: world.rabbit.length(names.EVALUATE_QUEUE) >= 2, what="tasks that wait")
    with world.rabbit.connection() as connection:
        channel = connection.channel()
        messages = [channel.basic_get(names.EVALUATE_QUEUE) for _ in range(2)]
        for message in messages:
            for _ in range(2):
                channel.basic_publish(message, routing_key=names.EVALUATE_QUEUE)
            channel.basic_ack(message.delivery_tag)
    world.first_worker.signal(signal.SIGCONT)

    world.check_done(job, seconds=60)


@pytest.mark.soak
def test_a_virtual_host_of_quorum_queues_gives_the_same_rules(world, new_world):
    world.rabbit.control("add_vhost", "replicated", "--default-queue-type", "quorum")
    world.rabbit.control("set_permissions", "-p", "replicated", "maabo", ".*", ".*", ".*")
    other = new_world(broker_url=world.rabbit.url.removesuffix("/") + "replicated")
    other.revive()
    job = other.submit()

    other.check_done(job, seconds=90)
    assert "quorum" in world.rabbit.control("list_queues", "-p", "replicated", "name", "type")


@pytest.mark.soak
def test_a_service_queues_a_job_and_is_called_back_by_rabbitmq(world, tmp_path):
    variables = {
        "MAABO_REDIS": world.redis.url,
        "MAABO_BROKER": world.rabbit.url,
        "MAABO_PREFIX": world.settings.prefix,
    }
    start = {"cwd": EXAMPLE, "env": os.environ | variables}
    job = world.submit(SHORT)  # which stores the table
    log = (tmp_path / "service.log").open("w+b")
    worker_command = [sys.executable, "-m", "celery", "-A", "service", "worker", "-Q", "billing", "--pool", "solo"]
    service = subprocess.Popen(worker_command, stdout=log, stderr=log, **start)
    try:
        order = [sys.executable, "service.py", "order-7", table().fingerprint, json.dumps(SHORT)]
        jobs = [json.loads(subprocess.run(order, capture_output=True, check=True, **start).stdout) for _ in range(2)]
        world.check_done(job, SHORT)
        row = world.check_done(jobs[0], SHORT)
        output = (tmp_path / "service.log").read_text
        servers.wait_for(lambda: "called back: " in output(), 30, what="a callback")
    finally:
        service.kill()
        service.wait()
        log.close()

    assert jobs[0] == jobs[1]
    assert f'"state": "done", "digest": "{row.digest}"' in output()


@pytest.mark.soak
def test_the_health_of_a_worker_is_checked_over_rabbitmq(world):
    environment = os.environ | world.settings.environment()
    node = next(word for word in world.first_worker.log.split() if word.endswith("@here"))
    command = [sys.executable, "-m", "workers.health", node]
    run = subprocess.run(command, cwd=servers.ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (run.returncode, "is healthy" in run.stderr) == (0, True)


@pytest.mark.soak
@needs_tls()
def test_rabbitmq_is_used_with_tls_only_if_its_certificate_is_trusted(tmp_path):
    certificates = Certificates(tmp_path)
    rabbit = RabbitServer(tmp_path / "rabbit", certificates).start()
    files = {"ssl_certfile": certificates.path("client.crt"), "ssl_keyfile": certificates.path("client.key")}
    known, other = (
        ClusterSettings(
            broker_url=f"amqps://maabo:{PASSWORD}@127.0.0.1:{rabbit.tls_port}//?"
            + urlencode(files | {"ssl_ca_certs": certificates.path(authority)})
        )
        for authority in ("ca.crt", "other.crt")
    )
    try:
        broker = AmqpBroker(known, make_celery(known))
        assert (check_broker(known, make_celery(known)), broker.waiting(["no-such-queue"])) == (None, [0])
        broker.close()
        with pytest.raises(SettingsError, match="ssl_ca_certs") as error:
            check_broker(other, make_celery(other))
    finally:
        rabbit.close()

    assert PASSWORD not in str(error.value)
