"""The forest as a list of trees, and its file."""

import json

import numpy as np
import pytest

from maabo_dist._util import arrayfile
from maabo_dist.errors import FormatError
from maabo_dist.trees.forest import KIND, Forest, empty_forest
from maabo_dist.trees.training import TrainingTable, depth_search
from tests import factories

PARTS = ("subsets", "scores", "depths", "offsets", "feature", "threshold", "left", "counts")


def a_forest(seed=0, **options):
    *_, forest = factories.make_forest(np.random.default_rng(seed), **options)
    return forest


def arrays_of(forest):
    return {part: getattr(forest, part) for part in PARTS}


def assert_same_forest(one, other):
    for part in PARTS:
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part), strict=True)


def reachable(tree, node=0):
    if tree.feature[node] < 0:
        return {node}
    return {node} | reachable(tree, tree.left[node]) | reachable(tree, tree.left[node] + 1)


@pytest.mark.parametrize("sizes", [[10], [3, 7], [1, 0, 4, 5]])
def test_a_divided_forest_is_joined_again(sizes):
    forest = a_forest(1, features=5, size=3, classes=3, max_depth=6)

    parts = forest.divide(sizes)

    assert [len(part) for part in parts] == sizes
    assert all(part.offsets[0] == 0 for part in parts)
    assert_same_forest(Forest.concatenate(parts), forest)


@pytest.mark.parametrize("seed", range(10))
def test_every_tree_is_complete_and_independent(seed):
    forest = a_forest(seed, features=5, size=3, classes=3, max_depth=6)

    assert len(list(forest)) == len(forest) == 10
    for index, tree in enumerate(forest):
        splits = tree.feature >= 0
        assert reachable(tree) == set(range(len(tree.feature)))
        assert tree.leaves == splits.sum() + 1
        assert set(tree.feature[splits]) <= set(tree.subset)
        assert (tree.left[~splits] == -1).all()
        for node in np.flatnonzero(splits):
            children = tree.counts[tree.left[node]] + tree.counts[tree.left[node] + 1]
            assert children.tolist() == tree.counts[node].tolist()
        assert tree.score == forest.best_scores[index] == forest.scores[index].max()


def test_joined_forests_hold_the_trees_of_all_parts_in_order():
    parts = [a_forest(seed) for seed in range(3)]
    parts.insert(1, empty_forest(2, 4, 2))

    joined = Forest.concatenate(parts)

    assert len(joined) == sum(map(len, parts))
    for tree, expected in zip(joined, (tree for part in parts for tree in part), strict=True):
        for part in ("subset", "depth", "score", "feature", "threshold", "left", "counts"):
            np.testing.assert_array_equal(getattr(tree, part), getattr(expected, part))


def test_one_part_joined_is_itself():
    forest = a_forest()

    assert Forest.concatenate([forest]) is forest


@pytest.mark.parametrize("forest", [a_forest(1, classes=4), empty_forest(3, 5, 2)], ids=["trees", "no trees"])
def test_a_saved_forest_is_loaded_unchanged(tmp_path, forest):
    forest.save(tmp_path / "trees.bin")

    assert_same_forest(Forest.load(tmp_path / "trees.bin"), forest)


def test_a_file_of_another_kind_is_refused(tmp_path):
    arrayfile.write(tmp_path / "f", "columns/1", arrays_of(a_forest()), {})

    with pytest.raises(FormatError, match="holds 'columns/1'"):
        Forest.load(tmp_path / "f")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = tmp_path / "f"
    a_forest().save(path)
    content = path.read_bytes()

    path.write_bytes(content[: int(share * len(content))])

    with pytest.raises(FormatError):
        Forest.load(path)


@pytest.mark.parametrize("missing", PARTS)
def test_a_file_without_one_of_the_arrays_is_refused(tmp_path, missing):
    arrays = arrays_of(a_forest())
    del arrays[missing]
    arrayfile.write(tmp_path / "f", KIND, arrays, {})

    with pytest.raises(FormatError, match=f"'{missing}' is missing"):
        Forest.load(tmp_path / "f")


@pytest.mark.parametrize("change", [lambda o: o[:-1], lambda o: np.append(o[:-1], o[-1] + 1)], ids=["short", "beyond"])
def test_a_file_whose_trees_and_nodes_do_not_match_is_refused(tmp_path, change):
    arrays = arrays_of(a_forest())
    arrays["offsets"] = change(arrays["offsets"])
    arrayfile.write(tmp_path / "f", KIND, arrays, {})

    with pytest.raises(FormatError, match="do not match"):
        Forest.load(tmp_path / "f")


@pytest.mark.parametrize("part", ["scores", "depths", "threshold", "left", "counts"])
def test_a_file_whose_arrays_differ_in_length_is_refused(tmp_path, part):
    arrays = arrays_of(a_forest())
    arrays[part] = arrays[part][:-1]
    arrayfile.write(tmp_path / "f", KIND, arrays, {})

    with pytest.raises(FormatError):
        Forest.load(tmp_path / "f")


@pytest.mark.parametrize(("part", "value"), [("offsets", -5), ("depths", 99), ("left", 10**6), ("feature", -7)])
def test_a_file_whose_indices_are_out_of_range_is_refused(tmp_path, part, value):
    """Kernels use these indices without bounds checks, so no file may contain one out of range."""
    arrays = arrays_of(a_forest())
    arrays[part] = arrays[part].copy()
    arrays[part][0] = value
    arrayfile.write(tmp_path / "f", KIND, arrays, {})

    with pytest.raises(FormatError):
        Forest.load(tmp_path / "f")


def test_a_header_with_python_objects_is_refused(tmp_path):
    path = tmp_path / "f"
    a_forest().save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[8:16], "little")
    header = json.loads(content[16 : 16 + size])
    header["arrays"]["feature"]["dtype"] = "|O"
    path.write_bytes(
        content[:16] + json.dumps(header, separators=(",", ":")).encode().ljust(size) + content[16 + size :]
    )

    with pytest.raises(FormatError, match="dtype"):
        Forest.load(path)


def test_a_training_table_loaded_from_a_file_grows_the_same_trees(tmp_path):
    _, _, table, forest = factories.make_forest(np.random.default_rng(4))
    table.save(tmp_path / "t")

    again = TrainingTable.load(tmp_path / "t")

    grown = depth_search(again, forest.subsets, forest.scores.shape[1])
    assert np.array_equal(grown.threshold, forest.threshold)
    assert np.array_equal(grown.scores, forest.scores)
