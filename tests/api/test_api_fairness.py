"""One tenant that has many large tables read at once: others are answered, and abandoned work ends."""

import asyncio
import json
import select
import socket
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.slots import FairSlots
from scheduler.resources import Resources
from tests import servers
from tests.api_data import files_in, stored_table, token_for
from tests.cluster import cluster_settings

PLANS = 120
PATIENCE = 60.0
SMALL = b"age,weight,height,smokes\n" + b"61,80,170,yes\n34,70,180,no\n47,90,190,no\n" * 10


def large_table():
    """A table of about 40 MB as CSV."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.random((200_000, 10)), columns=[f"x{number}" for number in range(10)])
    return frame.assign(y=draw.integers(0, 2, len(frame)))


@pytest.fixture
def cluster(redis_url, tmp_path):
    """A server: its address, its process, its temporary directory, and a table of the tenant `greedy`."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    cluster = cluster_settings(redis_url, tmp_path, prefix="fairness:")
    with closing(Resources.connect(cluster)) as resources:
        table = stored_table(resources, tmp_path, large_table(), tenant="greedy")
        greedy, other = token_for(resources, tenant="greedy"), token_for(resources, tenant="other")
        with servers.http_process(cluster, tmp_path, TMPDIR=str(temporary)) as (address, process):
            yield address, process, temporary, table.id, greedy, other


def start_plan(address, token, table, number):
    """Send a request for a plan, each with other settings, without waiting for the response."""
    document = {"dataset": table, "table": {"target": "y", "na_values": [f"missing {number}"]}}
    body, url = json.dumps(document), urlsplit(address)
    head = f"POST /v1/plans HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {token['Authorization']}\r\n"
    sock = socket.create_connection((url.hostname, url.port), timeout=PATIENCE)
    sock.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return sock


def readers_of(process):
    """The processes that read a table; their parent, which forks them, is not one of them."""
    return [child for parent in psutil.Process(process.pid).children() for child in parent.children()]


def test_other_tenants_are_answered_while_one_has_many_tables_read(cluster):
    address, process, temporary, table, greedy, other = cluster
    with ExitStack() as stack:
        sockets = [stack.enter_context(start_plan(address, greedy, table, number)) for number in range(PLANS)]
        servers.wait_for(lambda: readers_of(process), what="a reader process")
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            assert client.get("/v1/jobs", headers=greedy).status_code == 200
            for number in range(5):
                headers = other | {"Content-Type": "text/csv"}
                uploaded = client.post("/v1/datasets", content=SMALL + b"1,60,160,no\n" * number, headers=headers)
                plan = {"dataset": uploaded.json()["id"], "table": {"target": "smokes"}}
                statuses = [
                    uploaded.status_code,
                    client.post("/v1/plans", json=plan, headers=other).status_code,
                    client.get("/v1/jobs", headers=other).status_code,
                ]
                assert statuses == [201, 200, 200]
        answered = select.select(sockets, [], [], 0)[0]
        assert len(answered) < PLANS / 2  # so others did not have to wait for them

    servers.wait_for(lambda: not readers_of(process), what="the end of abandoned readers")
    servers.wait_for(lambda: not files_in(temporary), what="the end of abandoned files")
    with httpx.Client(base_url=address, timeout=PATIENCE) as client:
        headers = greedy | {"Content-Type": "text/csv"}
        assert client.post("/v1/datasets", content=SMALL, headers=headers).status_code == 201


@given(
    slots=st.integers(1, 4),
    requests=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_slots_are_shared_and_none_is_lost(slots, requests):
    """Requests of three tenants, some of which are cancelled while they wait or work."""
    used, peaks = dict.fromkeys("abc", 0), []

    async def work(fair, tenant):
        async with fair.slot(tenant, 60):
            used[tenant] += 1
            peaks.append(dict(used))
            try:
                await asyncio.sleep(0)
            finally:
                used[tenant] -= 1

    async def run():
        fair = FairSlots(slots, 100)
        tasks = [(asyncio.create_task(work(fair, tenant)), cancelled) for tenant, cancelled in requests]
        await asyncio.sleep(0)
        for task, cancelled in tasks:
            if cancelled:
                task.cancel()
        results = await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError | None) for result in results)
        await asyncio.gather(*(work(fair, "a") for _ in range(2 * slots)))  # all slots are free again

    asyncio.run(run())
    assert all(sum(peak.values()) <= slots for peak in peaks)
    assert all(max(peak.values()) <= max(1, slots - 1) for peak in peaks)


def test_tenants_take_turns():
    order = []

    async def work(fair, tenant):
        async with fair.slot(tenant, 60):
            order.append(tenant)
            await asyncio.sleep(0)

    async def run():
        fair = FairSlots(1, 100)
        await asyncio.gather(*(work(fair, tenant) for tenant in "aaaabbc"))

    asyncio.run(run())
    assert "".join(order) == "aabcaba"


def test_who_waits_too_long_or_with_too_many_others_is_told_so():
    async def hold(fair):
        async with fair.slot("a", 0.01):
            await asyncio.sleep(60)

    async def run():
        fair = FairSlots(1, 2)
        first = asyncio.create_task(hold(fair))
        await asyncio.sleep(0)
        outcomes = await asyncio.gather(*(hold(fair) for _ in range(3)), return_exceptions=True)
        first.cancel()
        return [(outcome.kind, str(outcome)) for outcome in outcomes]

    *waited, refused = asyncio.run(run())
    assert all(kind == "busy" and "being read at the moment" in message for kind, message in waited)
    assert "2 requests of this tenant" in refused[1]
