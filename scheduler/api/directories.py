"""Datasets that are directories of files in the server's table directory. They stay there; workers read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from maabo_dist.cluster.table_directory import NoSuchDirectoryError, hide_root, identify_directory, open_directory
from maabo_dist.contract.job import DatasetRef, ManyRows, fingerprint_of_files
from maabo_dist.data.datasets import Dataset, plain
from maabo_dist.data.preview import preview
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.mining.dataset import DEFAULT_SAMPLE, check_sample
from maabo_dist.settings import MiningSettings
from scheduler.api.problems import NotFoundError
from scheduler.api.received import ReceivedDirectory, require_table_directory
from scheduler.ledger.tenants import DatasetRow

# Rows that describe the columns of a directory.
DESCRIBED_ROWS = 10_000


def open_table_directory(url: str | None, path: str) -> Dataset:
    """Open a directory of the server's table directory. Errors do not say where that is."""
    root = require_table_directory(url)
    try:
        with _hidden(root):
            return open_directory(root, path)
    except NoSuchDirectoryError:
        raise NotFoundError(
            f"There is no table {path[:200]!r} in the server's table directory.",
            field="path",
            remedy="Check the path of the file or directory.",
        ) from None


def describe_directory(url: str, path: str, name: str, dataset: Dataset) -> ReceivedDirectory:
    """Describe the columns of a directory by its first rows."""
    with _hidden(url):
        batches = [plain(batch.cells) for batch in islice(dataset.batches(), 1)]
        frame = pa.Table.from_batches(batches, dataset.schema).slice(0, DESCRIBED_ROWS).to_pandas()
    table = preview(frame)
    features = []
    for column in table.columns:
        fields = asdict(column)
        description = fields.pop("description")
        features.append(description | fields)
    note = f"The columns are described by the first {len(frame):,} of {dataset.rows:,} rows."
    about = {"sample": table.sample, "target": table.target, "notes": [note, *table.notes], "path": path}
    size = sum(file.size for file in dataset.files)
    return ReceivedDirectory(
        path, name, dataset.fingerprint, size, dataset.rows, len(dataset.names), {"features": features, **about}
    )


@contextmanager
def open_as_file(url: str, dataset: Dataset) -> Iterator[Any]:
    """Write a directory with few rows to one Parquet file, which is then a table like those that are uploaded."""
    with TemporaryDirectory(prefix="maabo-") as folder, _hidden(url):
        path = Path(folder) / uuid4().hex
        with parquet.ParquetWriter(path, dataset.schema) as writer:
            for batch in dataset.batches():
                writer.write_batch(plain(batch.cells).cast(dataset.schema))
        with path.open("rb") as file:
            yield file


def is_small(dataset: Dataset) -> bool:
    """True if all rows are searched by default."""
    return dataset.rows <= DEFAULT_SAMPLE


def many_reference(
    table: DatasetRow, url: str | None, reference: DatasetRef, mining: MiningSettings, sample: int | None
) -> DatasetRef:
    """Return the dataset of a job on a directory, if it can be mined and its files have not changed."""
    settings, size = reference.settings, DEFAULT_SAMPLE if sample is None else sample
    if settings is None or settings.target is None:
        raise SettingsError("A job on a directory needs a target.", field="table.target", remedy="Name the column.")
    if size >= table.rows:
        raise SettingsError(
            f"A sample of {size:,} rows is not smaller than the table, which has {table.rows:,}.",
            field="sample",
            remedy="Give a smaller number.",
        )
    check_sample(settings, mining, size)
    path = str(table.description["path"])
    with _hidden(url or ""):
        if identify_directory(url or "", path) != table.digest:
            raise DatasetError(
                f"The files of {path!r} have changed since the table was created.",
                field="dataset",
                remedy="Create the table again: POST /v1/datasets with its path.",
            )
    many = ManyRows(path=path, sample=size, rows=table.rows, columns=table.columns)
    fingerprint = fingerprint_of_files(table.digest, settings, size)
    return reference.model_copy(update={"fingerprint": fingerprint, "many": many})


@contextmanager
def _hidden(url: str) -> Iterator[None]:
    """Tenants do not learn where the table directory is."""
    try:
        yield
    except NoSuchDirectoryError:
        raise
    except DatasetError as error:
        raise DatasetError(hide_root(url, str(error)), field="path") from error
