"""Fault: one malformed message in a queue ended every worker that took it, again and again.

Each poison message must end among the refused requests, once and with its reason, and the worker must live on.
"""

import base64
import json
from uuid import uuid4

import pytest

from maabo_dist.contract import names
from tests import servers
from tests.faults.world import MINING

pytestmark = pytest.mark.xdist_group("faults")

SMALL = MINING | {"trees": 40}


def envelope(body=None, *, raw=None, queue=names.JOBS_QUEUE, headers=None, **changes):
    """An item of a queue like those that Celery writes; `raw` are the bytes of the body."""
    data = json.dumps([[], {}, {}] if body is None else body).encode() if raw is None else raw
    identifier = str(uuid4())
    valid_headers = {"lang": "py", "task": names.SUBMIT, "id": identifier, "retries": 0, "timelimit": [None, None]}
    properties = {
        "correlation_id": identifier,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    item = {
        "body": base64.b64encode(data).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": valid_headers | (headers or {}),
        "properties": properties | changes.pop("properties", {}),
    }
    return json.dumps(item | changes).encode()


def altered(**changes):
    """A valid envelope with other values."""
    return json.dumps(json.loads(envelope()) | changes).encode()


POISON = {
    "body 1": (lambda: envelope(raw=b"1"), "list"),
    "body null": (lambda: envelope(raw=b"null"), "list"),
    "body a list of the wrong length": (lambda: envelope([[], {}]), "list"),
    "positional arguments": (lambda: envelope([[1], {}, {}]), "arguments"),
    "kwargs a list": (lambda: envelope([[], [], {}]), "arguments"),
    "kwargs with self": (lambda: envelope([[], {"self": 1}, {}]), "self"),
    "not JSON": (lambda: envelope(raw=b"not JSON"), "JSON"),
    "not UTF-8": (lambda: envelope(raw=b"\xff\xfe\x00"), "JSON"),
    "deep nesting": (lambda: envelope(raw=b"[" * 100_000), "JSON"),
    "deep but complete nesting": (lambda: envelope([[], {"a": json.loads("[" * 400 + "]" * 400)}, {}]), "nested"),
    "a huge number": (lambda: envelope(raw=b"[[], {}, " + b"9" * 10_000 + b"]"), "JSON"),
    "a huge body": (lambda: envelope(raw=b"[" + b" " * (17 << 20) + b"]"), "bytes"),
    "a pickle": (lambda: envelope(**{"content-type": "application/x-python-serialize"}), "content type"),
    "another encoding": (lambda: envelope(**{"content-encoding": "no-such"}), "encoding"),
    "compressed": (lambda: envelope(headers={"compression": "application/x-gzip"}), "Compressed"),
    "no headers": (lambda: altered(headers=None), "header"),
    "headers a list": (lambda: altered(headers=[1]), "header"),
    "an unknown task": (lambda: envelope(headers={"task": "os.system"}), "os.system"),
    "a task that is a list": (lambda: envelope(headers={"task": []}), "task"),
    "no id": (lambda: envelope(headers={"id": None}), "id"),
    "an id that is a number": (lambda: envelope(headers={"id": 7}), "id"),
    "a time limit that is text": (lambda: envelope(headers={"timelimit": ["1", "2"]}), "timelimit"),
    "a time limit of one number": (lambda: envelope(headers={"timelimit": 5}), "timelimit"),
    "an eta that is a number": (lambda: envelope(headers={"eta": 5}), "eta"),
    "an eta without meaning": (lambda: envelope(headers={"eta": "soon"}), "eta"),
    "an expiry that is a list": (lambda: envelope(headers={"expires": []}), "expires"),
    "retries that are text": (lambda: envelope(headers={"retries": "x"}), "retries"),
    "errbacks that are numbers": (lambda: envelope([[], {}, {"errbacks": [1]}]), "errbacks"),
    "properties a list": (lambda: altered(properties=[1]), "properties"),
    "no delivery tag": (lambda: envelope(properties={"delivery_tag": None}), "delivery_tag"),
    "no delivery info": (lambda: envelope(properties={"delivery_info": None}), "delivery_info"),
    "body encoding unknown": (lambda: envelope(properties={"body_encoding": "rot13"}), "body"),
    "body not base64": (lambda: altered(body="x"), "body"),
    "body a number": (lambda: altered(body=1), "body"),
    "an envelope that is not JSON": (lambda: b"not JSON", "JSON"),
    "an envelope that is not UTF-8": (lambda: b"\xff\xfe", "JSON"),
    "an envelope of brackets": (lambda: b"[" * 100_000, "JSON"),
    "an envelope that is a number": (lambda: b"7", "object"),
    "an empty envelope": (lambda: b"{}", "body"),
}


def refused(world):
    return [fields for _, fields in world.client.xrange(world.settings.key(names.REFUSED_STREAM))]


@pytest.mark.parametrize(
    "queue",
    [
        names.JOBS_QUEUE,
        pytest.param(names.EVALUATE_QUEUE, marks=pytest.mark.slow),
        pytest.param(names.RULES_QUEUE, marks=pytest.mark.slow),
    ],
)
def test_poison_messages_are_refused_once_and_the_worker_lives(world, queue):
    world.client.delete(world.settings.key(names.REFUSED_STREAM))
    unacked = world.settings.key("unacked")
    before = set(world.client.hkeys(unacked))  # those of workers that other tests have killed
    for make, _ in POISON.values():
        world.client.lpush(world.settings.key(queue), make())

    servers.wait_for(lambda: len(refused(world)) >= len(POISON) or not world.first_worker.alive, 30, what="refusals")
    assert world.first_worker.alive, world.first_worker.log[-3000:]
    world.check_done(world.submit(SMALL), SMALL)
    kept = refused(world)
    assert len(kept) == len(POISON)
    for (name, (_, reason)), fields in zip(POISON.items(), kept, strict=True):
        assert reason in fields[b"reason"].decode(), (name, fields[b"reason"])
        assert fields[b"source"].decode() == f"queue {queue}"
    # The last task of the job is acknowledged after its answer.
    servers.wait_for(lambda: set(world.client.hkeys(unacked)) <= before, 20, what="acknowledgements")


def test_damaged_unacknowledged_messages_are_refused(world):
    """Each sweep stopped at the first of them, so that no message behind it was ever restored."""
    world.client.delete(world.settings.key(names.REFUSED_STREAM))
    unacked, index = world.settings.key("unacked"), world.settings.key("unacked_index")
    tags = [f"tag {number}".encode() for number in range(5)]
    entries = [b"not JSON", b"7", b"[1]", b"[" * 100_000, b"\xff"]
    for number, data in enumerate(entries):
        world.client.hset(unacked, f"tag {number}", data)
        world.client.zadd(index, {f"tag {number}": 1.0})  # in 1970, long before the visibility timeout

    def unacknowledged():
        return set(tags) & {*world.client.hkeys(unacked), *world.client.zrange(index, 0, -1)}

    servers.wait_for(lambda: not unacknowledged(), 20, what="an end of the unacknowledged messages")
    assert len(refused(world)) == len(entries)
    assert world.first_worker.alive


@pytest.mark.parametrize("data", [b"1", b"not JSON", b"\xff", b"[" * 100_000, b"{}", b'{"properties": 1}'])
def test_a_malformed_control_message_leaves_workers_alive(world, data):
    before = len(world.first_worker.log)
    world.client.publish(world.settings.key("/0.celery.pidbox"), data)

    servers.wait_for(lambda: "control message" in world.first_worker.log[before:], 10, what="the refusal in the log")
    world.check_done(world.submit(SMALL), SMALL)
    assert world.first_worker.alive
