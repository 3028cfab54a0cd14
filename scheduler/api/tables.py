"""`Tables`: convert stored tables to the columns that jobs work on."""

from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from uuid import uuid4

from maabo_dist.cluster.store import ArtifactStore, MissingArtifactError
from maabo_dist.data.columns import Columns
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from scheduler.api.problems import NotFoundError
from scheduler.api.reader_process import COLUMNS_FILE
from scheduler.api.readers import TableReader
from scheduler.ledger.datasets import DatasetRow

CACHE_SIZE = 1000
Key = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """The columns of a table under some settings: their fingerprint and size."""

    fingerprint: str
    features: int
    rows: int
    classes: int
    notes: tuple[str, ...]


class Tables:
    """Prepares each table once per settings, in a reader process, and caches the outcome."""

    def __init__(self, store: ArtifactStore, reader: TableReader) -> None:
        self._store, self.reader = store, reader
        self._cache: OrderedDict[Key, PreparedColumns] = OrderedDict()
        self._pending: dict[Key, Future[PreparedColumns]] = {}
        self._lock = Lock()  # guards both dictionaries; never held while a table is read

    def prepare(self, table: DatasetRow, settings: TableSettings, *, keep: bool = True) -> PreparedColumns:
        """Return the columns of a table; concurrent calls with the same arguments share one reader process.

        The columns are put into the store unless `keep` is False, as for previews, which would otherwise leave a copy
        of the table for each combination of settings.
        """
        # The name is part of the key because error messages contain it, and tenants must not see each other's names.
        key = (table.digest, table.name, settings.model_dump_json(), keep)
        with self._lock:
            columns = self._cache.get(key)
            if columns is not None:
                self._cache.move_to_end(key)
        if columns is not None and (not keep or self._store.has(f"columns/{columns.fingerprint}")):
            return columns
        with self._lock:
            pending = self._pending.get(key)
            future = self._pending.setdefault(key, Future())
        if pending is not None:
            return pending.result()
        try:
            columns = self._run_reader(table, settings, keep=keep)
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
            self._cache[key] = columns
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        future.set_result(columns)
        return columns

    def _run_reader(self, table: DatasetRow, settings: TableSettings, *, keep: bool) -> PreparedColumns:
        with TemporaryDirectory(prefix="maabo-") as folder:
            file = Path(folder) / f"{uuid4().hex}.{table.format}"
            try:
                self._store.get(f"tables/{table.digest}", file)
            except MissingArtifactError:
                raise NotFoundError(
                    f"The file of table {table.id} is no longer in the store.",
                    field="dataset",
                    remedy="Upload the same file again with POST /v1/datasets.",
                ) from None
            answer = self.reader.run("prepare", file, table.name, table=settings.model_dump(mode="json"))
            path = file.with_name(COLUMNS_FILE)
            columns = Columns.load(path)
            # All tenants share columns by fingerprint, so the fingerprint that the reader process reports is verified.
            if columns.fingerprint != answer["fingerprint"]:
                raise DatasetError(f"{table.name} could not be prepared: its fingerprint does not match its columns.")
            if keep:
                self._store.put(f"columns/{columns.fingerprint}", path)
            size = (columns.count, columns.rows, len(columns.classes))
            return PreparedColumns(columns.fingerprint, *size, tuple(answer["notes"]))
