"""Row 12: a table that is missing, damaged or fetched by many at once; a cache without room."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from maabo_dist.contract.job import JobState
from tests import servers
from tests.faults.world import table

pytestmark = pytest.mark.xdist_group("faults")


def cache_of(world):
    return Path(world.settings.cache_dir)


def stored_table(world):
    return Path(world.settings.store_url.removeprefix("file://")) / "columns" / table().fingerprint


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def other_worker(world):
    """The one that has the table mapped goes; one that has to look for it comes."""
    world.first_worker = world.worker()


@pytest.mark.slow
def test_a_table_that_is_gone_from_store_and_cache_is_put_there_again(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    stored_table(world).unlink()
    shutil.rmtree(cache_of(world))
    other_worker(world)

    world.check_done(job)
    assert stored_table(world).exists()


@pytest.mark.soak
def test_a_table_damaged_in_the_store_is_put_there_again(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    damage(stored_table(world))
    shutil.rmtree(cache_of(world))
    other_worker(world)

    world.check_done(job)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["columns", "training"])
def test_a_table_damaged_in_the_cache_is_made_anew(world, kind):
    job = world.submit()
    world.under_way(job)
    world.first_worker.end()
    for path in cache_of(world).glob(f"*.{kind}"):
        damage(path)
    other_worker(world)

    world.check_done(job)


@pytest.mark.soak
def test_workers_that_fetch_a_table_at_once_share_it(world):
    world.first_worker.end()
    shutil.rmtree(cache_of(world))
    for worker in [world.worker(wait=False) for _ in range(2)]:
        worker.ready(" ready.")
    job = world.submit()

    world.check_done(job)
    assert len(list(cache_of(world).glob("*.columns"))) == 1
    assert not list(cache_of(world).glob("*.tmp"))


def test_trees_that_are_gone_from_the_store_are_put_there_again(world):
    job = world.submit()
    trees = stored_table(world).parent.parent / "trees"
    world.under_way(job)
    servers.wait_for(lambda: world.row(job).segments, 20, what="trees in the store")
    for path in (*trees.glob("[!.]*"), *cache_of(world).glob("*.segment")):
        path.unlink(missing_ok=True)

    world.check_done(job)


@contextmanager
def small_disk(path, size):
    """A file system of so many bytes; only root can make one."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path]
    if os.getuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a file system of its own needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.soak
def test_a_cache_without_room_is_said_and_used_again_when_there_is_room(new_world, tmp_path):
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
