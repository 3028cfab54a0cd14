"""Write tables that come in parts to one Parquet or CSV file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

import pyarrow as pa
from pyarrow import compute, parquet
from pyarrow import csv as arrow_csv

from maabo_dist.errors import DatasetError

OutputFormat = Literal["parquet", "csv"]
FORMATS: tuple[OutputFormat, ...] = ("parquet", "csv")
# Between the ids of rules in a cell of a CSV file.
ID_SEPARATOR = " "


def write_tables(tables: Iterable[Any], file: BinaryIO, form: OutputFormat) -> None:
    """Write Arrow tables with the same columns, of which there is at least one; the first one decides the types."""
    parts = map(_join_lists, tables) if form == "csv" else iter(tables)
    first = _without_null_types(next(parts))
    with _writer(file, first.schema, form) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(_cast(part, first.schema))


@contextmanager
def _writer(file: BinaryIO, schema: Any, form: OutputFormat) -> Iterator[Any]:
    if form == "parquet":
        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            yield writer
    else:
        with arrow_csv.CSVWriter(file, schema) as writer:
            yield writer


def _join_lists(table: Any) -> Any:
    """CSV has no lists: join their texts."""
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = compute.binary_join(table.column(index).cast(pa.list_(pa.string())), ID_SEPARATOR)
            table = table.set_column(index, field.name, texts)
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(field.type.value_type))
    return table


def _without_null_types(table: Any) -> Any:
    """A column that is empty in the first part may hold anything later: it becomes text."""
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _cast(table: Any, schema: Any) -> Any:
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DatasetError(
            f"The cells of a column that is to be kept are of different types: {reason}. Leave it out of --keep."
        ) from error
