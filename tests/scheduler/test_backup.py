"""Jobs are saved to files from one ledger and store, and restored into others."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest

from maabo_dist.cluster.store import FileStore
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import FormatError, InputError, MaaboError
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from scheduler.ledger.backup import back_up, restore
from scheduler.ledger.search import BatchRow, ResultRow
from tests import factories, servers
from tests.cluster import a_scheduler, cluster_settings, ended, some_trees, submit
from tests.ledgers import opened


@pytest.fixture
def columns():
    return factories.make_clear(np.random.default_rng(2), 200, 8)


@pytest.fixture
def source(sqlite_url, tmp_path, columns):
    """A ledger and a store with a job in the middle of its search."""
    store = FileStore(f"file://{tmp_path}/store")
    columns.save(tmp_path / "table")
    store.put(f"columns/{columns.fingerprint}", tmp_path / "table")
    job = uuid4().hex
    spec = {"id": job, "dataset": {"fingerprint": columns.fingerprint}, "correlation": "it's mine 😀"}
    with opened(sqlite_url) as ledger:
        ledger.jobs.add([JobSpec.model_validate(spec)], 5.0)
        (lease,) = ledger.leases.acquire("one", 6.0, 60, 1)
        batches = [BatchRow(number, bytes([number % 256, 255])) for number in range(1200)]
        results = [ResultRow(number, 0, 1, bytes([0, number % 256])) for number in range(1100)]
        ledger.search.write(lease, 7.0, new_batches=batches, new_results=results)
        yield SimpleNamespace(ledger=ledger, store=store, job=job, file=tmp_path / "job.tar", path=tmp_path)


@pytest.fixture
def destination(tmp_path):
    with opened(f"sqlite:///{tmp_path}/other.db") as ledger:
        yield SimpleNamespace(ledger=ledger, store=FileStore(f"file://{tmp_path}/other"))


@pytest.fixture
def postgres_ledger(postgres_url):
    with opened(postgres_url) as ledger:
        yield ledger


def rows_in(path):
    """Return the rows of a backup, without lease columns."""
    with tarfile.open(path) as archive:
        lines = [line for member in archive if "ledger/" in member.name for line in archive.extractfile(member)]
    return sorted(json.dumps({**json.loads(line), "owner": None, "lease_until": 0}, sort_keys=True) for line in lines)


def rows_of(ledger, job):
    row = ledger.jobs.get(job)
    return (replace(row, fence=0), [*ledger.search.batches(job)], [*ledger.search.results(job)])


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_job_is_restored_as_it_was_with_its_table(source, destination, kind, request):
    if kind == "postgresql":
        destination.ledger = request.getfixturevalue("postgres_ledger")
    summary = back_up(source.ledger, source.store, [source.job, source.job], source.file)
    assert restore(destination.ledger, destination.store, source.file, source.path) == summary
    again = back_up(destination.ledger, destination.store, [source.job], source.path / "again.tar")

    assert (again, rows_in(source.path / "again.tar")) == (summary, rows_in(source.file))
    assert (summary.jobs, summary.artifacts, summary.rows) == ((source.job,), 1, 2301)
    assert rows_of(destination.ledger, source.job) == rows_of(source.ledger, source.job)
    assert {item.name for item in destination.store.list()} == {item.name for item in source.store.list()}
    leases = destination.ledger.leases.acquire("two", 8.0, 60, 5)  # the job is free immediately
    assert [lease.job for lease in leases] == [source.job]
    assert source.file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in source.path.glob(".*")] == []


def test_existing_jobs_and_files_are_not_overwritten(source, destination):
    back_up(source.ledger, source.store, [source.job], source.file)
    with pytest.raises(InputError, match=f"already has job {source.job}"):
        restore(source.ledger, source.store, source.file, source.path)
    with pytest.raises(InputError, match="has no job 'none'"):
        back_up(source.ledger, source.store, ["none"], source.path / "other.tar")

    assert not (source.path / "other.tar").exists()
    assert destination.ledger.jobs.get(source.job) is None


def change_member(archive_path, name, change):
    """Return the same archive with the content of one member changed."""
    target = archive_path.with_name("changed.tar")
    with tarfile.open(archive_path) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = old.extractfile(member).read()
            if name in member.name:
                content, member.name = change(content, member.name)
                member.size = len(content)
            path = archive_path.with_name("member")
            path.write_bytes(content)
            with path.open("rb") as file:
                new.addfile(member, file)
    return target


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "columns/",
            lambda content, name: (content[:-1] + bytes([content[-1] ^ 1]), name),
            "damaged|checksum|does not",
        ),
        ("columns/", lambda content, _: (content, "store/../../etc/passwd"), "not the name of an artifact"),
        ("maabo_results", lambda _, name: (b'{"job": 1, "evil": 2}\n', name), "unknown column 'evil'"),
        ("maabo_results", lambda _, name: (b"\x80pickle\n", name), "is invalid"),
        ("maabo_jobs", lambda content, name: (content.replace(b'"queued"', b'"walking"'), name), "another version"),
        (
            "maabo_results",
            lambda content, _: (content, "ledger/another/maabo_results"),
            "does not belong to any of its jobs",
        ),
        ("backup.json", lambda _, name: (b'{"format": "maabo-backup/9", "ledger": 9, "jobs": []}', name), "newer"),
        ("backup.json", lambda _, name: (b"[]", name), "is invalid"),
        ("backup.json", lambda content, _: (content, "something"), "not a backup"),
    ],
)
def test_an_invalid_backup_changes_no_ledger(source, destination, name, change, message):
    back_up(source.ledger, source.store, [source.job], source.file)
    with pytest.raises(MaaboError, match=message):
        restore(destination.ledger, destination.store, change_member(source.file, name, change), source.path)

    assert destination.ledger.jobs.get(source.job) is None


def test_a_truncated_backup_is_refused(source, destination):
    back_up(source.ledger, source.store, [source.job], source.file)
    whole = source.file.read_bytes()
    for size in (0, 100, 5000, len(whole) // 2):
        source.file.write_bytes(whole[:size])
        with pytest.raises((FormatError, InputError)):
            restore(destination.ledger, destination.store, source.file, source.path)

    assert destination.ledger.jobs.get(source.job) is None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, task_seconds=0.1)
        with servers.worker(settings, directory, "-P", "threads", "-c", "1"):
            yield settings


def command(settings, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        cwd=servers.ROOT,
        env=os.environ | settings.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_job_backed_up_during_its_search_ends_elsewhere_with_the_same_digest(cluster, columns, tmp_path):
    mining = {"trees": 56, "batch": 1, "seed": 5, "min_samples": 5}
    expected = mine(columns, MiningSettings.parse(mining)).digest
    with a_scheduler(cluster, "first") as ledger:
        job = submit(cluster, tmp_path, columns, **mining)
        some_trees(ledger, job, 5)
    saved = command(cluster, "backup", job, "--to", str(tmp_path / "job.tar"))
    shutil.rmtree(Path(cluster.store_url.removeprefix("file://")))
    other = cluster.model_copy(update={"ledger_url": f"sqlite:///{tmp_path}/other.db"})
    restored = command(other, "restore", str(tmp_path / "job.tar"))

    assert (saved.returncode, restored.returncode) == (0, 0), saved.stderr + restored.stderr
    assert saved.stdout.startswith("Wrote 1 job: ")
    assert restored.stdout.startswith("Restored 1 job: ")
    with a_scheduler(other, "second") as ledger:
        assert 5 <= ledger.jobs.get(job).trees < 56
        row = ended(ledger, job)
    assert (row.state, row.digest) == (JobState.DONE, expected)
    wrong = command(other, "restore", str(tmp_path / "table"))
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False)
    assert json.dumps("table") not in wrong.stderr
