"""Two stores one after the other, and the stores that addresses open."""

import pytest
import redis

from maabo_dist.cluster.redis_store import LIFETIME, FallbackStore, RedisStore, open_store
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import StoreError
from maabo_dist.errors import SettingsError
from tests.memory_store import MemoryStore
from tests.store.artifacts import KEY, NAME, OTHER, a_file, unreachable


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
