"""Many clients post many jobs over HTTP while processes are killed: every job exists once, is done, and is correct."""

import random
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import httpx
import pytest

from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table
from tests.faults.world import expected_digest

pytestmark = pytest.mark.xdist_group("faults")

MINING = {"preset": "paper", "trees": 30, "batch": 4, "similarity": 0.4}


def post(addresses, document, key, chance):
    """Post a job, retrying with the same key after failures, and sometimes after successes."""
    tries = 0
    while True:
        tries += 1
        url = f"{chance.choice(addresses)}/v1/jobs"
        try:
            response = httpx.post(url, json=document, headers={"Idempotency-Key": key}, timeout=30)
        except httpx.TransportError:
            assert tries < 100
            sleep(0.1)
            continue
        assert response.status_code in {200, 202, 503}, response.text
        if response.status_code != 503 and chance.random() < 0.7:
            return response.json()["id"]


@pytest.mark.soak
@pytest.mark.parametrize(("clients", "each"), [(6, 4), (20, 10)], ids=["24 jobs", "200 jobs"])
def test_jobs_posted_concurrently_are_each_done_once_whichever_process_is_killed(new_world, clients, each):
    world = new_world()
    frame, table_settings = load_bundled("breast_cancer")
    resources = Resources.connect(world.settings)
    table = stored_table(resources, world.directory, frame)
    resources.close()
    services = [world.service(), world.service()]
    schedulers, workers = [world.scheduler(), world.scheduler()], [world.worker(), world.worker()]
    addresses = [service.url for service in services]

    def client(number):
        chance = random.Random(number)
        jobs = {}
        for seed in range(number * each, (number + 1) * each):
            document = {
                "dataset": table.id,
                "table": table_settings.model_dump(mode="json", exclude_unset=True),
                "settings": MINING | {"seed": seed},
            }
            jobs[seed] = post(addresses, document, f"client {number} job {seed}", chance)
        return jobs

    with ThreadPoolExecutor(clients) as pool:
        posting = [pool.submit(client, number) for number in range(clients)]
        servers.wait_for(lambda: sum(world.ledger.jobs.count_by_state().values()) > clients, what="some jobs")
        world.end(services[0])
        world.end(schedulers[0])
        world.end(workers[0])
        addresses.remove(services[0].url)
        world.worker(wait=False)
        jobs = {seed: job for done in posting for seed, job in done.result().items()}

    total = clients * each
    servers.wait_for(lambda: world.ledger.jobs.count_by_state().get("done") == total, 180, what="the end of all jobs")
    assert sum(world.ledger.jobs.count_by_state().values()) == total
    assert len(set(jobs.values())) == total
    rows = {row.id: row for row in world.ledger.jobs.get_many(jobs.values())}
    assert {seed: rows[job].digest for seed, job in jobs.items()} == {
        seed: expected_digest(MINING | {"seed": seed}) for seed in jobs
    }
