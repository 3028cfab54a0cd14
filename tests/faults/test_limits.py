"""A Redis without memory, a full disk under the ledger, and a ledger that is truncated or restored from a backup."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import servers
from tests.faults.test_tables import small_disk
from tests.faults.world import World

pytestmark = pytest.mark.xdist_group("faults")


@pytest.mark.soak
def test_a_redis_without_memory_only_delays_a_job(world):
    job = world.submit()
    world.under_way(job)
    world.client.config_set("maxmemory", 1)
    time.sleep(3)
    world.client.config_set("maxmemory", 0)

    with suppress(subprocess.TimeoutExpired):  # a worker that cannot acknowledge may end
        world.first_worker.exit_code(8)
    world.revive()  # as a supervisor does
    world.check_done(job)
    assert "outage; trying again" in world.first_scheduler.log


@pytest.mark.soak
def test_a_full_disk_under_the_ledger_only_delays_a_job(world, tmp_path):
    world.first_scheduler.signal(signal.SIGTERM)
    with small_disk(tmp_path / "small", "32m") as small:
        scheduler = world.scheduler(ledger_url=f"sqlite:///{small}/ledger.db")
        own = _with_ledger(world, f"sqlite:///{small}/ledger.db")
        job = own.submit()
        own.under_way(job)
        filler = small / "filler"
        _fill(filler)
        servers.wait_for(lambda: "database or disk is full" in scheduler.log, 20, what="an error about the full disk")
        filler.unlink()

        own.check_done(job)
        own.ledger.close()
        assert scheduler.alive
        scheduler.end()


def test_a_truncated_ledger_has_a_clear_error(new_world):
    world = new_world()
    _close_ledger(world)
    path = _ledger_path(world)
    os.truncate(path, path.stat().st_size // 2)
    scheduler = world.scheduler(wait=False)

    assert scheduler.exit_code(30) == 2
    assert "scheduler: The ledger" in scheduler.log
    assert "Traceback" not in scheduler.log


@pytest.mark.soak
def test_a_job_continues_from_a_ledger_restored_from_a_backup(world, tmp_path):
    job = world.submit()
    world.under_way(job)
    backup = tmp_path / "backup.db"
    with sqlite3.connect(_ledger_path(world)) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    world.under_way(job, trees=1500)
    world.first_scheduler.signal(signal.SIGTERM)
    assert world.first_scheduler.exit_code(15) == 0
    _close_ledger(world)
    backup.replace(_ledger_path(world))
    world.ledger = type(world.ledger)(world.settings.ledger_url)
    world.scheduler()

    world.check_done(job)


def _ledger_path(world):
    return Path(world.settings.ledger_url.removeprefix("sqlite:///"))


def _close_ledger(world):
    """Close the ledger, and write SQLite's journal files into it."""
    world.ledger.close()
    with sqlite3.connect(_ledger_path(world)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm"):
        Path(f"{_ledger_path(world)}{suffix}").unlink(missing_ok=True)


def _with_ledger(world, ledger_url):
    """Return the same cluster with another ledger."""
    other = object.__new__(World)
    other.__dict__ |= world.__dict__
    other.settings = world.settings.model_copy(update={"ledger_url": ledger_url})
    other.ledger = type(world.ledger)(ledger_url)
    return other


def _fill(path):
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
