"""The artifact store: one contract, every implementation."""

import pytest

from maabo_dist.errors import SettingsError
from maabo_dist.store import FileStore, MemoryStore, MissingArtifactError, StoreError, collect_garbage

NAME, OTHER = "columns/" + "a" * 64, "trees/" + "b" * 64


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else FileStore(f"file://{tmp_path}/store")


def a_file(tmp_path, content=b"content"):
    path = tmp_path / "source"
    path.write_bytes(content)
    return path


def test_what_was_put_is_got(store, tmp_path):
    store.put(NAME, a_file(tmp_path))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"content"


def test_a_name_is_written_once(store, tmp_path):
    store.put(NAME, a_file(tmp_path, b"first"))
    store.put(NAME, a_file(tmp_path, b"second"))

    store.get(NAME, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == b"first"


def test_what_is_not_there_is_said(store, tmp_path):
    with pytest.raises(MissingArtifactError, match=NAME):
        store.get(NAME, tmp_path / "target")

    assert not store.has(NAME)


def test_deleting_twice_is_no_error(store, tmp_path):
    store.put(NAME, a_file(tmp_path))

    store.delete(NAME)
    store.delete(NAME)

    assert not store.has(NAME)


@pytest.mark.parametrize("name", ["../secret", "columns/../x", "columns/" + "A" * 64, "", "/etc/passwd", "columns/a"])
def test_a_name_that_is_not_one_never_becomes_a_path(store, tmp_path, name):
    with pytest.raises(SettingsError, match="is not the name of an artifact"):
        store.put(name, a_file(tmp_path))


def test_garbage_is_what_is_old_and_unreferenced(store, tmp_path):
    store.put(NAME, a_file(tmp_path))
    store.put(OTHER, a_file(tmp_path))
    now = max(item.modified for item in store.list())

    early = collect_garbage(store, {NAME}, older_than=60, now=now + 30)
    late = collect_garbage(store, {NAME}, older_than=60, now=now + 90)

    assert (early, late) == ([], [OTHER])
    assert [item.name for item in store.list()] == [NAME]


def test_a_write_that_fails_leaves_nothing(tmp_path):
    store = FileStore(f"file://{tmp_path}/store")

    with pytest.raises(StoreError):
        store.put(NAME, tmp_path / "missing")

    assert list(store.list()) == []
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def test_an_unknown_scheme_is_refused():
    with pytest.raises(SettingsError, match="nowhere://x"):
        FileStore("nowhere://x")
