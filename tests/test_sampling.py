"""The sample that workers draw block by block is that of one process, also if identical rows are in several blocks."""

import numpy as np
import pandas as pd
import pytest

from maabo_dist import TableSettings
from maabo_dist._util.files import file_digest
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.passes import DrawnBlock
from maabo_dist.data.datasets import Dataset
from maabo_dist.errors import DatasetError, FormatError
from maabo_dist.mining.dataset import open_sample
from maabo_dist.mining.sampling import (
    DrawRequest,
    StoredSample,
    begin_sample,
    continue_sample,
    divide_pieces,
    draw_block,
)
from maabo_dist.rules.all_rows import AllRows, count_pieces
from maabo_dist.rules.passes import CountRequest, add_counts
from tests.test_mine_dataset import SETTINGS, TARGET, table, write

SAMPLE = 3000


class Artifacts:
    """A store in a directory."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def put(self, path):
        digest = file_digest(path)
        path.rename(self.folder / digest)
        return digest

    def fetch(self, digest):
        return self.folder / digest


def draw(request, folder, artifacts):
    """Draw from the wanted blocks, the last one first."""
    drawn = {}
    for block in reversed(request.wanted):
        paths = [folder / f"{kind}-{block}" for kind in ("cells", "drawn")]
        numbers = artifacts.fetch(request.numbers[block]) if block in request.numbers else None
        draw_block(request, block, numbers, *paths)
        drawn[block] = DrawnBlock(cells=artifacts.put(paths[0]), drawn=artifacts.put(paths[1]))
    return [drawn[block] for block in request.wanted]


def sample_by_blocks(source, folder, block_rows=700, settings=TARGET):
    """Return the sample, the blocks of each pass, and the artifacts."""
    artifacts = Artifacts(folder / "artifacts")
    request = begin_sample(Dataset.open(source), settings, SETTINGS, SAMPLE, block_rows)
    passes = []
    while isinstance(request, DrawRequest):
        request = DrawRequest.parse(request.to_bytes())
        passes.append(request.wanted)
        blocks = draw(request, folder, artifacts)
        request = continue_sample(request, blocks, artifacts.fetch, artifacts.put, settings)
    return request, passes, artifacts


def check_same(source, tmp_path, settings=TARGET):
    made, passes, artifacts = sample_by_blocks(source, tmp_path, settings=settings)
    with open_sample(Dataset.open(source), settings, SETTINGS, SAMPLE) as expected:
        assert made.table.columns.fingerprint == expected.table.columns.fingerprint
        assert made.info == expected.info
        assert np.array_equal(made.stored.totals, expected.rows.totals)
        premises = ((), *(premise for premise in _some_premises(expected)))
        request = CountRequest(premises)
        whole = AllRows(expected.rows, ()).run_pass(request)
        stored, counts = StoredSample.parse(made.stored.to_bytes()), 0
        dataset = stored.dataset.open()
        for block in range(len(stored.blocks)):
            cells = artifacts.fetch(stored.cells[block])
            rows = stored.rows_of(block, cells, dataset, made.table.encoder, settings.na_values)
            own = count_pieces(rows, request, stored.pieces(block))
            counts = own if block == 0 else add_counts(counts, own)
        assert np.array_equal(counts, whole)
    return passes


def _some_premises(sampled):
    numbers = [feature.column for feature in sampled.table.columns.features if feature.kind == "number"]
    return [(Condition(name, Op.ABOVE, 0.5),) for name in numbers]


def test_the_sample_is_that_of_one_process(tmp_path):
    folder = write(table(9000), tmp_path / "t", 3, row_group_size=500)

    assert check_same(folder, tmp_path) == [tuple(range(18))]


def test_identical_rows_of_several_blocks_are_numbered_together(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x0": rng.integers(0, 5, 9000), "x1": rng.integers(0, 4, 9000).astype(float)})
    frame["y"] = np.where(rng.random(9000) < 0.3, "yes", "no")
    folder = write(frame, tmp_path / "t", 3, row_group_size=500)

    first, second = check_same(folder, tmp_path)
    assert (first, second) == (tuple(range(18)), tuple(range(1, 18)))


def test_some_identical_rows_are_drawn_again_where_they_are(tmp_path):
    frame = table(9000)
    frame = pd.concat([frame, frame.iloc[:3]], ignore_index=True)
    folder = write(frame, tmp_path / "t", 1, row_group_size=500)

    assert check_same(folder, tmp_path) == [tuple(range(18)), (17,)]


@pytest.mark.parametrize("settings", [TARGET, TableSettings(target="y", target_quantiles=3, exclude=("x0",))])
def test_numeric_targets_are_cut_alike(tmp_path, settings):
    frame = table(9000).drop(columns="y")
    frame["y"] = np.where(frame["x1"] > 2.5, np.nan, frame["x0"] + frame["x1"])
    folder = write(frame, tmp_path / "t", 2, row_group_size=500)

    check_same(folder, tmp_path, settings)


def test_text_files_and_partitions_are_read_by_their_description(tmp_path):
    frame = table(9000)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_csv(tmp_path / f"{number}.csv", index=False)

    (tmp_path / "scratch").mkdir()
    check_same(tmp_path, tmp_path / "scratch")


def test_a_file_that_changes_between_the_steps_is_named(tmp_path):
    folder = write(table(9000), tmp_path / "t", 3)
    artifacts = Artifacts(tmp_path / "artifacts")
    request = begin_sample(Dataset.open(folder), TARGET, SETTINGS, SAMPLE, 700)
    blocks = draw(request, tmp_path, artifacts)
    (folder / "1.parquet").unlink()

    with pytest.raises(DatasetError, match=r"1\.parquet"):
        draw(request, tmp_path, artifacts)
    with pytest.raises(DatasetError, match=r"1\.parquet"):
        continue_sample(request, blocks, artifacts.fetch, artifacts.put, TARGET)


def test_blocks_have_whole_pieces():
    assert divide_pieces([10] * 40, 1000) == tuple((k, k + 2, 20) for k in range(0, 40, 2))
    blocks = divide_pieces([7, 1, 1, 90, 3], 10)
    assert [stop for _, stop, _ in blocks][-1] == 5
    assert sum(rows for *_, rows in blocks) == 102
    assert all(stop - start == 1 or rows <= 7 for start, stop, rows in blocks)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"dataset": 3}'])
def test_documents_are_checked(data):
    for kind in (DrawRequest, StoredSample):
        with pytest.raises(FormatError, match=kind.__name__):
            kind.parse(data)


def test_the_columns_of_blocks_are_described_together(tmp_path):
    folder = write(table(9000), tmp_path / "t", 3, row_group_size=500)

    made, *_ = sample_by_blocks(folder, tmp_path)

    with open_sample(Dataset.open(folder), TARGET, SETTINGS, SAMPLE) as expected:
        assert made.stored.columns == expected.columns
