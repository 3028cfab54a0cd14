"""A table that is missing, damaged or fetched by several workers at the same time; a cache without space."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from maabo_dist.cluster.store import FileStore
from maabo_dist.contract.job import JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from scheduler.ledger.tenants import DatasetRow
from tests import servers
from tests.cluster import ask
from tests.faults.world import table

pytestmark = pytest.mark.xdist_group("faults")

QUICK = {"preset": "paper", "trees": 30, "batch": 8, "seed": 1}


def cache_of(world):
    return Path(world.settings.cache_dir)


def stored_table(world):
    return Path(world.settings.store_url.removeprefix("file://")) / "columns" / table().fingerprint


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def start_new_worker(world):
    """Start a worker that has not mapped the table yet."""
    world.first_worker = world.worker()


@pytest.mark.slow
def test_a_table_that_is_missing_in_store_and_cache_is_restored(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    stored_table(world).unlink()
    shutil.rmtree(cache_of(world))
    start_new_worker(world)

    world.check_done(job)
    assert stored_table(world).exists()


def upload(world, tmp_path, rows):
    """Store a file as the API does; return its job document and the digest of its rules."""
    path = tmp_path / "table.csv"
    frame, settings = load_bundled("breast_cancer")
    frame = frame[:rows]
    frame.to_csv(path, index=False)
    digest, identifier = sha256(path.read_bytes()).hexdigest(), uuid4().hex
    FileStore(world.settings.store_url).put(f"tables/{digest}", path)
    size = {"size": path.stat().st_size, "rows": len(frame), "columns": len(frame.columns)}
    row = DatasetRow(identifier, "default", "table.csv", digest, "csv", **size, description={}, created=1.0)
    world.ledger.datasets.add(row)
    columns = prepare(read_table(path), settings).columns
    dataset = {"fingerprint": columns.fingerprint, "settings": settings.model_dump(mode="json")}
    document = {"id": uuid4().hex, "dataset": dataset, "dataset_id": identifier, "settings": QUICK}
    result = mine(columns, MiningSettings.parse(QUICK))
    assert result.rules
    return document, result.digest


def test_columns_that_have_vanished_are_prepared_again_from_the_uploaded_file(world, tmp_path):
    """The job failed with "Submit the table again" although the file was there."""
    document, digest = upload(world, tmp_path, 500)
    ask(world.settings, "submit", document["id"], document=document)

    world.check_done(document["id"], digest=digest)
    assert "prepared again" in world.first_scheduler.log


def test_a_job_fails_with_a_reason_if_columns_and_uploaded_file_have_vanished(world, tmp_path):
    document, _ = upload(world, tmp_path, 400)
    shutil.rmtree(stored_table(world).parent.parent / "tables")
    ask(world.settings, "submit", document["id"], document=document)

    row = world.ended(document["id"])
    assert row.state is JobState.FAILED
    assert "Submit the table again" in row.reason


@pytest.mark.soak
def test_a_table_damaged_in_the_store_is_restored(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    damage(stored_table(world))
    shutil.rmtree(cache_of(world))
    start_new_worker(world)

    world.check_done(job)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["columns", "training"])
def test_a_table_damaged_in_the_cache_is_fetched_again(world, kind):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    for path in cache_of(world).glob(f"*.{kind}"):
        damage(path)
    start_new_worker(world)

    world.check_done(job)


@pytest.mark.soak
def test_workers_that_fetch_a_table_at_the_same_time_share_it(world):
    world.first_worker.end()
    shutil.rmtree(cache_of(world))
    for worker in [world.worker(wait=False) for _ in range(2)]:
        worker.ready(" ready.")
    job = world.submit()

    world.check_done(job)
    assert len(list(cache_of(world).glob("*.columns"))) == 1
    assert not list(cache_of(world).glob("*.tmp"))


def test_trees_that_are_missing_in_the_store_are_restored(world):
    job = world.submit()
    trees = stored_table(world).parent.parent / "trees"
    world.under_way(job)
    servers.wait_for(lambda: world.row(job).segments, 20, what="trees in the store")
    for path in (*trees.glob("[!.]*"), *cache_of(world).glob("*.segment")):
        path.unlink(missing_ok=True)

    world.check_done(job)


@contextmanager
def small_disk(path, size):
    """Mount a file system of this size, which needs root."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path]
    if os.getuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.soak
def test_a_full_cache_is_reported_and_used_again_once_there_is_space(new_world, tmp_path):
    world = new_world(stuck_seconds=4)
    world.scheduler()
    with small_disk(tmp_path / "small", "32k") as small:
        world.worker(cache_dir=str(small))
        failed = world.ended(world.submit())
        job = world.submit()
        servers.wait_for(lambda: world.row(job) is not None, 10)
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)

        world.check_done(job)
    assert failed.state is JobState.FAILED
    assert failed.reason.startswith("No worker could begin: ")
    assert "No space left" in failed.reason
