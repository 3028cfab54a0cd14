"""Array files: arrays round-trip, and invalid files are rejected."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from maabo_dist._util import arrayfile
from maabo_dist.errors import FormatError

any_array = arrays.arrays(
    st.sampled_from(sorted(arrayfile.DTYPES)).map(np.dtype), arrays.array_shapes(min_dims=1, max_dims=3, min_side=0)
)


def rewrite_header(path, change):
    """Change the JSON header in place, padded to its old length."""
    content = path.read_bytes()
    size = int.from_bytes(content[8:16], "little")
    header = json.loads(content[16 : 16 + size])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode().ljust(size)
    path.write_bytes(content[:8] + len(text).to_bytes(8, "little") + text + content[16 + size :])


def a_file(folder):
    path = folder / "f"
    arrayfile.write(path, "test/1", {"a": np.arange(10), "b": np.ones((2, 3), np.float32)}, {"name": "é"})
    return path


@given(st.dictionaries(st.text(min_size=1, max_size=5), any_array, max_size=4))
@settings(max_examples=40, deadline=None)
def test_arrays_survive_a_round_trip(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("arrays") / "f"
    arrayfile.write(path, "test/1", content, {"n": 1})

    loaded, meta = arrayfile.read(path, "test/1")

    assert meta == {"n": 1}
    assert loaded.keys() == content.keys()
    for name, array in content.items():
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        assert loaded[name].tobytes() == array.tobytes()


def test_arrays_are_mapped_read_only_on_aligned_places(tmp_path):
    loaded, _ = arrayfile.read(a_file(tmp_path), "test/1")

    assert all(not array.flags.writeable for array in loaded.values())
    assert all(array.ctypes.data % arrayfile.ALIGNMENT == 0 for array in loaded.values())


def test_a_transposed_array_is_stored_by_its_content(tmp_path):
    array = np.arange(6).reshape(2, 3).T
    arrayfile.write(tmp_path / "f", "test/1", {"a": array}, {})

    loaded, _ = arrayfile.read(tmp_path / "f", "test/1")

    np.testing.assert_array_equal(loaded["a"], array)


@pytest.mark.parametrize("array", [np.array(["a"], object), np.array(["a"]), np.array([1j]), np.array([1], ">i8")])
def test_only_plain_little_endian_numbers_are_stored(tmp_path, array):
    with pytest.raises(FormatError, match="cannot be stored"):
        arrayfile.write(tmp_path / "f", "test/1", {"a": array}, {})

    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_only_the_old_file(tmp_path, monkeypatch):
    path = a_file(tmp_path)
    before = path.read_bytes()

    def full(_handle):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        arrayfile.write(path, "test/1", {"a": np.zeros(3)}, {})

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_every_shorter_file_is_refused(tmp_path):
    path = a_file(tmp_path)
    content = path.read_bytes()

    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            arrayfile.read(path, "test/1")


def test_a_header_length_beyond_all_bounds_is_refused_without_reading(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(arrayfile.MAGIC + (1 << 62).to_bytes(8, "little") + b"{}")

    with pytest.raises(FormatError, match="is not an array file"):
        arrayfile.read(path, "test/1")


def test_another_kind_is_refused_by_name(tmp_path):
    with pytest.raises(FormatError, match="holds 'test/1', not 'test/2'"):
        arrayfile.read(a_file(tmp_path), "test/2")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "|O8"},
        {"dtype": "O"},
        {"dtype": ["<i8"]},
        {"shape": [-10]},
        {"shape": [True]},
        {"shape": [1 << 61]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [1.5]},
        {"shape": None},
        {"offset": 0},
        {"offset": -64},
        {"offset": 1},
        {"offset": 1 << 40},
        {"offset": "64"},
    ],
    ids=str,
)
def test_an_entry_that_reaches_out_of_the_file_is_refused(tmp_path, entry):
    path = a_file(tmp_path)
    rewrite_header(path, lambda header: header["arrays"]["a"].update(entry))

    with pytest.raises(FormatError):
        arrayfile.read(path, "test/1")


@pytest.mark.parametrize("header", [[], "text", {"kind": "test/1"}, {"kind": "test/1", "arrays": []}], ids=str)
def test_a_header_of_another_shape_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    path = tmp_path / "f"
    path.write_bytes(arrayfile.MAGIC + len(text).to_bytes(8, "little") + text)

    with pytest.raises(FormatError):
        arrayfile.read(path, "test/1")


def test_a_header_without_a_description_is_refused(tmp_path):
    path = a_file(tmp_path)
    rewrite_header(path, lambda header: header.pop("meta"))

    with pytest.raises(FormatError):
        arrayfile.read(path, "test/1")


def test_the_fingerprint_depends_on_names_types_and_shapes_not_only_on_bytes():
    zeros = np.zeros(4, np.int32)

    prints = {
        arrayfile.fingerprint(kind, {name: array}, meta)
        for kind, name, array, meta in [
            ("k", "a", zeros, {}),
            ("l", "a", zeros, {}),
            ("k", "b", zeros, {}),
            ("k", "a", zeros.view(np.uint32), {}),
            ("k", "a", zeros.reshape(2, 2), {}),
            ("k", "a", zeros, {"m": 1}),
        ]
    }

    assert len(prints) == 6


def test_a_file_gets_the_permissions_that_any_new_file_gets(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()

    assert a_file(tmp_path).stat().st_mode == plain.stat().st_mode
