"""`Resources`: the connections of a scheduler or API process, opened once at its entry point."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from celery import Celery

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import ArtifactStore
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from scheduler.broker import Broker, open_broker
from scheduler.ledger import Ledger
from scheduler.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything outside of the process that it uses."""

    settings: ClusterSettings
    ledger: Ledger
    redis: Any
    celery: Celery
    store: ArtifactStore
    cache: TableCache
    broker: Broker
    clock: Callable[[], float] = time
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)

    @classmethod
    def connect(cls, settings: ClusterSettings, tracing: Tracing | None = None) -> "Resources":
        """Open the connections that the settings name."""
        client = open_redis(settings)
        store = open_store(settings, client)
        cache = TableCache(Path(settings.cache_dir), store, settings.cache_bytes)
        ledger, celery = Ledger(settings.ledger_url), make_celery(settings)
        broker = open_broker(settings, client, celery)
        return cls(settings, ledger, client, celery, store, cache, broker, tracing=tracing or Tracing())

    def close(self) -> None:
        """Close all connections."""
        self.ledger.close()
        self.redis.close()
        self.broker.close()
        self.celery.close()
        self.tracing.close()
