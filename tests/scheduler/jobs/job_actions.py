"""Jobs of several lengths, and ways to hold them up."""

from contextlib import contextmanager

from maabo_dist.cluster.broker import make_celery
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from scheduler.core import dispatch
from tests import servers

SLOW = {"trees": 100, "batch": 1, "seed": 3}
"""One tree at a time: slow enough for tests to act while it runs."""
QUICK = {"trees": 40, "batch": 8, "seed": 2, "max_depth": 3}
PATIENT = {"trees": 400, "batch": 8, "patience": 24, "similarity": 0.2}
"""Stops before its budget, when no new rule is found for a while."""


def digest_of(columns, mining):
    return mine(columns, MiningSettings.parse(mining)).digest


def in_state(client, job, state):
    return servers.wait_for(
        lambda: (record := client.record(job)).state is state and record, what=f"a job that is {state}"
    )


@contextmanager
def queues_paused(cluster, *queues):
    """Pause the worker's consumption of these queues."""
    control = make_celery(cluster).control
    for queue in queues:
        assert control.cancel_consumer(queue, reply=True, timeout=5, limit=1)
    try:
        yield
    finally:
        for queue in queues:
            assert control.add_consumer(queue, reply=True, timeout=5, limit=1)


@contextmanager
def no_slots(monkeypatch):
    """Let schedulers queue jobs without starting any."""
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "MAX_JOBS", 0)
        patch.setattr(dispatch, "URGENT_SLOTS", 0)
        patch.setattr(dispatch, "IDLE_TENANT_SLOTS", 0)
        yield
