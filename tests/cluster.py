"""Helpers for tests on real components: a scheduler in a thread, and a client."""

from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from uuid import uuid4

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.streams import open_redis, send_request
from maabo_dist.contract.messages import Request
from scheduler.core.loop import Scheduler
from scheduler.resources import Resources
from tests import servers


class Clock:
    """A clock that a test sets."""

    def __init__(self, now=1e9):
        self.now = now

    def __call__(self):
        return self.now


def cluster_settings(redis_url, directory, **changes):
    values = {
        "redis_url": redis_url,
        "store_url": f"file://{directory}/store",
        "ledger_url": f"sqlite:///{directory}/ledger.db",
        "cache_dir": str(directory / "cache"),
    }
    return ClusterSettings(**(values | changes))


@contextmanager
def a_scheduler(settings, owner="one", **replaced):
    """Run a scheduler in a thread; yield its ledger."""
    resources = replace(Resources.connect(settings), **replaced)
    stop = Event()
    thread = Thread(target=Scheduler(resources, owner).run, args=(stop,))
    thread.start()
    try:
        yield resources.ledger
        assert thread.is_alive(), "the scheduler died"
    finally:
        stop.set()
        thread.join(20)
        resources.close()


def store_table(settings, tmp_path, columns):
    columns.save(tmp_path / "table")
    FileStore(settings.store_url).put(f"columns/{columns.fingerprint}", tmp_path / "table")


def submit(settings, tmp_path, columns, job=None, *, document=None, **mining):
    """Store the table, request a job and return its id."""
    store_table(settings, tmp_path, columns)
    job = job or uuid4().hex
    full = {"id": job, "dataset": {"fingerprint": columns.fingerprint}, "settings": mining} | (document or {})
    ask(settings, "submit", job, document=full)
    return job


def ask(settings, kind, job, **fields):
    with open_redis(settings) as client:
        send_request(client, settings, Request.read({"kind": kind, "job": job} | fields))


def ended(ledger, job, seconds=60):
    def look():
        row = ledger.jobs.get(job)
        return row if row is not None and row.state.ended else None

    return servers.wait_for(look, seconds, what="the end of the job")


def some_trees(ledger, job, least):
    return servers.wait_for(lambda: (row := ledger.jobs.get(job)) is not None and row.trees >= least, what="some trees")
