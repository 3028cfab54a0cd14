"""Helpers for tests of the HTTP API: stored tables, tokens, files and metrics."""

from hashlib import sha256
from types import SimpleNamespace
from uuid import uuid4

from prometheus_client import CollectorRegistry, generate_latest

from maabo_dist.cluster.broker import make_celery
from scheduler.api.monitoring import ClusterCollector
from scheduler.api.scratch import LOCK_FILE
from scheduler.ledger.tenants import DatasetRow, make_token
from scheduler.resources import open_broker


def stored_table(resources, path, frame, tenant="default", name="table.csv"):
    """A raw table in the store and in the ledger, as an upload leaves it."""
    file = path / f"{uuid4().hex}.csv"
    frame.to_csv(file, index=False)
    digest = sha256(file.read_bytes()).hexdigest()
    resources.store.put(f"tables/{digest}", file)
    size = file.stat().st_size
    row = DatasetRow(uuid4().hex[:12], tenant, name, digest, "csv", size, *frame.shape, {}, resources.clock())
    resources.ledger.datasets.add(row)
    return row


def token_for(resources, tenant="default", scopes=("read", "submit"), seconds=None):
    """Headers with a new token."""
    token = make_token(tenant, frozenset(scopes), resources.clock(), name="test", seconds=seconds)
    resources.ledger.tokens.add(token.row)
    return {"Authorization": f"Bearer {token.text}"}


def files_in(folder):
    """The files in a folder, without the locks of processes."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != LOCK_FILE]


def scrape(ledger, redis, settings, now):
    """Return the metrics of a cluster in the text format of Prometheus."""
    registry, broker = CollectorRegistry(), open_broker(settings, redis, make_celery(settings))
    resources = SimpleNamespace(ledger=ledger, redis=redis, broker=broker, settings=settings, clock=lambda: now)
    registry.register(ClusterCollector(resources))
    try:
        return generate_latest(registry)
    finally:
        broker.close()
