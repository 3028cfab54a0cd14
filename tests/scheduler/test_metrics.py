"""What schedulers count, and how it is shown to Prometheus."""

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
    """Every sample by its name and labels, read by Prometheus's own parser."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@given(st.dictionaries(st.sampled_from(["a:1", "b:2", "c:3"]), st.lists(seconds), min_size=1))
@settings(max_examples=25)
def test_the_histograms_of_all_schedulers_add_up_to_what_was_observed(observed):
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


def test_meters_that_do_not_read_are_refused_with_a_reason():
    crooked = {"amounts": {}, "timings": {"job_wait_seconds": {"": {"bounds": [1, 2], "counts": [1], "sum": 1}}}}

    with pytest.raises(FormatError, match="1 counts do not fit 2 rising bounds"):
        MetricsSnapshot.read(json.dumps(crooked))


@pytest.fixture
def client():
    """Enough of a Redis to be scraped."""
    return fakeredis.FakeRedis()


@pytest.fixture
def ledger(tmp_path):
    with opened(f"sqlite:///{tmp_path}/ledger.db") as found:
        yield found


def queued(ledger, now):
    spec = JobSpec.parse({"id": uuid4().hex, "dataset": {"fingerprint": "a" * 64}})
    ledger.jobs.add([spec], now)
    return spec.id


SETTINGS = ClusterSettings(prefix="t:", lease_seconds=15)


def test_the_text_says_what_ledger_and_redis_hold(ledger, client):
    queued(ledger, 100.0)
    ledger.leases.acquire("a:1", 160.0, 15.0, limit=1)
    queued(ledger, 150.0)
    for stream in (names.INTAKE_STREAM, f"{names.RESULTS_STREAM}:1", f"{names.RESULTS_STREAM}:2"):
        client.xadd(f"t:{stream}", {"header": "x"})
    client.lpush(f"t:{names.EVALUATE_QUEUE}", "one", "two")
    client.lpush(f"t:{names.JOBS_QUEUE}", "a document")
    client.hset("t:unacked", "tag", "x")

    found = samples(scrape(ledger, client, SETTINGS, 170.0))

    assert found["maabo_jobs", "queued"] == 2
    assert found["maabo_oldest_queued_job_age_seconds",] == 70
    assert found["maabo_oldest_lease_age_seconds",] == 10
    assert [found["maabo_stream_entries", stream] for stream in ("intake", "refused", "results")] == [1, 0, 2]
    assert [found["maabo_queue_messages", queue] for queue in ("maabo.evaluate", "maabo.rules")] == [2, 0]
    assert found["maabo_queue_unacked_messages",] == 1
    assert found["maabo_tenant_jobs", "default", "queued"] == 2
    assert (found["maabo_job_leases_most",], found["maabo_tasks_wanted",]) == (1, 1)
    assert (found["maabo_up", "ledger"], found["maabo_up", "redis"], found["maabo_schedulers",]) == (1, 1, 0)


def test_every_scheduler_is_shown_by_its_name_and_one_that_does_not_read_is_left_out(ledger, client):
    for scheduler, trees in (("a:1", 3), ("b:2", 4)):
        own = Metrics()
        own.count(metrics.TREES, number=trees)
        client.set(f"t:{names.METERS}:{scheduler}", own.snapshot().model_dump_json())
    client.set(f"t:{names.METERS}:c:3", "nonsense")

    found = samples(scrape(ledger, client, SETTINGS, 0.0))

    shown = {labels[0]: value for (name, *labels), value in found.items() if name == "maabo_trees_observed_total"}
    assert shown == {"a:1": 3, "b:2": 4}
    assert found["maabo_schedulers",] == 2


def test_workers_are_counted_and_what_does_not_read_is_not_one(ledger, client):
    for node, processes, busy in (("one", 4, 3), ("two", 2, 0)):
        heartbeat = Heartbeat(SETTINGS, client)
        heartbeat.begin(node, processes)
        heartbeat.beat(busy)
    client.set(f"t:{names.WORKERS}:three", "nonsense")

    found = samples(scrape(ledger, client, SETTINGS, 0.0))

    shown = [found[f"maabo_{name}",] for name in ("workers", "worker_processes", "worker_processes_busy")]
    assert shown == [2, 6, 3]


def test_a_worker_that_falls_silent_or_stops_is_not_counted_any_more(ledger, client):
    silent, stopped = Heartbeat(SETTINGS, client), Heartbeat(SETTINGS, client)
    silent.begin("silent", 1)
    stopped.begin("stopped", 1)
    stopped.end()
    stopped.beat(1)  # Celery's heart beats once more

    assert samples(scrape(ledger, client, SETTINGS, 0.0))["maabo_workers",] == 1
    assert 0 < client.ttl(f"t:{names.WORKERS}:silent") <= EXPIRE_SECONDS


def test_a_heartbeat_survives_a_redis_that_is_gone(monkeypatch):
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


def test_what_is_wanted_of_workers_is_what_was_sent_and_what_is_held_back(ledger, client):
    for scheduler in ("a:1", "b:2"):
        own = Metrics()
        own.set(metrics.TASKS_IN_FLIGHT, 3, "evaluate")
        own.set(metrics.TASKS_IN_FLIGHT, 1, "rules")
        own.set(metrics.TASKS_UNSENT, 10, "screen")
        client.set(f"t:{names.METERS}:{scheduler}", own.snapshot().model_dump_json())

    assert samples(scrape(ledger, client, SETTINGS, 0.0))["maabo_tasks_wanted",] == 28


def test_the_largest_tenants_are_shown_by_name(ledger, client, monkeypatch):
    monkeypatch.setattr(api_metrics, "MAX_TENANTS", 2)
    for tenant in ("small", *("large",) * 3, *("middle",) * 2):
        document = {"id": uuid4().hex, "tenant": tenant, "dataset": {"fingerprint": "a" * 64}}
        ledger.jobs.add([JobSpec.parse(document)], 1.0)

    found = samples(scrape(ledger, client, SETTINGS, 0.0))

    shown = {labels[0]: value for (name, *labels), value in found.items() if name == "maabo_tenant_jobs"}
    assert shown == {"large": 3, "middle": 2}


def test_a_redis_that_cannot_be_reached_shows_as_down_and_the_rest_is_shown(ledger):
    nowhere = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))

    found = samples(scrape(ledger, nowhere, SETTINGS, 0.0))

    assert (found["maabo_up", "redis"], found["maabo_up", "ledger"], found["maabo_jobs", "done"]) == (0, 1, 0)


def test_a_ledger_that_cannot_be_read_shows_as_down_and_the_rest_is_shown(ledger, client, tmp_path):
    ledger.close()
    for file in tmp_path.glob("ledger.db*"):
        file.write_bytes(b"no database")

    found = samples(scrape(ledger, client, SETTINGS, 0.0))

    assert (found["maabo_up", "redis"], found["maabo_up", "ledger"]) == (1, 0)


# What a scheduler counts of answers.


@pytest.fixture(scope="module")
def no_workers(tmp_path_factory):
    """A cluster without workers."""
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        yield cluster_settings(url, directory, prefix="t:")


def amount(resources, metric, value=""):
    return resources.metrics.snapshot().amounts[metric.name][value]


class OneTask:
    """A scheduler with a job of which one task of one subset is under way, and what workers might answer to it."""

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
            if found := condition():
                return found
            self._resources.redis.delete(
                self._resources.settings.key(names.EVALUATE_QUEUE)
            )  # as if workers had taken them
            self.scheduler.turn()
        raise AssertionError("it did not come to that")

    def answer(self, kind):
        ((key, sent),) = self.sent.items()
        where = {"job": self.job, "batch": key.batch, "start": key.start, "stop": key.stop, "attempt": sent.attempt}
        answer = EvaluationAnswer.read(where | {"kind": kind, "worker": "w", "reason": "a reason"})
        send_answer(self._resources.redis, self._resources.settings, answer)
        self.scheduler.turn()
        return answer


@pytest.fixture
def one_task(no_workers, tmp_path):
    columns = prepare(*load_bundled("wine")).columns
    with closing(Resources.connect(no_workers)) as resources:
        mining = {"preset": "paper", "trees": 4, "batch": 1, "subset_size": 2}
        yield OneTask(resources, submit(no_workers, tmp_path, columns, **mining)), resources
        resources.redis.flushall()


def test_tasks_that_are_lost_are_counted_and_counted_as_sent_again_until_they_are_given_up(one_task):
    world, resources = one_task
    for _ in range(MAX_SUBSET_FAILURES):
        world.turn_until(lambda: world.sent)
        last = world.answer("lost")
    send_answer(resources.redis, resources.settings, last)  # once more, and too late
    world.turn_until(lambda: amount(resources, metrics.LOST, "evaluate") == MAX_SUBSET_FAILURES + 1)

    assert amount(resources, metrics.RESENT, "lost") == MAX_SUBSET_FAILURES - 1
    assert amount(resources, metrics.FAILED_SUBSETS) == 1


def test_what_is_not_sent_because_nobody_takes_it_is_shown_as_wanted(one_task):
    world, resources = one_task
    held = world.scheduler.jobs.by_id[world.job]
    for _ in range(3):
        world.scheduler.turn()
    in_flight, unsent = len(held.outbox.sent), held.outbox.count_unsent(held.speed.task_size(1.0))
    world.scheduler.jobs.measure(1.0)
    MetricsPublisher(resources, "here:1").publish(0.0)

    found = samples(scrape(resources.ledger, resources.redis, resources.settings, 0.0))
    assert found["maabo_tasks_wanted",] == in_flight + unsent > 0
    assert found["maabo_tasks_unsent", "evaluate", "here:1"] == unsent


def test_an_outage_is_counted_with_the_part_that_is_missing_and_shown_while_it_lasts(one_task, monkeypatch):
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

    shown = samples(scrape(resources.ledger, resources.redis, resources.settings, 0.0))
    missing = ("broker", "ledger", "other", "redis", "store")
    assert [shown["maabo_outages_total", *sorted(("here:1", part))] for part in missing] == [1] * 5


def raising(error, stop):
    def turn():
        stop.set()
        raise error

    return turn


def test_a_worker_that_cannot_begin_and_an_answer_that_does_not_read_are_counted(one_task):
    world, resources = one_task
    stream = results_stream(resources.settings, world.answer("unavailable").job)
    resources.redis.xadd(stream, {HEADER: b"nonsense"})
    world.turn_until(lambda: amount(resources, metrics.REFUSED))

    assert amount(resources, metrics.REFUSED) == 1
    assert amount(resources, metrics.RESENT, "unavailable") == 1
    assert amount(resources, metrics.LOST, "evaluate") == 0
