"""`Tables`: raw tables in the store, and the columns that jobs work on."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from maabo_dist.data import prepare, read_table
from maabo_dist.settings import TableSettings
from maabo_dist.store import ArtifactStore
from scheduler.registry import DatasetRow

REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """What a job needs to know of columns that are in the store."""

    fingerprint: str
    features: int
    notes: tuple[str, ...]


class Tables:
    """Raw tables become columns once; what they became is remembered."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], PreparedColumns] = OrderedDict()
        self._lock = Lock()

    def prepared(self, table: DatasetRow, settings: TableSettings) -> PreparedColumns:
        """The columns of a table, in the store."""
        key = (table.digest, settings.model_dump_json())
        with self._lock:
            found = self._known.get(key)
            if found is None or not self._store.has(f"columns/{found.fingerprint}"):
                found = self._known[key] = self._prepare(table, settings)
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
        return found

    def _prepare(self, table: DatasetRow, settings: TableSettings) -> PreparedColumns:
        with TemporaryDirectory(prefix="maabo-") as folder:
            raw, made = Path(folder) / f"table.{table.format}", Path(folder) / "columns"
            self._store.get(f"tables/{table.digest}", raw)
            ready = prepare(read_table(raw, na_values=settings.na_values), settings)
            ready.columns.save(made)
            self._store.put(f"columns/{ready.columns.fingerprint}", made)
        return PreparedColumns(ready.columns.fingerprint, ready.columns.count, tuple(ready.notes))
