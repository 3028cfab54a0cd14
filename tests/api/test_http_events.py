"""A job's events over HTTP: all of them, each once, to everyone who may see them, whatever happens to Redis."""

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
from scheduler.ledger.leases import Lease
from scheduler.messaging.status import MAX_RULES, MAX_TEXT, StatusPublisher
from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for
from tests.api_events import a_server, following, open_stream, read_event_stream
from tests.cluster import cluster_settings
from tests.documents import document_json, rule_json
from tests.proxy import proxy


class FakeJob:
    """A job in the ledger, moved by hand as a scheduler would."""

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

    def end(self, state=JobState.DONE, told=True):
        now = self.resources.clock()
        (lease,) = self.resources.ledger.leases.acquire("one", now, 60, 1)
        assert lease == Lease(self.id, 1)
        self.resources.ledger.search.end_job(lease, now, state, digest="d1")
        if told:
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
def served(resources):
    with a_server(resources) as (url, _):
        yield url


def kinds(heard):
    return [event.kind for event in heard]


def test_the_scheduler_tells_only_of_what_changed(job):
    job.show()
    job.show(seconds=3.0)
    job.grow(10, 20)
    job.show(seconds=9.0)

    assert [(kind, data["trees"]) for kind, data in job.entries()] == [("state", 0), ("state", 10), ("progress", 20)]


def test_new_rules_are_told_of_and_those_that_went_are_counted(job):
    job.mine("a", "b")
    job.mine("a", "b")
    job.mine("b", "c" * 3000)
    job.mine(*map(str, range(300)), stopped="budget")

    told = [data for kind, data in job.entries() if kind == "rules"]
    assert [[rule["text"] for rule in data["new"]][:2] for data in told] == [
        ["a", "b"],
        ["c" * MAX_TEXT],
        ["0", "1"],
    ]
    assert [data["gone"] for data in told] == [0, 1, 2]
    assert [data["partial"] for data in told] == [True, True, False]
    assert (len(told[2]["new"]), told[2]["new_total"], told[2]["rules"]) == (MAX_RULES, 300, 300)


@pytest.mark.parametrize("document", ["{}", "[]", '{"digest": 1, "search": {"stopped": "x"}, "rules": [3]}'])
def test_a_document_of_another_version_is_shown_and_makes_no_event(job, document):
    job.status.publish_document(job.id, document)

    assert job.entries() == []
    assert job.resources.redis.get(job.resources.settings.key(f"{names.JOB_DOCUMENT}:{job.id}")) == document.encode()


def test_what_did_not_reach_redis_is_told_the_next_time(job, monkeypatch):
    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr(type(job.resources.redis.pipeline()), "execute", lambda *_: (_ for _ in ()).throw(OSError))
        job.grow(10)
    assert job.entries() == []
    job.grow(10)

    assert [kind for kind, _ in job.entries()] == ["state"]


def test_the_events_of_a_job_that_is_forgotten_go_with_it_and_others_expire(job):
    job.grow(10)
    key = job.resources.settings.key(f"{names.JOB_EVENTS}:{job.id}")

    assert 0 < job.resources.redis.ttl(key) <= job.resources.settings.retention
    job.status.remove([job.id])
    assert not job.resources.redis.exists(key)


def test_a_stream_begins_with_the_job_goes_on_with_what_happens_and_ends_with_it(served, job):
    job.grow(10)
    with following(served, job.id) as events:
        first = next(events)
        job.grow(20)
        job.mine("IF x THEN y")
        job.end()
        heard = list(events)

    assert (first.kind, first.data["id"], first.data["settings"]["seed"]) == ("state", job.id, 0)
    assert kinds(heard) == ["progress", "rules", "state", "end"]
    assert (heard[0].data["trees"], heard[0].data["progress"]) == (20, 0.02)
    assert heard[1].data["new"][0]["text"] == "IF x THEN y"
    assert heard[3].data == {"id": job.id, "state": "done", "digest": "d1", "reason": None}
    assert "tenant" not in heard[0].data


def test_a_job_that_has_ended_is_told_and_closed(served, job):
    job.end()

    with following(served, job.id) as events:
        assert [(event.kind, event.data["state"]) for event in events] == [("state", "done"), ("end", "done")]


def test_whoever_resumes_hears_every_event_exactly_once(served, job):
    job.grow(1)
    heard, last = [], {}
    for number in range(6):
        with following(served, job.id, last) as events:
            if not last:
                next(events)
            job.grow(*range(10 * number + 2, 10 * number + 8))
            heard += [next(events) for _ in range(3)]  # and the others while nobody listens
        last = {"Last-Event-ID": heard[-1].id}
    job.mine("a")
    job.end()
    with following(served, job.id, after=heard[-1].id) as events:
        heard += events

    assert [event.data["trees"] for event in heard if event.kind == "progress"] == [
        10 * number + trees for number in range(6) for trees in range(2, 8)
    ]
    assert kinds(heard)[-3:] == ["rules", "state", "end"]
    assert len({event.id for event in heard if event.id}) == len(heard) - 1


@pytest.mark.parametrize("told", [True, False])
def test_whoever_resumes_after_the_last_event_is_told_of_the_end(served, job, told):
    job.grow(1)
    with following(served, job.id) as events:
        first = next(events)
    job.end(told=told)

    with following(served, job.id, after=first.id) as events:
        assert kinds(events) == ["state", "end"]
    if told:
        with following(served, job.id) as events:
            last = next(events)
        with following(served, job.id, after=last.id) as events:
            assert kinds(events) == ["state", "end"]


@pytest.mark.parametrize("after", ["1-1", "0-0", f"{2**64}-0"])
def test_whoever_was_away_for_too_long_begins_anew(served, job, after):
    job.grow(1, 2)
    with following(served, job.id, after=after) as events:
        first = next(events)

    assert (first.kind, first.data["trees"]) == ("state", 2)
    assert "settings" in first.data


def test_an_id_that_is_none_is_refused(client, job):
    assert client.get(f"/v1/jobs/{job.id}/events?after=yesterday").status_code == 422


def test_nothing_is_lost_between_the_beginning_and_what_follows(served, job):
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
        port = int(served.rsplit(":", 1)[1])
        *seen, _ = await asyncio.gather(*(follow(port) for _ in range(20)), write())
        return seen

    for trees in asyncio.run(both()):
        rest = trees[1:-1]
        assert trees[-1] == 150
        assert rest == list(range(rest[0], 151)) if rest else trees[0] == 150
        assert not rest or rest[0] <= trees[0] + 1


def test_a_token_that_is_revoked_ends_its_streams(resources, served, job, monkeypatch):
    monkeypatch.setattr(broadcaster, "TOKEN_SECONDS", 0.1)
    job.grow(1)
    ours, theirs = token_for(resources), token_for(resources)
    with a_server(resources) as (url, _), following(url, job.id, ours) as left, following(url, job.id, theirs) as right:
        next(left), next(right)
        resources.ledger.tokens.revoke(ours["Authorization"].split("_")[1], resources.clock())

        assert list(left) == []
        job.grow(2)
        assert next(right).data["trees"] == 2


def test_the_first_token_ends_the_streams_of_those_without_one(resources, job, monkeypatch):
    monkeypatch.setattr(broadcaster, "TOKEN_SECONDS", 0.1)
    with a_server(resources) as (url, _), following(url, job.id) as events:
        next(events)
        token_for(resources)

        assert list(events) == []


def test_a_job_of_another_tenant_is_not_there(client, resources, job):
    headers = token_for(resources, "other")

    assert client.get(f"/v1/jobs/{job.id}/events", headers=headers).status_code == 404


def test_more_streams_than_are_permitted_are_refused_and_a_seat_is_free_again(resources, job):
    with a_server(resources, event_streams=2) as (url, app):
        with following(url, job.id) as one, following(url, job.id) as two:
            next(one), next(two)
            with pytest.raises(AssertionError, match="/busy"), following(url, job.id):
                pass
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 0, what="the end of both")
        with following(url, job.id) as events:
            assert next(events).kind == "state"


def test_who_does_not_listen_is_let_go_and_may_resume(resources, job, monkeypatch):
    monkeypatch.setattr(subscribers, "MAX_QUEUED", 5)
    monkeypatch.setattr(subscribers, "STALLED_SECONDS", 0.2)
    job.grow(1)
    with a_server(resources) as (url, app), socket.socket() as deaf:
        with following(url, job.id) as events:
            first = next(events)
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 0, what="the end of the first")
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        deaf.sendall(f"GET /v1/jobs/{job.id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        servers.wait_for(lambda: len(app.state.broadcaster.subscribers) == 1, what="a subscriber")
        told = 0
        while len(app.state.broadcaster.subscribers) and told < 5000:
            job.mine(*(f"{told} {number} {'x' * 450}" for number in range(20)))
            told += 1

        assert len(app.state.broadcaster.subscribers) == 0
        with following(url, job.id, after=first.id) as resumed:
            assert next(resumed).kind in {"rules", "state"}


def test_streams_end_when_the_server_does(resources, job):
    with a_server(resources) as (url, _):
        stream = following(url, job.id)
        events = stream.__enter__()
        next(events)

    assert list(events) == []
    stream.__exit__(None, None, None)


@contextmanager
def own_redis():
    """Parts of a cluster with a Redis of its own, which may be emptied."""
    with (
        TemporaryDirectory(prefix="maabo-") as directory,
        servers.redis_server(directory) as url,
        closing(Resources.connect(cluster_settings(url, Path(directory)))) as resources,
    ):
        yield resources


def test_a_redis_that_is_emptied_costs_no_more_than_a_fresh_beginning(monkeypatch):
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
            went_on = next(events)
            resources.redis.flushall()
            resources.ledger.jobs.set_command(job.id, "cancel", resources.clock())  # and nobody tells of it
            last = list(events)

    assert (again.kind, "settings" in again.data) == ("state", True)
    assert went_on.data["trees"] == 6
    assert (last[-2].data["state"], last[-1].kind) == ("cancelled", "end")


def test_a_redis_that_is_away_for_a_while_costs_no_more_either(resources, settings, job):
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
def test_five_hundred_open_streams_all_hear_of_it_over_one_reader(resources, settings, tmp_path, capsys):
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
        grown, added = memory(process) - before, connections(resources) - clients
        for job in jobs:
            await asyncio.to_thread(job.grow, 7)
        heard = await asyncio.gather(*(read_event_stream(reader) for reader, _ in streams))
        process.send_signal(SIGTERM)
        ends = await asyncio.gather(*(reader.read() for reader, _ in streams))
        for _, writer in streams:
            writer.close()
        return grown, added, heard, ends

    with servers.http_process(settings, tmp_path) as (url, process):
        port = int(url.rsplit(":", 1)[1])
        grown, added, heard, _ = asyncio.run(run())
        assert process.wait(10) == 0, "it ends all streams and then itself"
    with capsys.disabled():
        print(f"\n{count} streams: {grown / count / 1024:.0f} KiB each, {added} connections to Redis")

    assert [event.data["trees"] for event in heard] == [7] * count
    assert added <= 20
