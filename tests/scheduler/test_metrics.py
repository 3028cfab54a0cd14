"""The metrics of schedulers, and their presentation to Prometheus."""

import json
from contextlib import closing
from threading import Event
from uuid import uuid4

import fakeredis
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from redis.backoff import NoBackoff
from redis.retry import Retry

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import HEADER, open_redis, results_stream, send_answer
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import EvaluationAnswer
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.api import monitoring as api_metrics
from scheduler.api.monitoring import scheduler_metrics
from scheduler.core import loop
from scheduler.core.loop import Scheduler
from scheduler.core.machines import MAX_SUBSET_FAILURES
from scheduler.ledger.database import LedgerError
from scheduler.messaging.publishers import MetricsPublisher
from scheduler.metrics import Metrics, MetricsSnapshot
from scheduler.resources import BrokerError, Resources
from tests import servers
from tests.api_data import scrape
from tests.cluster import cluster_settings, submit
from tests.ledgers import opened
from workers.celery_hooks import EXPIRE_SECONDS, Heartbeat

seconds = st.floats(0, 1e5, allow_nan=False)


def samples(text):
    """Return every sample by its name and labels, read by Prometheus's own parser."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@given(st.dictionaries(st.sampled_from(["a:1", "b:2", "c:3"]), st.lists(seconds), min_size=1))
@settings(max_examples=25)
def test_the_histograms_of_all_schedulers_add_up_to_the_observations(observed):
    readings = {}
    for scheduler, times in observed.items():
        own = Metrics()
        for time in times:
            own.observe(metrics.JOB_WAIT, time)
        readings[scheduler] = MetricsSnapshot.read(own.snapshot().model_dump_json())

    (family,) = [metric for metric in scheduler_metrics(readings) if metric.name == "maabo_job_wait_seconds"]

    everything = [time for times in observed.values() for time in times]
    for bound in [*metrics.JOB_WAIT.bounds, float("inf")]:
        buckets = [s for s in family.samples if s.name.endswith("_bucket") and float(s.labels["le"]) == bound]
        assert sum(sample.value for sample in buckets) == sum(time <= bound for time in everything)
    total = sum(sample.value for sample in family.samples if sample.name.endswith("_sum"))
    assert total == pytest.approx(sum(everything))


def test_invalid_metrics_are_refused_with_a_reason():
    invalid = {"amounts": {}, "timings": {"job_wait_seconds": {"": {"bounds": [1, 2], "counts": [1], "sum": 1}}}}

    with pytest.raises(FormatError, match="1 counts do not fit 2 rising bounds"):
        MetricsSnapshot.read(json.dumps(invalid))


@pytest.fixture
def client():
    """A fake Redis that can be scraped."""
    return fakeredis.FakeRedis()


@pytest.fixture
def ledger(tmp_path):
    with opened(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        yield ledger


def queued(ledger, now):
    spec = JobSpec.parse({"id": uuid4().hex, "dataset": {"fingerprint": "a" * 64}})
    ledger.jobs.add([spec], now)
    return spec.id


SETTINGS = ClusterSettings(prefix="t:", lease_seconds=15)


def test_metrics_describe_the_content_of_ledger_and_redis(ledger, client):
    queued(ledger, 100.0)
    ledger.leases.acquire("a:1", ledger.now - 10, 15.0, limit=1)
    queued(ledger, 150.0)
    for stream in (names.INTAKE_STREAM, f"{names.RESULTS_STREAM}:1", f"{names.RESULTS_STREAM}:2"):
        client.xadd(f"t:{stream}", {"header": "x"})
    client.lpush(f"t:{names.EVALUATE_QUEUE}", "one", "two")
    client.lpush(f"t:{names.JOBS_QUEUE}", "a document")
    client.hset("t:unacked", "tag", "x")

    scraped = samples(scrape(ledger, client, SETTINGS, 170.0))

    assert scraped["maabo_jobs", "queued"] == 2
    assert scraped["maabo_oldest_queued_job_age_seconds",] == 70
    assert scraped["maabo_oldest_lease_age_seconds",] == pytest.approx(10, abs=4)
    assert [scraped["maabo_stream_entries", stream] for stream in ("intake", "refused", "results")] == [1, 0, 2]
    assert [scraped["maabo_queue_messages", queue] for queue in ("maabo.evaluate", "maabo.rules")] == [2, 0]
    assert scraped["maabo_queue_unacked_messages",] == 1
    assert scraped["maabo_tenant_jobs", "default", "queued"] == 2
    assert (scraped["maabo_job_leases_most",], scraped["maabo_tasks_wanted",]) == (1, 1)
    assert (scraped["maabo_up", "ledger"], scraped["maabo_up", "redis"], scraped["maabo_schedulers",]) == (1, 1, 0)


def test_metrics_name_every_scheduler_and_omit_invalid_snapshots(ledger, client):
    for scheduler, trees in (("a:1", 3), ("b:2", 4)):
        own = Metrics()
        own.count(metrics.TREES, number=trees)
        client.set(f"t:{names.METERS}:{scheduler}", own.snapshot().model_dump_json())
    client.set(f"t:{names.METERS}:c:3", "nonsense")

    scraped = samples(scrape(ledger, client, SETTINGS, 0.0))

    by_label = {labels[0]: value for (name, *labels), value in scraped.items() if name == "maabo_trees_observed_total"}
    assert by_label == {"a:1": 3, "b:2": 4}
    assert scraped["maabo_schedulers",] == 2


def test_workers_with_a_valid_heartbeat_are_counted(ledger, client):
    for node, processes, busy in (("one", 4, 3), ("two", 2, 0)):
        heartbeat = Heartbeat(SETTINGS, client)
        heartbeat.begin(node, processes)
        heartbeat.beat(busy)
    client.set(f"t:{names.WORKERS}:three", "nonsense")

    scraped = samples(scrape(ledger, client, SETTINGS, 0.0))

    values = [scraped[f"maabo_{name}",] for name in ("workers", "worker_processes", "worker_processes_busy")]
    assert values == [2, 6, 3]


def test_a_worker_that_is_silent_or_stopped_is_not_counted(ledger, client):
    silent, stopped = Heartbeat(SETTINGS, client), Heartbeat(SETTINGS, client)
    silent.begin("silent", 1)
    stopped.begin("stopped", 1)
    stopped.end()
    stopped.beat(1)  # Celery sends another heartbeat

    assert samples(scrape(ledger, client, SETTINGS, 0.0))["maabo_workers",] == 1
    assert 0 < client.ttl(f"t:{names.WORKERS}:silent") <= EXPIRE_SECONDS


def test_a_heartbeat_survives_an_unreachable_redis(monkeypatch):
    settings = ClusterSettings(redis_url="redis://127.0.0.1:1/0")
    client = open_redis(settings, timeout=2.0, retries=0)
    execute, commands = client.execute_command, []

    def record(*arguments, **options):
        commands.append(arguments[0])
        return execute(*arguments, **options)

    monkeypatch.setattr(client, "execute_command", record)
    heartbeat = Heartbeat(settings, client)

    heartbeat.begin("one", 1)
    heartbeat.beat(1)
    heartbeat.end()

    assert commands == ["SET", "SET", "DEL"]


def test_wanted_tasks_are_those_in_flight_and_those_not_yet_sent(ledger, client):
    for scheduler in ("a:1", "b:2"):
        own = Metrics()
        own.set(metrics.TASKS_IN_FLIGHT, 3, "evaluate")
        own.set(metrics.TASKS_IN_FLIGHT, 1, "rules")
        own.set(metrics.TASKS_UNSENT, 10, "screen")
        client.set(f"t:{names.METERS}:{scheduler}", own.snapshot().model_dump_json())

    assert samples(scrape(ledger, client, SETTINGS, 0.0))["maabo_tasks_wanted",] == 28


def test_the_largest_tenants_are_listed_by_name(ledger, client, monkeypatch):
    monkeypatch.setattr(api_metrics, "MAX_TENANTS", 2)
    for tenant in ("small", *("large",) * 3, *("middle",) * 2):
        document = {"id": uuid4().hex, "tenant": tenant, "dataset": {"fingerprint": "a" * 64}}
        ledger.jobs.add([JobSpec.parse(document)], 1.0)

    scraped = samples(scrape(ledger, client, SETTINGS, 0.0))

    by_label = {labels[0]: value for (name, *labels), value in scraped.items() if name == "maabo_tenant_jobs"}
    assert by_label == {"large": 3, "middle": 2}


def test_an_unreachable_redis_is_down_and_other_metrics_are_exposed(ledger):
    nowhere = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))

    scraped = samples(scrape(ledger, nowhere, SETTINGS, 0.0))

    assert (scraped["maabo_up", "redis"], scraped["maabo_up", "ledger"], scraped["maabo_jobs", "done"]) == (0, 1, 0)


def test_an_unreadable_ledger_is_down_and_other_metrics_are_exposed(ledger, client, tmp_path):
    ledger.close()
    for file in tmp_path.glob("ledger.db*"):
        file.write_bytes(b"no database")

    scraped = samples(scrape(ledger, client, SETTINGS, 0.0))

    assert (scraped["maabo_up", "redis"], scraped["maabo_up", "ledger"]) == (1, 0)


# Metrics of answers.


@pytest.fixture(scope="module")
def no_workers(tmp_path_factory):
    """A cluster without workers."""
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        yield cluster_settings(url, directory, prefix="t:")


def amount(resources, metric, value=""):
    return resources.metrics.snapshot().amounts[metric.name][value]


class OneTask:
    """A scheduler with a job that has one task of one subset in flight, and answers to it."""

    def __init__(self, resources, job):
        self._resources, self.job = resources, job
        self.scheduler = Scheduler(resources, "here:1")
        self.turn_until(lambda: self.sent)

    @property
    def sent(self):
        held = self.scheduler.jobs.by_id.get(self.job)
        return dict(held.outbox.sent) if held else {}

    def turn_until(self, condition):
        for _ in range(100):
            if result := condition():
                return result
            self._resources.redis.delete(
                self._resources.settings.key(names.EVALUATE_QUEUE)
            )  # as if workers had taken them
            self.scheduler.turn()
        raise AssertionError("the condition never held")

    def answer(self, kind):
        ((key, sent),) = self.sent.items()
        key_fields = {
            "job": self.job,
            "batch": key.batch,
            "start": key.start,
            "stop": key.stop,
            "attempt": sent.attempt,
        }
        answer = EvaluationAnswer.read(key_fields | {"kind": kind, "worker": "w", "reason": "a reason"})
        send_answer(self._resources.redis, self._resources.settings, answer)
        self.scheduler.turn()
        return answer


@pytest.fixture
def one_task(no_workers, tmp_path):
    columns = prepare(*load_bundled("wine")).columns
    with closing(Resources.connect(no_workers)) as resources:
        mining = {"preset": "paper", "trees": 4, "initial": 1, "batch": 1, "subset_size": 2}
        yield OneTask(resources, submit(no_workers, tmp_path, columns, **mining)), resources
        resources.redis.flushall()


def test_lost_tasks_are_counted_and_counted_as_resent_until_they_are_given_up(one_task):
    world, resources = one_task
    for _ in range(MAX_SUBSET_FAILURES):
        world.turn_until(lambda: world.sent)
        last = world.answer("lost")
    send_answer(resources.redis, resources.settings, last)  # a duplicate that arrives too late
    world.turn_until(lambda: amount(resources, metrics.LOST, "evaluate") == MAX_SUBSET_FAILURES + 1)

    assert amount(resources, metrics.RESENT, "lost") == MAX_SUBSET_FAILURES - 1
    assert amount(resources, metrics.FAILED_SUBSETS) == 1


def test_unsent_tasks_count_as_wanted(one_task):
    world, resources = one_task
    held = world.scheduler.jobs.by_id[world.job]
    for _ in range(3):
        world.scheduler.turn()
    in_flight, unsent = held.outbox.messages, held.outbox.count_unsent(held.speed.task_size(1.0))
    world.scheduler.jobs.measure(1.0)
    MetricsPublisher(resources, "here:1").publish(0.0)

    scraped = samples(scrape(resources.ledger, resources.redis, resources.settings, 0.0))
    assert scraped["maabo_tasks_wanted",] == in_flight + unsent > 0
    assert scraped["maabo_tasks_unsent", "evaluate", "here:1"] == unsent


def test_an_outage_is_counted_by_the_component_that_failed(one_task, monkeypatch):
    world, resources = one_task
    stop = Event()
    monkeypatch.setattr(loop, "OUTAGE_SECONDS", 0.0)
    for error in (
        LedgerError("full"),
        BrokerError("gone"),
        StoreError("gone"),
        redis.RedisError("gone"),
        OSError("?"),
    ):
        monkeypatch.setattr(world.scheduler, "turn", raising(error, stop))
        stop.clear()
        world.scheduler.run(stop)

    scraped = samples(scrape(resources.ledger, resources.redis, resources.settings, 0.0))
    missing = ("broker", "ledger", "other", "redis", "store")
    assert [scraped["maabo_outages_total", *sorted(("here:1", part))] for part in missing] == [1] * 5


def raising(error, stop):
    def turn():
        stop.set()
        raise error

    return turn


def test_unavailable_workers_and_invalid_answers_are_counted(one_task):
    world, resources = one_task
    stream = results_stream(resources.settings, world.answer("unavailable").job)
    resources.redis.xadd(stream, {HEADER: b"nonsense"})
    world.turn_until(lambda: amount(resources, metrics.REFUSED))

    assert amount(resources, metrics.REFUSED) == 1
    assert amount(resources, metrics.RESENT, "unavailable") == 1
    assert amount(resources, metrics.LOST, "evaluate") == 0
