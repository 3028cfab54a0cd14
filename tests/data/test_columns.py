"""Rank coding, the fingerprint, and the file."""

from dataclasses import replace
from mmap import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from maabo_dist._util import arrayfile
from maabo_dist.data.columns import Columns, Feature, FeatureKind, rank_values
from maabo_dist.errors import FormatError

MATRIX = np.array([[3.0, 1.0, 3.0, 2.0], [0.0, 1.0, 0.0, 1.0]])


def columns_of(matrix=MATRIX, labels=None, **changes):
    features = tuple(Feature(f"x{row}", f"x{row}", FeatureKind.NUMBER, fill=0.0) for row in range(len(matrix)))
    labels = np.arange(matrix.shape[1], dtype=np.int32) % 2 if labels is None else labels
    return replace(Columns.from_matrix(matrix, labels, features, ("no", "yes"), "y"), **changes)


@given(
    arrays.arrays(
        np.float64,
        st.integers(1, 60),
        elements=st.one_of(
            st.integers(-20, 20).map(float),
            st.integers(0, 9).map(lambda step: step + 0.25),
            st.sampled_from([-0.0, 2.0**60, -(2.0**53)]),
            st.floats(-1e300, 1e300),
        ),
    )
)
def test_ranks_are_those_of_the_sorted_values(column):
    values, ranks = rank_values(column)

    expected, positions = np.unique(column, return_inverse=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(ranks, positions)
    assert not np.signbit(values[values == 0]).any()


def memory_of(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array


matrices = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(allow_nan=False, allow_infinity=False),
)


def test_codes_are_ranks_among_the_distinct_values():
    columns = columns_of()

    assert columns.codes.tolist() == [[2, 0, 2, 1], [0, 1, 0, 1]]
    assert columns.codes.dtype == np.uint16
    assert columns.values.tolist() == [1.0, 2.0, 3.0, 0.0, 1.0]
    assert columns.offsets.tolist() == [0, 3, 5]
    assert (columns.count, columns.rows) == (2, 4)


@pytest.mark.parametrize(("distinct", "dtype"), [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_codes_are_as_wide_as_the_distinct_values_need(distinct, dtype):
    values = np.arange(70_000.0) % distinct

    columns = columns_of(values[np.newaxis])

    assert columns.codes.dtype == dtype
    np.testing.assert_array_equal(columns.column(0), values)


@given(matrices)
@settings(max_examples=60, deadline=None)
def test_a_column_gives_back_its_values_exactly(matrix):
    columns = columns_of(matrix)

    for index, values in enumerate(matrix):
        np.testing.assert_array_equal(columns.column(index), values)


@given(matrices)
@settings(max_examples=60, deadline=None)
def test_the_fingerprint_does_not_depend_on_the_memory_layout(matrix):
    columns = columns_of(np.ascontiguousarray(matrix))
    other = columns_of(np.asfortranarray(matrix))
    strided = replace(columns, codes=np.repeat(columns.codes, 2, axis=1)[:, ::2])

    assert columns.fingerprint == other.fingerprint == strided.fingerprint


@given(matrices, st.data())
@settings(max_examples=60, deadline=None)
def test_the_fingerprint_sees_every_cell(matrix, data):
    row = data.draw(st.integers(0, matrix.shape[0] - 1))
    index = data.draw(st.integers(0, matrix.shape[1] - 1))
    changed = matrix.copy()
    changed[row, index] = np.nextafter(matrix[row, index], 0.0) if matrix[row, index] else 1.0

    assert columns_of(changed).fingerprint != columns_of(matrix).fingerprint


def test_the_fingerprint_is_the_same_on_every_machine():
    assert columns_of().fingerprint == "4cf7fb241bbdf5c672ac9dddc6c37b8978ac550c57807262470ef205e65fa76e"


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("no", "maybe")},
        {"target": "z"},
        {"labels": np.array([1, 1, 0, 1], np.int32)},
        {"features": (Feature("x0", "x0", FeatureKind.NUMBER, fill=0.5), columns_of().features[1])},
    ],
    ids=["classes", "target", "labels", "features"],
)
def test_the_fingerprint_sees_everything_else(change):
    assert columns_of(**change).fingerprint != columns_of().fingerprint


def test_a_negative_zero_has_the_fingerprint_of_zero():
    assert columns_of(np.array([[-0.0, 1.0]])).fingerprint == columns_of(np.array([[0.0, 1.0]])).fingerprint


def test_a_saved_file_is_mapped_back_read_only(tmp_path):
    columns = columns_of()
    columns.save(tmp_path / "c")

    loaded = Columns.load(tmp_path / "c")

    assert loaded.fingerprint == columns.fingerprint
    assert loaded.features == columns.features
    assert (loaded.classes, loaded.target) == (columns.classes, columns.target)
    np.testing.assert_array_equal(loaded.codes, columns.codes)
    np.testing.assert_array_equal(loaded.column(0), MATRIX[0])
    assert isinstance(memory_of(loaded.codes), mmap)
    assert not any(array.flags.writeable for array in (loaded.codes, loaded.values, loaded.offsets, loaded.labels))


def test_every_shorter_file_is_refused(tmp_path):
    path = tmp_path / "c"
    columns_of().save(path)
    content = path.read_bytes()

    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            Columns.load(path)


def test_a_changed_value_is_found_when_verified(tmp_path):
    path = tmp_path / "c"
    columns_of().save(path)
    content = bytearray(path.read_bytes())
    index = content.rindex(np.float64(3.0).tobytes())
    content[index : index + 8] = np.float64(3.5).tobytes()
    path.write_bytes(content)

    assert 3.5 in Columns.load(path, verify=False).values
    with pytest.raises(FormatError, match="does not match fingerprint"):
        Columns.load(path)


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "c").write_bytes(b"PAR1" * 100)

    with pytest.raises(FormatError, match="is not an array file"):
        Columns.load(tmp_path / "c")


def test_an_array_file_of_another_kind_is_refused(tmp_path):
    arrayfile.write(tmp_path / "c", "trees/1", {"codes": np.zeros(3)}, {})

    with pytest.raises(FormatError, match="holds 'trees/1', not 'columns/1'"):
        Columns.load(tmp_path / "c")


def test_a_file_that_lacks_an_array_is_refused(tmp_path):
    arrayfile.write(tmp_path / "c", "columns/1", {"codes": np.zeros(3)}, {"features": [], "classes": [], "target": "y"})

    with pytest.raises(FormatError, match="is damaged"):
        Columns.load(tmp_path / "c")
