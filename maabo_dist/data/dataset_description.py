"""A dataset of files as JSON, so that another process reads the same pieces of the same files without looking at all.

It has the files with their identities, the columns with their types, and the pieces. Whoever reads a piece checks that
its file is still the one that was described (`Dataset.check_unchanged`).
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.data.dataset_files import DataFile
from maabo_dist.data.dataset_sources import ParquetFiles, Piece, TextFiles
from maabo_dist.data.datasets import Dataset
from maabo_dist.errors import DatasetError, FormatError

_Count = Annotated[int, Field(ge=0)]


class DatasetDescription(BaseModel):
    """The files, columns and pieces of a dataset."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["parquet", "text"]
    # Path, size, fingerprint, and the values in the names of directories.
    files: tuple[tuple[str, _Count, str, tuple[tuple[str, str | None], ...]], ...]
    # An Arrow schema, in the format of Arrow's IPC, as base64.
    schema_text: str
    # File, row group, first row and number of rows.
    pieces: tuple[tuple[_Count, _Count, _Count, _Count], ...]
    na_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, dataset: Dataset) -> "DatasetDescription":
        """Describe a dataset of files."""
        source = dataset.source
        if not isinstance(source, ParquetFiles | TextFiles):
            raise DatasetError("A table in memory cannot be read by another process. Write it to Parquet files.")
        files = tuple((each.path, each.size, each.fingerprint, each.partitions) for each in source.files)
        is_parquet = isinstance(source, ParquetFiles)
        return cls(
            kind="parquet" if is_parquet else "text",
            files=files,
            schema_text=b64encode(source.schema.serialize().to_pybytes()).decode(),
            pieces=source.pieces,
            na_values=() if isinstance(source, ParquetFiles) else source.na_values,
        )

    @classmethod
    def parse(cls, document: Any) -> "DatasetDescription":
        """Check a document."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"]
            raise FormatError(f"The description of a dataset is invalid: {message}.") from None

    def open(self) -> Dataset:
        """Return the dataset, without reading a file."""
        files = tuple(DataFile(*each) for each in self.files)
        pieces = tuple(Piece(*each) for each in self.pieces)
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(b64decode(self.schema_text, validate=True)))
        except (pa.ArrowException, Base64Error, OSError) as error:
            raise FormatError(f"The description of a dataset has no valid schema: {error}.") from None
        partitions = {name for file in files for name, _ in file.partitions}
        if not {piece.file for piece in pieces} <= set(range(len(files))) or not partitions <= set(schema.names):
            raise FormatError("The description of a dataset names a file or column that it does not have.")
        if self.kind == "text":
            return Dataset(TextFiles(files, schema, pieces, self.na_values, frozenset(partitions)))
        return Dataset(ParquetFiles(files, schema, pieces, frozenset(partitions)))
