"""Artifacts in Redis: chunks, expiry, damage, and a Redis that is full or unreachable."""

import json
import threading
from contextlib import suppress

import pytest
import redis

from maabo_dist.cluster.redis_store import RedisStore
from maabo_dist.cluster.store import MissingArtifactError, StoreError
from maabo_dist.errors import SettingsError
from tests.store.artifacts import KEY, NAME, OTHER, THREE_CHUNKS, a_file, unreachable


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
