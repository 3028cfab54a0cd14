"""The artifact store: one contract, every implementation."""

import errno
import os
import time

import fsspec
import pytest

from maabo_dist.cluster.redis_store import CHUNK_BYTES, FallbackStore, RedisStore
from maabo_dist.cluster.store import ABANDONED_SECONDS, FileStore, MissingArtifactError, StoreError, collect_garbage
from maabo_dist.errors import SettingsError
from tests.memory_store import MemoryStore
from tests.store.artifacts import NAME, OTHER, THREE_CHUNKS, a_file

KINDS = ["memory", "directory", "bucket", "redis", "fallback"]


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    match request.param:
        case "memory":
            return MemoryStore()
        case "directory":
            return FileStore(f"file://{tmp_path}/store")
        case "bucket":
            return a_bucket()
        case "redis":
            return RedisStore(request.getfixturevalue("client"), "test:")
        case _:
            return FallbackStore(
                FileStore(f"file://{tmp_path}/store"), RedisStore(request.getfixturevalue("client"), "test:")
            )


def a_bucket():
    """A bucket in fsspec's in-memory file system, whose content outlives a test."""
    store = FileStore("memory://bucket")
    for item in store.list():
        store.delete(item.name)
    return store


def test_a_stored_artifact_is_returned_unchanged(store, tmp_path):
    store.put(NAME, a_file(tmp_path))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"content"


@pytest.mark.parametrize("content", [b"", b"one", THREE_CHUNKS], ids=["empty", "small", "large"])
def test_bytes_are_stored_like_a_file(store, tmp_path, content):
    store.put_bytes(NAME, content)
    store.put_bytes(NAME, b"other")  # written once
    store.get(NAME, tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == content
    assert [(item.name, item.size) for item in store.list()] == [(NAME, len(content))]


def test_a_name_is_written_once(store, tmp_path):
    store.put(NAME, a_file(tmp_path, b"first"))
    store.put(NAME, a_file(tmp_path, b"second"))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"first"


def test_a_missing_artifact_is_reported(store, tmp_path):
    with pytest.raises(MissingArtifactError, match=NAME):
        store.get(NAME, tmp_path / "target")

    assert not store.has(NAME)


def test_deleting_twice_is_not_an_error(store, tmp_path):
    store.put(NAME, a_file(tmp_path))

    store.delete(NAME)
    store.delete(NAME)

    assert not store.has(NAME)


@pytest.mark.parametrize("name", ["../secret", "columns/../x", "columns/" + "A" * 64, "", "/etc/passwd", "columns/a"])
def test_an_invalid_name_never_becomes_a_path(store, tmp_path, name):
    with pytest.raises(SettingsError, match="is not the name of an artifact"):
        store.put(name, a_file(tmp_path))


def test_old_unreferenced_artifacts_are_garbage(store, tmp_path):
    store.put(NAME, a_file(tmp_path))
    store.put(OTHER, a_file(tmp_path))
    now = max(item.modified for item in store.list())

    early = collect_garbage(store, {NAME}, older_than=60, now=now + 30)
    late = collect_garbage(store, {NAME}, older_than=60, now=now + 90)

    assert (early, late) == ([], [OTHER])
    assert [item.name for item in store.list()] == [NAME]


def test_putting_an_existing_artifact_renews_its_age(store, tmp_path, monkeypatch):
    monkeypatch.setattr("maabo_dist.cluster.store.RENEWAL_SECONDS", 0.0)
    store.put(NAME, a_file(tmp_path))
    before = [item.modified for item in store.list()]
    time.sleep(0.05)

    store.put(NAME, a_file(tmp_path))

    after = [item.modified for item in store.list()]
    assert len(before) == len(after) == 1
    assert after > before


@pytest.mark.parametrize("content", [b"", b"x" * CHUNK_BYTES, THREE_CHUNKS], ids=["empty", "one chunk", "more"])
def test_artifacts_of_every_size_are_returned_whole(store, tmp_path, content):
    store.put(NAME, a_file(tmp_path, content))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == content
    assert [(item.name, item.size) for item in store.list()] == [(NAME, len(content))]


def test_a_read_that_fails_leaves_the_target_as_it_was(store, tmp_path, monkeypatch):
    store.put(NAME, a_file(tmp_path))
    (tmp_path / "target").write_bytes(b"before")
    monkeypatch.setattr("os.fsync", disk_full)

    with pytest.raises((StoreError, OSError)):
        store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"before"
    assert not list(tmp_path.glob(".*"))


def disk_full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_write_that_fails_leaves_nothing(tmp_path):
    store = FileStore(f"file://{tmp_path}/store")

    with pytest.raises(StoreError):
        store.put(NAME, tmp_path / "missing")

    assert list(store.list()) == []
    assert files_below(tmp_path / "store") == []


def files_below(directory):
    return [path for path in directory.rglob("*") if path.is_file()]


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch):
    def half(reading, writing, size):
        writing.write(reading.read(3))
        disk_full()

    store = FileStore(f"file://{tmp_path}/store")
    monkeypatch.setattr("shutil.copyfileobj", half)

    with pytest.raises(StoreError, match="No space left"):
        store.put(NAME, a_file(tmp_path))

    assert not store.has(NAME)
    assert files_below(tmp_path / "store") == []


def test_a_file_and_the_directories_that_name_it_are_flushed(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("os.fsync", lambda number: flushed.append(os.fstat(number).st_ino))
    root = tmp_path / "store"

    FileStore(f"file://{root}").put(NAME, a_file(tmp_path))

    assert flushed == [path.stat().st_ino for path in (tmp_path, root, root / NAME, root / "columns")]


def test_temporary_files_of_killed_writers_are_removed_by_the_next_process_that_writes(tmp_path):
    store = FileStore(f"file://{tmp_path}/store")
    store.put(OTHER.replace("trees", "columns"), a_file(tmp_path))
    old, young = (tmp_path / "store" / "columns" / f".{age}.tmp" for age in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - ABANDONED_SECONDS - 60))

    FileStore(f"file://{tmp_path}/store").put(NAME, a_file(tmp_path))

    assert (old.exists(), young.exists()) == (False, True)


def test_a_store_that_cannot_be_read_is_not_an_empty_one(tmp_path):
    (tmp_path / "store").write_bytes(b"a file where a directory should be")
    store = FileStore(f"file://{tmp_path}/store")

    with pytest.raises(StoreError, match="Not a directory") as error:
        store.get(NAME, tmp_path / "target")

    assert not isinstance(error.value, MissingArtifactError)


def test_a_bucket_is_opened_again_after_a_fork(monkeypatch):
    store, opened, url_to_fs = a_bucket(), [], fsspec.core.url_to_fs
    monkeypatch.setattr(
        "fsspec.core.url_to_fs", lambda *args, **options: opened.append(1) or url_to_fs(*args, **options)
    )
    assert list(store.list()) == []
    assert opened == []

    monkeypatch.setattr("os.getpid", lambda: -1)
    for _ in range(2):
        assert list(store.list()) == []

    assert len(opened) == 1


def test_an_unknown_scheme_is_rejected():
    with pytest.raises(SettingsError, match="nowhere://x"):
        FileStore("nowhere://x")
