"""Values that are remembered are at most as old as documented, and never older than the last write."""

import asyncio
import os
import time
from functools import partial
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from uuid import uuid4

import httpx
import pytest

from maabo_dist.contract.job import JobSpec
from scheduler.api.lookups import MAX_VALUES, RecentValues, SharedCalls
from scheduler.messaging.publishers import StatusPublisher
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table, token_for
from tests.api_events import a_server, following
from tests.cluster import cluster_settings

KEEP = 60.0


class Counter:
    """Returns the number of its calls for each even key, and an error for 0. It waits for `go`."""

    def __init__(self):
        self.go, self.calls, self.lock = Event(), [], Lock()
        self.go.set()

    def __call__(self, keys):
        with self.lock:
            self.calls.append(sorted(keys))
            number = len(self.calls)
        assert self.go.wait(60)
        return {key: number if key else ValueError("zero") for key in keys if key % 2 == 0}


def get_all(shared, *keys):
    return asyncio.gather(*map(shared.get, keys), return_exceptions=True)


def advance(seconds):
    """Set the clock of the event loop forward."""
    loop = asyncio.get_running_loop()
    loop.time = partial(lambda time: time() + seconds, loop.time)


def test_a_value_is_found_until_it_is_too_old():
    recent = RecentValues(5.0)
    recent.replace(["a"], {"a": 1}, 100.0)

    assert [known and known.value for known in (recent.find("a", now) for now in (100.0, 104.9, 105.0))] == [1, 1, None]
    assert recent.find("b", 100.0) is None


def test_errors_and_absence_are_not_remembered_and_replace_values():
    recent = RecentValues(5.0)
    recent.replace("abc", {"a": 1, "b": 2, "c": 3}, 100.0)
    recent.replace("ab", {"a": OSError("away")}, 101.0)

    assert [recent.find(key, 101.0) is not None for key in "abc"] == [False, False, True]


def test_the_number_of_values_is_limited():
    recent = RecentValues(5.0)
    for start in range(0, 3 * MAX_VALUES, MAX_VALUES // 2):
        keys = range(start, start + MAX_VALUES // 2)
        recent.replace(keys, dict.fromkeys(keys, 1), 100.0)

    found = [key for key in range(3 * MAX_VALUES) if recent.find(key, 100.0)]
    assert found == list(range(2 * MAX_VALUES, 3 * MAX_VALUES))


def test_a_slow_call_does_not_replace_what_was_loaded_later():
    recent = RecentValues(5.0)
    recent.replace("a", {"a": "new"}, 101.0)
    recent.replace("ab", {"a": "old", "b": "old"}, 100.0)

    assert recent.find("a", 102.0).value == "new"
    assert recent.find("b", 102.0) is None


def test_values_that_are_wanted_again_age_after_half_of_the_time():
    recent = RecentValues(5.0)
    recent.replace("ab", {"a": 1, "b": 2}, 100.0)
    recent.find("a", 101.0)

    assert [recent.find_aging(now) for now in (102.4, 102.5)] == [[], ["a"]]


def test_values_that_several_requests_want_are_remembered_for_a_while():
    load = Counter()

    async def run():
        shared = SharedCalls(load, keep=KEEP)
        values = [*await get_all(shared, 2, 4), await shared.get(2)]
        advance(KEEP)
        return [*values, await shared.get(2)]

    assert asyncio.run(run()) == [1, 1, 1, 2]


def test_the_answer_to_a_client_that_is_alone_is_not_older_than_its_request():
    async def run():
        shared = SharedCalls(Counter(), keep=KEEP)
        return [await shared.get(2) for _ in range(3)]

    assert asyncio.run(run()) == [1, 2, 3]


def test_nothing_is_remembered_by_default():
    async def run():
        shared = SharedCalls(Counter(), pause=0.0)
        return [*await get_all(shared, 2, 2), *await get_all(shared, 2, 2)]

    assert asyncio.run(run()) == [1, 1, 2, 2]


def test_errors_and_absence_are_loaded_again():
    load = Counter()

    async def run():
        shared = SharedCalls(load, keep=KEEP)
        return [await get_all(shared, 0, 1, 2) for _ in range(2)]

    for error, absent, value in asyncio.run(run()):
        assert (type(error), absent, value) == (ValueError, None, 1)
    assert load.calls == [[0, 1, 2], [0, 1]]


def test_a_value_that_was_forgotten_is_loaded_again():
    async def run():
        shared = SharedCalls(Counter(), keep=KEEP)
        values = await get_all(shared, 2, 2)
        shared.forget()
        return [*values, *await get_all(shared, 2, 2)]

    assert asyncio.run(run()) == [1, 1, 2, 2]


def test_a_call_that_began_before_a_write_is_not_remembered_after_it():
    load = Counter()
    load.go.clear()

    async def run():
        shared = SharedCalls(load, keep=KEEP)
        first = get_all(shared, 2, 2)
        await asyncio.to_thread(servers.wait_for, lambda: load.calls, what="the first call")
        shared.forget()
        load.go.set()
        return [*await first, await shared.get(2)]

    assert asyncio.run(run()) == [1, 1, 2]


def test_values_that_are_wanted_again_are_loaded_in_one_call_before_they_are_too_old():
    load = Counter()

    async def run():
        shared = SharedCalls(load, keep=KEEP)
        await get_all(shared, 2, 4, 6)
        await get_all(shared, 2, 4)
        advance(KEEP / 2)
        values = [await shared.get(4)]  # without waiting
        async with asyncio.timeout(KEEP / 4):  # before it is too old
            while await shared.get(4) == 1:
                await asyncio.sleep(0.001)
        return [*values, *await get_all(shared, 2, 4)]

    assert asyncio.run(run()) == [1, 2, 2]
    assert load.calls == [[2, 4, 6], [2, 4]]


@pytest.fixture(params=["sqlite", "postgresql"])
def resources(request, redis_url, tmp_path):
    settings = cluster_settings(redis_url, tmp_path, prefix=f"{tmp_path.name}:")
    if request.param == "postgresql":
        settings = settings.model_copy(update={"ledger_url": request.getfixturevalue("postgres_url")})
    resources = Resources.connect(settings)
    yield resources
    resources.close()


@pytest.fixture(scope="module")
def postgres_url():
    if servers.postgres_programs() is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_POSTGRES") == "1" else pytest.skip
        complain("PostgreSQL is not installed; `apt-get install postgresql` installs it.")
    # Not below pytest's own directories, which the user of PostgreSQL cannot access.
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield url


class Pollers:
    """Clients that read the list of jobs and the status of a job all the time, so that a server remembers both."""

    def __init__(self, url, headers):
        self.job, self._stop = "0" * 32, Event()
        paths = [lambda: "/v1/jobs", lambda: f"/v1/jobs/{self.job}"] * 2
        self._threads = [Thread(target=self._poll, args=(url, headers, path)) for path in paths]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _poll(self, url, headers, path):
        with httpx.Client(base_url=url, headers=headers) as client:
            while not self._stop.is_set():
                client.get(path())


def test_a_client_of_one_server_reads_what_it_has_written(resources, tmp_path, frame):
    table, headers = stored_table(resources, tmp_path, frame), token_for(resources)
    document = {"dataset": table.id, "table": {"target": "target"}}

    def read():
        listed = {each["id"]: each for each in client.get("/v1/jobs").json()["items"]}.get(pollers.job)
        status = client.get(f"/v1/jobs/{pollers.job}")
        if status.status_code == 404:
            return listed, None
        return tuple((each["state"], each["wanted"], each["title"]) for each in (listed, status.json()))

    with (
        a_server(resources) as (url, _),
        httpx.Client(base_url=url, headers=headers, timeout=60) as client,
        Pollers(url, headers) as pollers,
    ):
        for seed in range(3):
            submitted = client.post("/v1/jobs", json=document | {"settings": {"seed": seed, "trees": 20}})
            pollers.job = submitted.json()["id"]
            path = f"/v1/jobs/{pollers.job}"
            assert read() == (("queued", "run", None),) * 2
            client.patch(path, json={"title": "named"})
            assert read() == (("queued", "run", "named"),) * 2
            client.post(f"{path}/pause")
            assert read() == (("paused", "pause", "named"),) * 2
            client.post(f"{path}/cancel")
            assert read() == (("cancelled", "cancel", "named"),) * 2
            client.delete(path)
            assert read() == (None, None)


def test_under_load_tenants_do_not_see_jobs_of_others(resources):
    job, own, other = add_job(resources), token_for(resources), token_for(resources, "other")
    with (
        a_server(resources) as (url, _),
        httpx.Client(base_url=url, headers=other) as client,
        Pollers(url, own) as pollers,
    ):
        pollers.job = job
        for _ in range(15):
            assert client.get(f"/v1/jobs/{job}").status_code == 404
            assert client.get("/v1/jobs").json()["items"] == []


def test_a_client_that_follows_a_job_reads_no_older_state(resources):
    publisher, headers = StatusPublisher(resources), token_for(resources)
    with (
        a_server(resources) as (url, _),
        httpx.Client(base_url=url, headers=headers) as client,
        Pollers(url, headers) as pollers,
    ):
        for published in [True, False] * 3:
            pollers.job = job = add_job(resources)
            with following(url, job, headers) as events:
                assert next(events).data["state"] == "queued"
                time.sleep(0.05)  # the server remembers this state
                resources.ledger.jobs.set_command(job, "cancel", resources.ledger.now)
                if published:
                    publisher.publish([resources.ledger.jobs.get(job).record])
                    assert next(events).data["state"] == "cancelled"
            if not published:
                with following(url, job, headers) as events:
                    assert next(events).data["state"] == "cancelled"
            assert client.get(f"/v1/jobs/{job}").json()["state"] == "cancelled"


def add_job(resources):
    spec = JobSpec.model_validate({"id": uuid4().hex, "dataset": {"fingerprint": "ab" * 32}})
    resources.ledger.jobs.add([spec], resources.clock())
    return spec.id
