"""Messages that are copied from one of Celery's equal those that Celery makes."""

import json
from base64 import b64decode
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.messages import EvaluateMessage, TableSplit
from maabo_dist.settings import MiningSettings
from scheduler.messaging.envelopes import Envelopes
from scheduler.messaging.publishers import TaskPublisher
from scheduler.resources import Resources
from tests import servers
from tests.cluster import cluster_settings

OWN = {"id", "root_id", "correlation_id", "delivery_tag", "reply_to"}
"""Fields that differ in each message."""


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    directory = tmp_path_factory.mktemp("redis")
    with (
        servers.redis_server(directory) as url,
        closing(Resources.connect(cluster_settings(url, directory, prefix="p:"))) as connected,
    ):
        yield connected


def a_message(batch=3, correlation=None):
    return EvaluateMessage(
        job="a" * 32,
        start=0,
        stop=2,
        attempt=1,
        columns="b" * 64,
        split=TableSplit.of(MiningSettings(), 0.2),
        correlation=correlation,
        trace=None,
        batch=batch,
        max_depth=5,
        whole=False,
        subset_size=1,
        subsets="AAABAA==",
        smallest_size=1,
    )


def taken(resources):
    """Return the decoded messages in the queue, the oldest first, and empty it."""
    key = resources.settings.key(names.EVALUATE_QUEUE)
    items = resources.redis.lrange(key, 0, -1)[::-1]
    resources.redis.delete(key)
    return [_decoded(item) for item in items]


def _decoded(item):
    envelope = json.loads(item)
    envelope["body"] = json.loads(b64decode(envelope["body"]))
    for part in ("headers", "properties"):
        envelope[part] = {name: value for name, value in envelope[part].items() if name not in OWN}
    return envelope


@settings(max_examples=30, deadline=None)
@given(batch=st.integers(0, 10**6), correlation=st.none() | st.sampled_from(["x", 'with "quotes" \\ and é', "a" * 200]))
def test_a_copied_message_equals_one_of_celery(resources, batch, correlation):
    message = a_message(batch, correlation)
    publisher = TaskPublisher(resources)
    publisher.publish([message])
    publisher.send_with_celery([message])
    copied, made = taken(resources)

    assert copied == made


def test_each_message_has_its_own_id_and_tag():
    envelopes = Envelopes(make_celery(ClusterSettings()))
    made = [json.loads(envelopes.make(names.EVALUATE, names.EVALUATE_QUEUE, "{}", "x")) for _ in range(3)]

    assert len({message["headers"]["id"] for message in made}) == 3
    assert len({message["properties"]["delivery_tag"] for message in made}) == 3
    assert all(message["headers"]["id"] == message["properties"]["correlation_id"] for message in made)
