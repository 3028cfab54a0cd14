"""The table cache of a host: tables are fetched once, verified, replaced when damaged, and evicted."""

import os
from dataclasses import fields, is_dataclass
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from maabo_dist.cluster.store import MissingArtifactError, StoreError
from maabo_dist.cluster.table_cache import OPEN_TABLES, TableCache
from maabo_dist.contract.messages import TableSplit
from maabo_dist.data.columns import add_probes
from maabo_dist.data.preparation import prepare
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study
from maabo_dist.trees.wire import write_segment
from tests import factories
from tests.memory_store import MemoryStore

SPLIT = TableSplit.of(MiningSettings(seed=1))


class CountingStore(MemoryStore):
    def __init__(self):
        super().__init__()
        self.fetched = []

    def get(self, name, target):
        self.fetched.append(name)
        super().get(name, target)


@pytest.fixture
def store():
    return CountingStore()


def stored(store, tmp_path, seed=1):
    columns = factories.make_columns(np.random.default_rng(seed), 50, 5, 2)
    columns.save(tmp_path / "table")
    store.put(f"columns/{columns.fingerprint}", tmp_path / "table")
    return columns


def a_cache(store, tmp_path, limit=1 << 30):
    return TableCache(tmp_path / "cache", store, limit, small_cells=0)


def damage(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_table_is_fetched_once_for_all_processes_of_a_host(store, tmp_path):
    columns = stored(store, tmp_path)

    tables = [a_cache(store, tmp_path).training(columns.fingerprint, SPLIT) for _ in range(3)]

    assert len(store.fetched) == 1
    assert all(np.array_equal(table.entries, tables[0].entries) for table in tables)


def test_threads_that_want_the_same_table_fetch_it_once(store, tmp_path):
    columns = stored(store, tmp_path)
    caches = [a_cache(store, tmp_path) for _ in range(6)]
    threads = [Thread(target=cache.training, args=(columns.fingerprint, SPLIT)) for cache in caches]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(store.fetched) == 1


def test_a_damaged_table_in_the_cache_is_fetched_again(store, tmp_path):
    columns = stored(store, tmp_path)
    a_cache(store, tmp_path).columns(columns.fingerprint)
    damage(tmp_path / "cache" / f"{columns.fingerprint}.columns")

    cached = a_cache(store, tmp_path).columns(columns.fingerprint)

    assert cached.fingerprint == columns.fingerprint
    assert len(store.fetched) == 2


def test_a_damaged_layout_in_the_cache_is_recreated(store, tmp_path):
    columns = stored(store, tmp_path)
    expected = a_cache(store, tmp_path).training(columns.fingerprint, SPLIT).entries.copy()
    (path,) = (tmp_path / "cache").glob("*.training")
    damage(path)

    cached = a_cache(store, tmp_path).training(columns.fingerprint, SPLIT)

    assert np.array_equal(cached.entries, expected)


def test_bits_for_screens_are_made_once_per_host_and_again_when_damaged(store, tmp_path):
    columns = stored(store, tmp_path)
    first = a_cache(store, tmp_path).bits(columns.fingerprint, SPLIT)
    expected = first.bits.copy()
    (path,) = (tmp_path / "cache").glob("*.bits")
    before = path.stat().st_ino

    again = a_cache(store, tmp_path).bits(columns.fingerprint, SPLIT)
    after = path.stat().st_ino
    damage(path)
    rebuilt = a_cache(store, tmp_path).bits(columns.fingerprint, SPLIT)

    assert (before == after, path.stat().st_ino != before) == (True, True)
    assert np.array_equal(again.bits, expected)
    assert np.array_equal(rebuilt.bits, expected)


def test_a_process_keeps_few_tables_of_bits_mapped(store, tmp_path):
    cache = a_cache(store, tmp_path)
    prints = [stored(store, tmp_path, seed).fingerprint for seed in range(OPEN_TABLES + 2)]
    tables = [cache.bits(fingerprint, SPLIT) for fingerprint in prints]

    latest = [cache.bits(fingerprint, SPLIT) for fingerprint in prints[2:]]

    assert all(table is again for table, again in zip(tables[2:], latest, strict=True))
    assert cache.bits(prints[0], SPLIT) is not tables[0]


def test_a_damaged_table_in_the_store_is_deleted_so_that_it_can_be_uploaded_again(store, tmp_path):
    columns = stored(store, tmp_path)
    name = f"columns/{columns.fingerprint}"
    store.delete(name)
    (tmp_path / "table").write_bytes(b"not a table")
    store.put(name, tmp_path / "table")

    with pytest.raises(StoreError, match="is damaged"):
        a_cache(store, tmp_path).columns(columns.fingerprint)

    assert not store.has(name)


def test_a_table_that_the_store_lacks_is_reported_as_missing(store, tmp_path):
    with pytest.raises(MissingArtifactError, match="columns/aaaa"):
        a_cache(store, tmp_path).columns("a" * 64)

    assert not list((tmp_path / "cache").glob("[!.]*"))


def test_the_least_recently_used_tables_are_evicted_when_the_cache_is_full(store, tmp_path):
    first, second = stored(store, tmp_path, 1), stored(store, tmp_path, 2)
    size = (tmp_path / "table").stat().st_size
    cache = a_cache(store, tmp_path, limit=int(1.5 * size))

    cache.columns(first.fingerprint)
    cache.columns(second.fingerprint)

    assert [path.stem for path in (tmp_path / "cache").glob("*.columns")] == [second.fingerprint]
    assert cache.columns(first.fingerprint).count == 5  # mapped files stay readable


def test_unused_files_of_tables_that_were_deleted_are_removed(store, tmp_path):
    deleted, used, kept, new = (stored(store, tmp_path, seed) for seed in range(4))
    cache, directory = a_cache(store, tmp_path), tmp_path / "cache"
    for columns in (deleted, used, kept):
        cache.training(columns.fingerprint, SPLIT)
    for path in [*directory.glob(f"{deleted.fingerprint}*"), *directory.glob(f"{kept.fingerprint}*")]:
        os.utime(path, (1, 1))
    for columns in (deleted, used):
        store.delete(f"columns/{columns.fingerprint}")
    assert len(list(directory.glob(f"{deleted.fingerprint}*"))) > 1

    a_cache(store, tmp_path).columns(new.fingerprint)

    fingerprints = {path.name[:64] for path in directory.glob("[!.]*")}
    assert fingerprints == {used.fingerprint, kept.fingerprint, new.fingerprint}


def test_a_segment_is_verified_when_it_is_fetched(store, tmp_path):
    digest = write_segment(tmp_path / "segment", [])
    store.put(f"trees/{digest}", tmp_path / "segment")
    store.put(f"trees/{'b' * 64}", tmp_path / "segment")

    assert a_cache(store, tmp_path).segment_file(digest).read_bytes() == (tmp_path / "segment").read_bytes()
    with pytest.raises(StoreError, match="is damaged"):
        a_cache(store, tmp_path).segment_file("b" * 64)


PROBED = TableSplit.of(MiningSettings(seed=1, probes=3, preset="paper"))


def test_a_table_with_probes_is_derived_from_the_one_in_the_store(store, tmp_path):
    columns = stored(store, tmp_path)

    cached = [a_cache(store, tmp_path).columns(columns.fingerprint, PROBED) for _ in range(2)]

    expected = add_probes(columns, 3, 1)
    assert [probed.fingerprint for probed in cached] == [expected.fingerprint] * 2
    assert store.fetched == [f"columns/{columns.fingerprint}"]
    assert a_cache(store, tmp_path).training(columns.fingerprint, PROBED).root_scores.shape == (8,)
    plain = TableSplit.of(MiningSettings(seed=1, preset="paper"))
    assert a_cache(store, tmp_path).columns(columns.fingerprint, plain).fingerprint == columns.fingerprint


def test_a_table_is_recoded_as_in_one_process(store, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90).round(1), "c": rng.choice(list("abcd"), 90)})
    frame.loc[rng.random(90) < 0.2, "x"] = None
    columns = prepare(frame.assign(y=rng.choice(["no", "yes"], 90)), TableSettings(target="y")).columns
    columns.save(tmp_path / "table")
    store.put(f"columns/{columns.fingerprint}", tmp_path / "table")
    settings = MiningSettings(seed=1, probes=2)

    cached, built = a_cache(store, tmp_path).study(columns.fingerprint, settings), Study.build(columns, settings)

    assert cached.columns.fingerprint == built.columns.fingerprint != columns.fingerprint
    assert cached.prepared.fingerprint == columns.fingerprint
    assert np.array_equal(cached.table.entries, built.table.entries)


def test_a_damaged_table_with_probes_is_recreated(store, tmp_path):
    columns = stored(store, tmp_path)
    expected = a_cache(store, tmp_path).columns(columns.fingerprint, PROBED).fingerprint
    (path,) = (tmp_path / "cache").glob("*.probed")
    damage(path)

    assert a_cache(store, tmp_path).columns(columns.fingerprint, PROBED).fingerprint == expected


def test_without_probes_the_layout_of_a_table_does_not_depend_on_the_seed_of_the_search():
    splits = {TableSplit.of(MiningSettings(seed=seed, split_seed=4)) for seed in range(3)}

    assert len(splits) == 1


def test_what_is_built_from_a_small_table_is_the_same_and_has_no_file(store, tmp_path):
    columns = stored(store, tmp_path)
    with_files = a_cache(store, tmp_path)
    in_memory = TableCache(tmp_path / "other", store, limit=1 << 30, small_cells=1000)

    for split in (SPLIT, SPLIT.model_copy(update={"probes": 2, "probe_seed": 1})):
        for kind in ("training", "bits", "columns"):
            one, other = (getattr(cache, kind)(columns.fingerprint, split) for cache in (with_files, in_memory))
            assert_same_arrays(one, other)
    assert {path.suffix for path in (tmp_path / "cache").glob("[!.]*")} == {".columns", ".probed", ".training", ".bits"}
    assert {path.suffix for path in (tmp_path / "other").glob("[!.]*")} == {".columns"}


def test_a_table_that_is_not_small_has_a_file(store, tmp_path):
    columns = stored(store, tmp_path)
    cache = TableCache(tmp_path / "cache", store, limit=1 << 30, small_cells=columns.rows * columns.count - 1)

    cache.training(columns.fingerprint, SPLIT)

    assert len(list((tmp_path / "cache").glob("*.training"))) == 1


def test_a_cache_with_room_is_not_measured_for_every_small_file(store, tmp_path, monkeypatch):
    columns = [stored(store, tmp_path, seed) for seed in range(5)]
    scans = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scans.append(path) or scandir(path))
    cache = a_cache(store, tmp_path)

    for each in columns:
        cache.training(each.fingerprint, SPLIT)

    assert len(scans) == 2  # one to measure it, and one for files of deleted tables
    assert len(list((tmp_path / "cache").glob("*.training"))) == 5


def assert_same_arrays(one, other):
    names = [field.name for field in fields(one)] if is_dataclass(one) else one._fields
    for name in names:
        values = getattr(one, name), getattr(other, name)
        if isinstance(values[0], np.ndarray):
            np.testing.assert_array_equal(*values, strict=True)
        else:
            assert values[0] == values[1]
