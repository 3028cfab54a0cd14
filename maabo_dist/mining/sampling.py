"""The passes that draw the sample of a dataset, for the workers of a cluster.

    begin_sample ──► DrawRequest ──► draw_block, for each block ──► continue_sample ──► the sample, prepared
                          ▲                                               │
                          └──── blocks with rows that other blocks have ──┘

Each step is a function of what the steps before it returned, and of the files. The sample is the same as that of
`open_sample`: a row is drawn by its hash and its number among identical rows, whoever reads it. Identical rows in
several blocks are found after the first pass; these blocks are then drawn from again, with the numbers that they have
in the whole table.
"""

import io
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from maabo_dist._util import arrayfile
from maabo_dist.contract.job import Fingerprint
from maabo_dist.contract.passes import DrawnBlock, PassDocument
from maabo_dist.contract.result import ColumnInfo, SampleInfo
from maabo_dist.data.column_counts import ColumnCounts
from maabo_dist.data.dataset_description import DatasetDescription
from maabo_dist.data.dataset_sources import Piece
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.data.preparation import PreparedTable
from maabo_dist.data.row_classes import RowClasses, TargetReader, read_classes
from maabo_dist.data.row_hash import Hashes, RowNumbers
from maabo_dist.data.row_sample import MAX_NUMBERED, DrawnRows, RowDrawer, RowSample, SamplePlan
from maabo_dist.errors import FormatError
from maabo_dist.mining.dataset import (
    check_sample,
    choose_target,
    describe_columns,
    describe_sample,
    plan_of,
    prepare_sample,
    sample_notes,
)
from maabo_dist.rules.all_rows import DatasetRows
from maabo_dist.settings import MiningSettings, TableSettings

# Blocks of a pass, at least: so many workers share it if there are as many pieces.
MIN_BLOCKS = 16
# Rows of a block, at most: two bytes of each are in memory.
MAX_BLOCK_ROWS = 1 << 22
_CELLS, _DRAWN, _NUMBERS = "row-cells", "drawn-rows", "row-numbers"

_Count = Annotated[int, Field(ge=0)]
# The first piece, the one after the last, and the number of rows.
BlockRange = tuple[_Count, _Count, _Count]


class _Classes(PassDocument):
    """A `TargetReader`, and what is known about the target."""

    classes: tuple[str, ...]
    text: str
    notes: tuple[str, ...]
    # The values, as an Arrow table of one column in base64, and the class of each.
    values: str
    labels: tuple[_Count, ...]
    edges: tuple[float, ...] | None

    @classmethod
    def of(cls, classes: RowClasses) -> "_Classes":
        reader = classes.reader
        sink = io.BytesIO()
        table = pa.table({"value": pa.array(list(reader.values))})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(
            classes=classes.classes,
            text=classes.text,
            notes=classes.notes,
            values=b64encode(sink.getvalue()).decode(),
            labels=tuple(reader.values.values()),
            edges=None if reader.edges is None else tuple(reader.edges.tolist()),
        )

    @property
    def reader(self) -> TargetReader:
        with pa.ipc.open_stream(b64decode(self.values)) as stream:
            values = stream.read_all().column(0).to_pylist()
        edges = None if self.edges is None else np.array(self.edges)
        return TargetReader(dict(zip(values, self.labels, strict=True)), edges)


class DrawRequest(PassDocument):
    """A pass that draws rows."""

    dataset: DatasetDescription
    columns: tuple[str, ...]
    target: str
    classes: _Classes
    plan: dict[str, Any]
    # All blocks of the dataset.
    blocks: tuple[BlockRange, ...]
    # The blocks to draw from; and the others, which are drawn, by their numbers.
    wanted: tuple[_Count, ...]
    known: dict[int, DrawnBlock] = Field(default_factory=dict)
    # How often hashes came in blocks before each block, if they did; of blocks that are drawn from again.
    numbers: dict[int, Fingerprint] = Field(default_factory=dict)

    @property
    def sample_plan(self) -> SamplePlan:
        """How rows are drawn."""
        return SamplePlan(**self.plan | {"rates": tuple(self.plan["rates"])})

    def pieces(self, block: int) -> tuple[Piece, ...]:
        """Return the pieces of a block."""
        start, stop, _ = self.blocks[block]
        return tuple(Piece(*each) for each in self.dataset.pieces[start:stop])


class StoredSample(PassDocument):
    """A sample that is drawn, and where the class and the part of each row of its dataset are."""

    dataset: DatasetDescription
    classes: tuple[str, ...]
    # (parts, C): all rows.
    totals: tuple[tuple[_Count, ...], ...]
    blocks: tuple[BlockRange, ...]
    # The artifact of each block.
    cells: tuple[Fingerprint, ...]
    # What all rows have in each column.
    columns: tuple[ColumnInfo, ...]

    def rows_of(self, block: int, cells: Path, dataset: Dataset, encoder: TableEncoder, na_values: Any) -> DatasetRows:
        """Return the rows of a block, of which `cells` is the artifact."""
        labels, parts = _read_cells(cells, self.blocks[block][2])
        first = self.dataset.pieces[self.blocks[block][0]][2]
        return DatasetRows(dataset, self.classes, labels, parts, self.totals_array, encoder, na_values, first)

    @property
    def totals_array(self) -> npt.NDArray[np.int64]:
        """(parts, C): all rows."""
        return np.array(self.totals, np.int64)

    def pieces(self, block: int) -> tuple[Piece, ...]:
        """Return the pieces of a block."""
        start, stop, _ = self.blocks[block]
        return tuple(Piece(*each) for each in self.dataset.pieces[start:stop])


@dataclass(frozen=True)
class PreparedSample:
    """The outcome of all steps."""

    table: PreparedTable
    stored: StoredSample
    info: SampleInfo
    notes: tuple[str, ...]


def divide_pieces(rows: Sequence[int], most: int) -> tuple[BlockRange, ...]:
    """Return blocks of consecutive pieces with about `most` rows each, or fewer if there would be too few blocks."""
    most = max(1, min(most, -(-sum(rows) // MIN_BLOCKS), MAX_BLOCK_ROWS))
    blocks: list[BlockRange] = []
    start, size = 0, 0
    for piece, count in enumerate(rows):
        if piece > start and size + count > most:
            blocks.append((start, piece, size))
            start, size = piece, 0
        size += count
    return (*blocks, (start, len(rows), size))


def begin_sample(
    dataset: Dataset, table: TableSettings, mining: MiningSettings, size: int, block_rows: int
) -> DrawRequest:
    """Read the target column of all rows, and plan the pass over the other columns in blocks of so many rows."""
    check_sample(table, mining, size)
    table, columns = choose_target(dataset, table)
    with TemporaryDirectory(prefix="maabo-") as folder:
        classes = read_classes(dataset, table, Path(folder))
        dataset.check_unchanged()
        plan = plan_of(classes.totals, dataset.rows, size, mining)
        blocks = divide_pieces([piece.rows for piece in dataset.pieces], block_rows)
        return DrawRequest(
            dataset=DatasetDescription.of(dataset),
            columns=tuple(columns),
            target=table.target or "",
            classes=_Classes.of(classes),
            plan=asdict(plan),
            blocks=blocks,
            wanted=tuple(range(len(blocks))),
        )


def draw_block(request: DrawRequest, block: int, numbers: Path | None, cells: Path, drawn: Path) -> None:
    """Draw from the rows of a block, and write its two artifacts; `numbers` is that of `DrawRequest.numbers`."""
    dataset, reader, rows = request.dataset.open(), request.classes.reader, request.blocks[block][2]
    pieces = request.pieces(block)
    files = {piece.file: dataset.files[piece.file] for piece in pieces}
    for file in files.values():
        file.check_unchanged()
    schema = pa.schema([dataset.schema.field(name) for name in request.columns])
    known = _read_numbers(numbers) if numbers is not None else (np.zeros(0, np.uint64), np.zeros(0, np.uint32))
    counter = RowNumbers(min(rows, int(1.1 * MAX_NUMBERED)) + len(known[0]))
    counter.add(*known)
    drawer = RowDrawer(request.sample_plan, schema, rows, counter)
    labels, parts = [], []
    for batch in dataset.batches([*request.columns, request.target], pieces):
        columns = batch.cells.columns
        labels.append(reader.read(columns[-1]))
        own = pa.RecordBatch.from_arrays(columns[:-1], names=list(request.columns))
        parts.append(drawer.add(own, labels[-1]))
    for file in files.values():
        file.check_unchanged()
    nothing = np.zeros(0, np.uint8)
    of_rows = {"labels": np.concatenate([nothing, *labels]), "parts": np.concatenate([nothing, *parts])}
    arrayfile.write(cells, _CELLS, of_rows, {})
    _write_drawn(drawn, drawer.finish(), counter)


def continue_sample(
    request: DrawRequest,
    blocks: Sequence[DrawnBlock],
    fetch: Callable[[str], Path],
    put_numbers: Callable[[Path], str],
    table: TableSettings,
) -> DrawRequest | PreparedSample:
    """Return the next pass, or the sample if none is needed.

    `blocks` are those that were wanted. `fetch` returns the file of an artifact of a block, and `put_numbers` stores
    one.
    """
    drawn = request.known | dict(zip(request.wanted, blocks, strict=True))
    if not request.numbers:
        numbers = _find_numbers([fetch(drawn[block].drawn) for block in range(len(request.blocks))], put_numbers)
        if numbers:
            known = {block: each for block, each in drawn.items() if block not in numbers}
            return request.model_copy(update={"wanted": tuple(numbers), "known": known, "numbers": numbers})
    rows = [_read_drawn(fetch(drawn[block].drawn), len(request.classes.classes)) for block in range(len(drawn))]
    return _finish(request, drawn, RowSample.of(rows), table)


def _finish(
    request: DrawRequest, drawn: dict[int, DrawnBlock], sample: RowSample, table: TableSettings
) -> PreparedSample:
    known, dataset = request.classes, request.dataset.open()
    dataset.check_unchanged()
    totals = sample.totals.sum(axis=0)
    classes = RowClasses(known.classes, known.text, known.notes, np.zeros(0, np.uint8), totals, known.reader)
    prepared = prepare_sample(sample, classes, table)
    stored = StoredSample(
        dataset=request.dataset,
        classes=known.classes,
        totals=tuple(tuple(row) for row in sample.totals.tolist()),
        blocks=request.blocks,
        cells=tuple(drawn[block].cells for block in range(len(drawn))),
        columns=describe_columns(sample.columns),
    )
    info = describe_sample(dataset, request.sample_plan, sample, classes)
    notes = (*sample_notes(info, request.sample_plan, dataset.rows), *prepared.notes)
    return PreparedSample(prepared, stored, info, notes)


def _find_numbers(files: Sequence[Path], put_numbers: Callable[[Path], str]) -> dict[int, str]:
    """Find hashes that came in several blocks; return how often they came before each block, if they did."""
    every = [_read_counts(path) for path in files]
    hashes = np.concatenate([each for each, _ in every])
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    so_far = np.zeros(len(repeated), np.int64)
    numbers: dict[int, str] = {}
    for block, (own, counts) in enumerate(every):
        if not len(repeated):
            break
        index = np.minimum(np.searchsorted(repeated, own), len(repeated) - 1)
        common = repeated[index] == own
        before = so_far[index[common]]
        if before.any():
            came = before > 0
            numbers[block] = _put_numbers(own[common][came], before[came].astype(np.uint32), put_numbers)
        so_far[index[common]] += counts[common]
    return numbers


def _put_numbers(hashes: Hashes, counts: npt.NDArray[np.uint32], put_numbers: Callable[[Path], str]) -> str:
    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "numbers"
        arrayfile.write(path, _NUMBERS, {"hashes": hashes, "counts": counts}, {})
        return put_numbers(path)


def _read_numbers(path: Path) -> tuple[Hashes, npt.NDArray[np.uint32]]:
    arrays, _ = arrayfile.read(path, _NUMBERS, ("hashes", "counts"))
    return arrays["hashes"], arrays["counts"]


def _write_drawn(path: Path, drawn: DrawnRows, numbers: RowNumbers) -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, drawn.rows.schema) as writer:
        writer.write_table(drawn.rows)
    hashes, counts = numbers.items()
    arrays: dict[str, npt.NDArray[Any]] = {
        "rows": np.frombuffer(sink.getvalue(), np.uint8),
        "keys": drawn.keys,
        "labels": drawn.labels,
        "parts": drawn.parts,
        "totals": drawn.totals,
        "checksum": np.array([drawn.checksum], np.uint64),
        "hashes": hashes,
        "counts": counts,
    }
    counts_of = {name: counted.to_json() for name, counted in drawn.columns.items()}
    arrayfile.write(path, _DRAWN, arrays, {"columns": counts_of})


def _read_drawn(path: Path, classes: int) -> DrawnRows:
    names = ("rows", "keys", "labels", "parts", "totals", "checksum")
    arrays, meta = arrayfile.read(path, _DRAWN, names)
    with pa.ipc.open_stream(pa.py_buffer(arrays["rows"])) as stream:
        rows = stream.read_all()
    lengths = {len(arrays[name]) for name in ("keys", "labels", "parts")} | {rows.num_rows}
    if len(lengths) > 1 or arrays["totals"].shape[1:] != (classes,):
        raise FormatError(f"{path} is damaged: its arrays do not match.")
    plain = {name: np.array(arrays[name]) for name in ("keys", "labels", "parts", "totals")}
    columns = {name: ColumnCounts.from_json(values) for name, values in meta["columns"].items()}
    return DrawnRows(rows, **plain, checksum=int(arrays["checksum"][0]), columns=columns)


def _read_counts(path: Path) -> tuple[Hashes, npt.NDArray[np.uint32]]:
    arrays, _ = arrayfile.read(path, _DRAWN, ("hashes", "counts"))
    return arrays["hashes"], arrays["counts"]


def _read_cells(path: Path, rows: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    arrays, _ = arrayfile.read(path, _CELLS, ("labels", "parts"))
    if arrays["labels"].shape != (rows,) or arrays["parts"].shape != (rows,):
        raise FormatError(f"{path} is damaged: it does not have the classes of {rows:,} rows.")
    return arrays["labels"], arrays["parts"]
