"""The artifact store: one contract, every implementation."""

import errno
import json
import os
import threading
import time
from contextlib import suppress

import fsspec
import pytest
import redis

from maabo_dist.cluster.redis_store import CHUNK_BYTES, LIFETIME, FallbackStore, RedisStore, open_store
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import ABANDONED_SECONDS, FileStore, MissingArtifactError, StoreError, collect_garbage
from maabo_dist.errors import SettingsError
from tests.memory_store import MemoryStore
from tests.servers import free_port, redis_server

NAME, OTHER = "columns/" + "a" * 64, "trees/" + "b" * 64
KEY = f"test:maabo:artifact:{NAME}"
THREE_CHUNKS = bytes(range(256)) * 10_000  # 2.4 MiB
KINDS = ["memory", "directory", "bucket", "redis", "fallback"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server) as client:
        client.flushall()
        yield client


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


def a_file(tmp_path, content=b"content"):
    path = tmp_path / "source"
    path.write_bytes(content)
    return path


def test_a_stored_artifact_is_returned_unchanged(store, tmp_path):
    store.put(NAME, a_file(tmp_path))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"content"


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


def test_temporary_files_of_killed_writers_are_removed_by_the_next_write(tmp_path):
    store = FileStore(f"file://{tmp_path}/store")
    store.put(OTHER.replace("trees", "columns"), a_file(tmp_path))
    old, young = (tmp_path / "store" / "columns" / f".{age}.tmp" for age in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - ABANDONED_SECONDS - 60))

    store.put(NAME, a_file(tmp_path))

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


def test_a_reader_sees_all_or_nothing_during_a_write(client, tmp_path):
    store, source, target = RedisStore(client, "test:"), a_file(tmp_path, THREE_CHUNKS), tmp_path / "target"
    seen = set()

    def write():
        for _ in range(20):
            store.delete(NAME)
            store.put(NAME, source)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive() or not seen:
        with suppress(MissingArtifactError):
            store.get(NAME, target)
            seen.add(target.read_bytes())
    thread.join()

    assert seen == {THREE_CHUNKS}


def test_a_writer_that_dies_leaves_nothing_visible(client, tmp_path):
    store = RedisStore(FailingClient(client), "test:")

    with pytest.raises(StoreError):
        store.put(NAME, a_file(tmp_path, THREE_CHUNKS))

    assert client.exists(f"{KEY}:0")
    assert not store.has(NAME)
    assert list(store.list()) == []


class FailingClient:
    """A client whose connection fails before the second chunk."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def set(self, key, *rest, **more):
        if key.endswith(":1"):
            raise redis.ConnectionError("gone")
        return self._client.set(key, *rest, **more)


def test_every_key_expires(client, tmp_path):
    RedisStore(client, "test:", lifetime=1000).put(NAME, a_file(tmp_path, THREE_CHUNKS))

    left = {key.decode(): client.ttl(key) for key in client.scan_iter()}

    assert sorted(left) == [KEY, f"{KEY}:0", f"{KEY}:1", f"{KEY}:2"]
    assert all(990 <= seconds <= 1000 for seconds in left.values())


def test_putting_again_renews_every_expiry(client, tmp_path):
    RedisStore(client, "test:", lifetime=1000).put(NAME, a_file(tmp_path, THREE_CHUNKS))

    RedisStore(client, "test:", lifetime=5000).put(NAME, a_file(tmp_path, THREE_CHUNKS))

    assert all(client.ttl(key) > 4900 for key in client.scan_iter())


def test_a_damaged_chunk_is_reported_and_leaves_no_file(client, tmp_path):
    store = RedisStore(client, "test:")
    store.put(NAME, a_file(tmp_path, THREE_CHUNKS))
    client.setrange(f"{KEY}:1", 5, b"!")

    with pytest.raises(StoreError, match="damaged: its content does not match its SHA-256"):
        store.get(NAME, tmp_path / "target")

    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_truncated_chunk_is_reported(client, tmp_path):
    store = RedisStore(client, "test:")
    store.put(NAME, a_file(tmp_path, THREE_CHUNKS))
    client.set(f"{KEY}:2", b"short")

    with pytest.raises(StoreError, match=r"damaged: it has 2,097,157 bytes, 2,560,000 were written"):
        store.get(NAME, tmp_path / "target")

    assert not (tmp_path / "target").exists()


def test_a_missing_chunk_makes_the_artifact_missing_until_it_is_put_again(client, tmp_path):
    store = RedisStore(client, "test:")
    store.put(NAME, a_file(tmp_path, THREE_CHUNKS))
    client.delete(f"{KEY}:1")

    with pytest.raises(MissingArtifactError, match="chunk 2 of 3 expired or was evicted"):
        store.get(NAME, tmp_path / "target")
    missing = not store.has(NAME)
    store.put(NAME, a_file(tmp_path, THREE_CHUNKS))
    store.get(NAME, tmp_path / "target")

    assert missing
    assert (tmp_path / "target").read_bytes() == THREE_CHUNKS


@pytest.mark.parametrize("head", [b"{", b"[]", b"\xff", json.dumps({"size": 1, "chunks": 10**9}).encode()])
def test_an_invalid_head_is_treated_as_missing(client, tmp_path, head):
    store = RedisStore(client, "test:")
    client.set(KEY, head)

    before = store.has(NAME), list(store.list())
    store.put(NAME, a_file(tmp_path))

    assert before == (False, [])
    assert store.has(NAME)


def test_a_file_too_large_for_redis_is_rejected_with_the_remedy(client, tmp_path):
    store = RedisStore(client, "test:", limit=1000)

    with pytest.raises(SettingsError, match=r"has 1,001 bytes; Redis takes up to 1,000\. Set MAABO_STORE to"):
        store.put(NAME, a_file(tmp_path, b"x" * 1001))

    assert client.keys() == []


def test_a_full_redis_is_reported_and_its_memory_freed(client, tmp_path):
    store = RedisStore(client, "test:")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + (2 << 20))
    try:
        with pytest.raises(StoreError, match="maxmemory"):
            store.put(NAME, a_file(tmp_path, bytes(20 << 20)))
    finally:
        client.config_set("maxmemory", 0)

    assert client.keys() == []


def test_clusters_that_share_a_redis_do_not_see_each_other(client, tmp_path):
    first, second = RedisStore(client, ""), RedisStore(client, "other:")
    first.put(NAME, a_file(tmp_path))
    second.put(OTHER, a_file(tmp_path))

    names = [[item.name for item in store.list()] for store in (first, second)]

    assert names == [[NAME], [OTHER]]
    assert not first.has(OTHER)


def unreachable():
    """A store whose Redis is unreachable."""
    return RedisStore(redis.Redis(port=free_port(), retry=None), "test:")


@pytest.mark.parametrize(
    "act",
    [
        lambda store, path: store.has(NAME),
        lambda store, path: store.put(NAME, path),
        lambda store, path: store.get(NAME, path),
        lambda store, path: store.delete(NAME),
        lambda store, path: list(store.list()),
    ],
    ids=["has", "put", "get", "delete", "list"],
)
def test_an_unreachable_redis_is_a_store_error(act, tmp_path):
    with pytest.raises(StoreError, match="The artifact store in Redis failed: Error 111") as error:
        act(unreachable(), a_file(tmp_path))

    assert not isinstance(error.value, MissingArtifactError)


def test_artifacts_missing_in_the_first_store_come_from_the_second(tmp_path):
    first, second = MemoryStore(), MemoryStore()
    second.put(NAME, a_file(tmp_path))
    store = FallbackStore(first, second)

    store.get(NAME, tmp_path / "target")

    assert store.has(NAME)
    assert (tmp_path / "target").read_bytes() == b"content"


def test_a_failing_first_store_is_skipped_if_the_second_has_the_artifact(tmp_path):
    second = MemoryStore()
    second.put(NAME, a_file(tmp_path))
    store = FallbackStore(unreachable(), second)

    store.get(NAME, tmp_path / "target")

    assert store.has(NAME)
    assert (tmp_path / "target").read_bytes() == b"content"


@pytest.mark.parametrize(
    "stores", [(unreachable(), MemoryStore()), (MemoryStore(), unreachable())], ids=["first", "second"]
)
def test_a_store_that_fails_never_makes_an_artifact_missing(stores, tmp_path):
    store = FallbackStore(*stores)

    with pytest.raises(StoreError, match="Redis failed"):
        store.get(NAME, tmp_path / "target")
    with pytest.raises(StoreError, match="Redis failed"):
        store.has(NAME)

    assert not (tmp_path / "target").exists()


def test_artifacts_are_put_into_the_first_store_and_deleted_from_both(tmp_path):
    first, second = MemoryStore(), MemoryStore()
    store = FallbackStore(first, second)
    second.put(NAME, a_file(tmp_path))
    second.put(OTHER, a_file(tmp_path))

    store.put(NAME, a_file(tmp_path))
    listed = [(item.name, item.modified) for item in store.list()]
    store.delete(NAME)

    assert listed == [(NAME, listed[0][1]), (OTHER, listed[1][1])]
    assert listed[0][1] >= listed[1][1]
    assert (first.has(NAME), second.has(NAME), second.has(OTHER)) == (False, False, True)


@pytest.mark.parametrize("url", ["redis", "redis:", "redis://"])
def test_redis_without_a_host_means_the_clusters_own(client, tmp_path, url):
    store = open_store(ClusterSettings(store_url=url, prefix="test:"), client)

    store.put(NAME, a_file(tmp_path))

    assert client.ttl(KEY) > LIFETIME - 100


def test_another_redis_has_its_own_connection(client, server, tmp_path):
    other = server.replace("/0", "/1")
    RedisStore(client, "test:").put(OTHER, a_file(tmp_path))
    store = open_store(ClusterSettings(store_url=other, prefix="test:", retention=2 * LIFETIME), client)

    store.put(NAME, a_file(tmp_path))

    with redis.Redis.from_url(other) as second:
        assert second.ttl(KEY) > 2 * LIFETIME - 100
    assert (store.has(NAME), store.has(OTHER), client.exists(KEY)) == (True, True, 0)


def test_a_directory_is_read_before_redis(client, tmp_path):
    store = open_store(ClusterSettings(store_url=f"file://{tmp_path}/store", prefix="test:"), client)
    RedisStore(client, "test:").put(OTHER, a_file(tmp_path))

    store.put(NAME, a_file(tmp_path))

    assert (tmp_path / "store" / NAME).exists()
    assert {item.name for item in store.list()} == {NAME, OTHER}


@pytest.mark.parametrize("url", ["rediss://", "redis:///1", "redis://:secret@", "redis://user:sec/ret@host:1/0"])
def test_an_invalid_store_address_is_rejected_without_its_password(client, url):
    with pytest.raises(SettingsError, match="MAABO_STORE is not a Redis URL") as error:
        open_store(ClusterSettings(store_url=url), client)

    assert "sec" not in str(error.value)
