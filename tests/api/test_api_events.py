"""Events over HTTP: complete and without repetitions, also after failures of Redis."""

import asyncio
import json
import socket
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest

from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec, JobState
from scheduler.api import broadcaster, subscribers
from scheduler.api import events as events_route
from scheduler.ledger.leases import Lease
from scheduler.messaging.publishers import MAX_RULES, MAX_TEXT, StatusPublisher
from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for
from tests.api_events import a_server, following, open_stream, read_event_stream
from tests.cluster import cluster_settings
from tests.documents import document_json, rule_json
from tests.proxy import proxy


class FakeJob:
    """A job in the ledger whose state the test changes, as a scheduler would."""

    def __init__(self, resources, tenant="default"):
        self.resources, self.status, self.id = resources, StatusPublisher(resources), uuid4().hex
        spec = {"id": self.id, "tenant": tenant, "dataset": {"fingerprint": "ab" * 32}}
        resources.ledger.jobs.add([JobSpec.model_validate(spec)], resources.clock())
        self.record = resources.ledger.jobs.get(self.id).record
        self.lease = None

    def show(self, **changes):
        self.record = self.record.model_copy(update=changes)
        self.status.publish([self.record])

    def grow(self, *trees):
        for count in trees:
            self.show(state=JobState.RUNNING, trees=count, planned=1000, seconds=count / 10)

    def mine(self, *texts, stopped="running"):
        rules = [rule_json(id=f"R{n + 1}", text=text) for n, text in enumerate(texts)]
        document = document_json(
            *rules, digest=sha256("".join(texts).encode()).hexdigest(), search={"stopped": stopped}
        )
        self.status.publish_document(self.id, json.dumps(document))

    def end(self, state=JobState.DONE, with_event=True):
        now = self.resources.clock()
        (lease,) = self.resources.ledger.leases.acquire("one", now, 60, 1)
        assert lease == Lease(self.id, 1)
        self.resources.ledger.search.end_job(lease, now, state, digest="d1")
        if with_event:
            self.show(state=state, digest="d1")

    def entries(self):
        key = self.resources.settings.key(f"{names.JOB_EVENTS}:{self.id}")
        return [
            (kind.decode(), json.loads(data))
            for _, fields in self.resources.redis.xrange(key)
            for kind, data in fields.items()
        ]


@pytest.fixture
def job(resources):
    return FakeJob(resources)


@pytest.fixture
def server_url(resources):
    with a_server(resources) as (url, _):
        yield url


def kinds(received):
    return [event.kind for event in received]


def test_the_scheduler_publishes_only_changes(job):
    job.show()
    job.show(seconds=3.0)
    job.grow(10, 20)
    job.show(seconds=9.0)

    assert [(kind, data["trees"]) for kind, data in job.entries()] == [("state", 0), ("state", 10), ("progress", 20)]


def test_events_contain_new_rules_and_count_removed_ones(job):
    job.mine("a", "b")
    job.mine("a", "b")
    job.mine("b", "c" * 3000)
    job.mine(*map(str, range(300)), stopped="budget")

    changes = [data for kind, data in job.entries() if kind == "rules"]
    assert [[rule["text"] for rule in data["new"]][:2] for data in changes] == [
        ["a", "b"],
        ["c" * MAX_TEXT],
        ["0", "1"],
    ]
    assert [data["gone"] for data in changes] == [0, 1, 2]
    assert [data["partial"] for data in changes] == [True, True, False]
    assert (len(changes[2]["new"]), changes[2]["new_total"], changes[2]["rules"]) == (MAX_RULES, 300, 300)


@pytest.mark.parametrize("document", ["{}", "[]", '{"digest": 1, "search": {"stopped": "x"}, "rules": [3]}'])
def test_a_document_of_another_version_is_published_without_an_event(job, document):
    job.status.publish_document(job.id, document)

    assert job.entries() == []
    assert job.resources.redis.get(job.resources.settings.key(f"{names.JOB_DOCUMENT}:{job.id}")) == document.encode()


def test_a_failed_publication_is_repeated(job, monkeypatch):
    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr(type(job.resources.redis.pipeline()), "execute", lambda *_: (_ for _ in ()).throw(OSError))
        job.grow(10)
    assert job.entries() == []
    job.grow(10)

    assert [kind for kind, _ in job.entries()] == ["state"]


def test_events_are_deleted_with_their_job_and_expire_otherwise(job):
    job.grow(10)
    key = job.resources.settings.key(f"{names.JOB_EVENTS}:{job.id}")

    assert 0 < job.resources.redis.ttl(key) <= job.resources.settings.retention
    job.status.remove([job.id])
    assert not job.resources.redis.exists(key)


def test_a_stream_starts_with_the_state_continues_with_changes_and_ends_with_the_job(server_url, job):
    job.grow(10)
    with following(server_url, job.id) as events:
        first = next(events)
        job.grow(20)
        job.mine("IF x THEN y")
        job.end()
        received = list(events)

    assert (first.kind, first.data["id"], first.data["settings"]["seed"]) == ("state", job.id, 0)
    assert kinds(received) == ["progress", "rules", "state", "end"]
    assert (received[0].data["trees"], received[0].data["progress"]) == (20, 0.02)
    assert received[1].data["new"][0]["text"] == "IF x THEN y"
    assert received[3].data == {"id": job.id, "state": "done", "digest": "d1", "reason": None}
    assert "tenant" not in received[0].data


def test_the_stream_of_an_ended_job_closes_after_its_state(server_url, job):
    job.end()

    with following(server_url, job.id) as events:
        assert [(event.kind, event.data["state"]) for event in events] == [("state", "done"), ("end", "done")]


def test_a_resumed_stream_contains_every_event_exactly_once(server_url, job):
    job.grow(1)
    received, last = [], {}
    for number in range(6):
        with following(server_url, job.id, last) as events:
            if not last:
                next(events)
            job.grow(*range(10 * number + 2, 10 * number + 8))
            received += [next(events) for _ in range(3)]  # the others follow while there is no connection
        last = {"Last-Event-ID": received[-1].id}
    job.mine("a")
    job.end()
    with following(server_url, job.id, after=received[-1].id) as events:
        received += events

    assert [event.data["trees"] for event in received if event.kind == "progress"] == [
        10 * number + trees for number in range(6) for trees in range(2, 8)
    ]
    assert kinds(received)[-3:] == ["rules", "state", "end"]
    assert len({event.id for event in received if event.id}) == len(received) - 1


@pytest.mark.parametrize("with_event", [True, False])
def test_a_stream_resumed_after_the_last_event_still_ends(server_url, job, with_event):
    job.grow(1)
    with following(server_url, job.id) as events:
        first = next(events)
    job.end(with_event=with_event)

    with following(server_url, job.id, after=first.id) as events:
        assert kinds(events) == ["state", "end"]
    if with_event:
        with following(server_url, job.id) as events:
            last = next(events)
        with following(server_url, job.id, after=last.id) as events:
            assert kinds(events) == ["state", "end"]


@pytest.mark.parametrize("after", ["1-1", "0-0", f"{2**64}-0"])
def test_a_stream_resumed_too_late_starts_with_a_snapshot(server_url, job, after):
    job.grow(1, 2)
    with following(server_url, job.id, after=after) as events:
        first = next(events)

    assert (first.kind, first.data["trees"]) == ("state", 2)
    assert "settings" in first.data


def test_an_invalid_event_id_is_rejected(client, job):
    assert client.get(f"/v1/jobs/{job.id}/events?after=yesterday").status_code == 422


def test_no_event_is_lost_between_the_snapshot_and_the_stream(server_url, job):
    """Subscribers connect while events are written as fast as possible: each sees an increase without gaps."""
    job.grow(0)
    connected = asyncio.Semaphore(0)

    async def follow(port):
        reader, writer = await open_stream(port, job.id)
        seen = []
        while (event := await read_event_stream(reader)).kind != "end":
            if not seen:
                connected.release()
            seen.append(event.data["trees"])
        writer.close()
        return seen

    async def write():
        for count in range(1, 151):
            await asyncio.to_thread(job.grow, count)
        for _ in range(20):  # the ledger, which a later subscriber would see, has no trees
            await connected.acquire()
        await asyncio.to_thread(job.end)

    async def both():
        port = int(server_url.rsplit(":", 1)[1])
        *seen, _ = await asyncio.gather(*(follow(port) for _ in range(20)), write())
        return seen

    for trees in asyncio.run(both()):
        rest = trees[1:-1]
        assert trees[-1] == 150
        assert rest == list(range(rest[0], 151)) if rest else trees[0] == 150
        assert not rest or rest[0] <= trees[0] + 1


def test_revoking_a_token_ends_its_streams(resources, server_url, job, monkeypatch):
    monkeypatch.setattr(broadcaster, "TOKEN_SECONDS", 0.1)
    job.grow(1)
    ours, theirs = token_for(resources), token_for(resources)
    with a_server(resources) as (url, _), following(url, job.id, ours) as left, following(url, job.id, theirs) as right:
        next(left), next(right)
        resources.ledger.tokens.revoke(ours["Authorization"].split("_")[1], resources.clock())

        assert list(left) == []
        job.grow(2)
        assert next(right).data["trees"] == 2


def test_the_first_token_ends_streams_without_a_token(resources, job, monkeypatch):
    monkeypatch.setattr(broadcaster, "TOKEN_SECONDS", 0.1)
    with a_server(resources) as (url, _), following(url, job.id) as events:
        next(events)
        token_for(resources)

        assert list(events) == []


def test_a_job_of_another_tenant_is_not_found(client, resources, job):
    headers = token_for(resources, "other")

    assert client.get(f"/v1/jobs/{job.id}/events", headers=headers).status_code == 404


def test_streams_above_the_limit_are_rejected_until_one_ends(resources, job):
    with a_server(resources, event_streams=2) as (url, app):
        with following(url, job.id) as one, following(url, job.id) as two:
            next(one), next(two)
            with pytest.raises(AssertionError, match="/busy"), following(url, job.id):
                pass
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 0, what="the end of both")
        with following(url, job.id) as events:
            assert next(events).kind == "state"


def test_a_stalled_client_is_disconnected_and_can_resume(resources, job, monkeypatch):
    monkeypatch.setattr(subscribers, "MAX_QUEUED", 5)
    monkeypatch.setattr(events_route, "STALLED_SECONDS", 0.2)
    job.grow(1)
    with a_server(resources) as (url, app), socket.socket() as stalled:
        with following(url, job.id) as events:
            first = next(events)
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 0, what="the end of the first")
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        stalled.sendall(f"GET /v1/jobs/{job.id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 1, what="a subscriber")
        published = 0
        while len(app.state.broadcaster.subscribers) and published < 5000:
            job.mine(*(f"{published} {number} {'x' * 450}" for number in range(20)))
            published += 1

        assert len(app.state.broadcaster.subscribers) == 0
        with following(url, job.id, after=first.id) as resumed:
            assert next(resumed).kind in {"rules", "state"}


def test_streams_end_when_the_server_stops(resources, job):
    with a_server(resources) as (url, _):
        stream = following(url, job.id)
        events = stream.__enter__()
        next(events)

    assert list(events) == []
    stream.__exit__(None, None, None)


@contextmanager
def own_redis():
    """Resources of a cluster with its own Redis server, which tests can empty."""
    with (
        TemporaryDirectory(prefix="maabo-") as directory,
        servers.redis_server(directory) as url,
        closing(Resources.connect(cluster_settings(url, Path(directory)))) as resources,
    ):
        yield resources


def test_after_redis_is_emptied_streams_restart_with_a_snapshot(monkeypatch):
    monkeypatch.setattr(broadcaster, "JOB_SECONDS", 0.1)
    monkeypatch.setattr(broadcaster, "TOKEN_SECONDS", 0.2)
    with own_redis() as resources:
        job = FakeJob(resources)
        job.grow(5)
        with a_server(resources) as (url, app), following(url, job.id) as events:
            next(events)
            servers.wait_for(lambda: app.state.broadcaster.epoch, what="a first look")
            resources.redis.flushall()
            again = next(events)
            job.grow(6)
            continued = next(events)
            resources.redis.flushall()
            resources.ledger.jobs.set_command(job.id, "cancel", resources.clock())  # without an event
            last = list(events)

    assert (again.kind, "settings" in again.data) == ("state", True)
    assert continued.data["trees"] == 6
    assert (last[-2].data["state"], last[-1].kind) == ("cancelled", "end")


def test_after_redis_was_unavailable_streams_restart_with_a_snapshot(resources, settings, job):
    port = int(settings.redis_url.rsplit(":", 1)[1].split("/")[0])
    job.grow(5)
    with proxy(port) as between:
        far = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{between.port}/0"})
        with closing(Resources.connect(far)) as theirs, a_server(theirs) as (url, _), following(url, job.id) as events:
            next(events)
            between.refuse()
            with following(url, job.id) as late:
                first = next(late)  # from the ledger
                job.grow(6)
                between.accept()
                again = [next(events), next(late)]
                job.end()
                last = [list(events)[-1], list(late)[-1]]

    assert (first.kind, first.id) == ("state", None)
    assert [(event.kind, event.data["trees"]) for event in again] == [("state", 6)] * 2
    assert [event.kind for event in last] == ["end"] * 2


def memory(process):
    """Resident bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def connections(resources):
    return len(resources.redis.client_list())


@pytest.mark.soak
def test_five_hundred_streams_share_one_reader(resources, settings, tmp_path, capsys):
    jobs = [FakeJob(resources) for _ in range(10)]
    count = 500

    async def follow(number):
        reader, writer = await open_stream(port, jobs[number % len(jobs)].id)
        assert (await read_event_stream(reader)).kind == "state"
        return reader, writer

    async def run():
        before, clients = memory(process), connections(resources)
        streams = []
        for start in range(0, count, 100):
            streams += await asyncio.gather(*(follow(number) for number in range(start, start + 100)))
        growth, added = memory(process) - before, connections(resources) - clients
        for job in jobs:
            await asyncio.to_thread(job.grow, 7)
        received = await asyncio.gather(*(read_event_stream(reader) for reader, _ in streams))
        process.send_signal(SIGTERM)
        ends = await asyncio.gather(*(reader.read() for reader, _ in streams))
        for _, writer in streams:
            writer.close()
        return growth, added, received, ends

    with servers.http_process(settings, tmp_path) as (url, process):
        port = int(url.rsplit(":", 1)[1])
        growth, added, received, _ = asyncio.run(run())
        assert process.wait(10) == 0, "it ends all streams and then itself"
    with capsys.disabled():
        print(f"\n{count} streams: {growth / count / 1024:.0f} KiB each, {added} connections to Redis")

    assert [event.data["trees"] for event in received] == [7] * count
    assert added <= 20
