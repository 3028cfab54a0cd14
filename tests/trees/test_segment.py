"""Segments: trees in a file, read back as a stream; damage is reported."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist._util.files import file_digest
from maabo_dist.errors import FormatError
from maabo_dist.settings import MiningSettings
from maabo_dist.study import split_for
from maabo_dist.trees import wire as segment
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, pack_segment, read_frames, read_segment, write_segment
from tests import factories

COLUMNS = factories.make_columns(np.random.default_rng(2), 60, 6, 2)
TABLE = TrainingTable.build(COLUMNS, split_for(COLUMNS, MiningSettings()))
SUBSETS = factories.every_subset(6, 2)
FOREST = depth_search(TABLE, SUBSETS, 3)
FRAMES = [(SUBSETS[a:b], pack_forest(depth_search(TABLE, SUBSETS[a:b], 3))) for a, b in ((0, 4), (4, 5), (5, 15))]


def test_written_trees_are_read_back(tmp_path):
    digest = write_segment(tmp_path / "s", FRAMES)

    forests = list(read_segment(tmp_path / "s", 3, 2))

    assert [len(forest) for forest in forests] == [15]
    assert np.array_equal(np.concatenate([forest.scores for forest in forests]), FOREST.scores)
    assert np.array_equal(np.concatenate([forest.threshold for forest in forests]), FOREST.threshold)
    assert file_digest(tmp_path / "s") == digest


def test_failed_trees_are_stored_in_order(tmp_path):
    write_segment(tmp_path / "s", [FRAMES[0], (SUBSETS[4:5], b""), FRAMES[2]])

    (forest,) = read_segment(tmp_path / "s", 3, 2)

    assert np.array_equal(forest.subsets, SUBSETS)
    assert np.flatnonzero(np.isnan(forest.best_scores)).tolist() == [4]


def test_many_trees_are_returned_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "MIN_FOREST", 5)
    write_segment(tmp_path / "s", FRAMES)

    assert [len(forest) for forest in read_segment(tmp_path / "s", 3, 2)] == [5, 10]


@pytest.mark.parametrize(("first", "numbers"), [(0, [100, 104, 105]), (104, [104, 105]), (106, [105]), (115, [])])
def test_frames_are_numbered_and_those_before_a_tree_are_passed_over(tmp_path, first, numbers):
    write_segment(tmp_path / "s", FRAMES)
    indices_after = []

    def read():
        after = yield from read_frames(tmp_path / "s", 100, lambda numbers: numbers.stop > first, 3, 2)
        indices_after.append(after)

    frames = list(read())
    assert [number for number, _ in frames] == numbers
    assert all(np.array_equal(forest.subsets[0], SUBSETS[number - 100]) for number, forest in frames)
    assert indices_after == [115]


def test_a_segment_may_be_empty(tmp_path):
    write_segment(tmp_path / "s", [])

    assert list(read_segment(tmp_path / "s", 3, 2)) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_truncated_segment_is_reported(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "s"
    write_segment(path, FRAMES)
    whole = path.read_bytes()
    ends, position = {8}, 8
    for subsets, trees in FRAMES:
        position += 16 + subsets.nbytes + len(trees)
        ends.add(position)
    length = data.draw(st.integers(0, len(whole) - 1).filter(lambda n: n not in ends))
    path.write_bytes(whole[:length])

    with pytest.raises(FormatError):
        list(read_segment(path, 3, 2))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_byte_is_noticed_by_the_digest_and_never_by_a_crash(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "s"
    digest = write_segment(path, FRAMES)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)

    with suppress(FormatError):
        list(read_segment(path, 3, 2))
    assert file_digest(path) != digest


def test_a_segment_in_memory_is_that_of_a_file(tmp_path):
    digest = write_segment(tmp_path / "s", FRAMES)

    assert pack_segment(FRAMES) == ((tmp_path / "s").read_bytes(), digest)
