"""The jobs of the scaling benchmark need nothing of workers but the evaluation of subsets, which is simulated."""

import pytest

from bench import tables
from bench.cluster.scaling import FEATURES, LOADS, ROWS
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec
from scheduler.core.preparation import prepare


@pytest.fixture(scope="module")
def columns():
    return tables.generated(ROWS, FEATURES)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: f"{load.workers} workers")
def test_the_scheduler_screens_the_table_itself(load, columns, tmp_path):
    store = FileStore(f"file://{tmp_path}/store")
    columns.save(tmp_path / "table")
    store.put(f"columns/{columns.fingerprint}", tmp_path / "table")
    spec = JobSpec.parse({"id": "0" * 32, "dataset": {"fingerprint": columns.fingerprint}, "settings": load.settings})
    longest = ClusterSettings.model_fields["screen_seconds"].default

    prepared = prepare(spec, TableCache(tmp_path / "cache", store, limit=1 << 30), longest)

    assert prepared.study.plan.screened
    assert prepared.screen is not None
