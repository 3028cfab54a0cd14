"""`Tables`: raw tables in the store, and the columns that jobs work on."""

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
from scheduler.api.reader_process import COLUMNS
from scheduler.api.readers import TableReader
from scheduler.ledger.datasets import DatasetRow

REMEMBERED = 1000
Key = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """What a job needs to know of its columns."""

    fingerprint: str
    features: int
    rows: int
    classes: int
    notes: tuple[str, ...]


class Tables:
    """Raw tables become columns once, in a process of their own; what they became is remembered."""

    def __init__(self, store: ArtifactStore, children: TableReader) -> None:
        self._store, self.children = store, children
        self._known: OrderedDict[Key, PreparedColumns] = OrderedDict()
        self._under_way: dict[Key, Future[PreparedColumns]] = {}
        self._lock = Lock()
        """Of the two above; never held while anything is read."""

    def prepared(self, table: DatasetRow, settings: TableSettings, *, keep: bool = True) -> PreparedColumns:
        """The columns of a table. Whoever asks for the same meanwhile waits for the same.

        They are in the store then, unless `keep` says that it is enough to know of them: somebody who tries settings
        out would leave a copy of the table there for each.
        """
        # The name too: it stands in what is wrong with a table, and another tenant's must not.
        key = (table.digest, table.name, settings.model_dump_json(), keep)
        if (found := self._remembered(key)) is not None:
            return found
        with self._lock:
            waiting = self._under_way.get(key)
            mine = self._under_way.setdefault(key, Future())
        return self._made(key, mine, table, settings) if waiting is None else waiting.result()

    def _remembered(self, key: Key) -> PreparedColumns | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
        if found is None or not key[-1]:
            return found
        return found if self._store.has(f"columns/{found.fingerprint}") else None

    def _made(
        self, key: Key, future: Future[PreparedColumns], table: DatasetRow, settings: TableSettings
    ) -> PreparedColumns:
        try:
            found = self._prepare(table, settings, keep=key[-1])
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
            self._known[key] = found
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        future.set_result(found)
        return found

    def _prepare(self, table: DatasetRow, settings: TableSettings, *, keep: bool) -> PreparedColumns:
        with TemporaryDirectory(prefix="maabo-") as folder:
            raw = Path(folder) / f"{uuid4().hex}.{table.format}"
            self._fetch(table, raw)
            told = self.children.run("prepare", raw, table.name, table=settings.model_dump(mode="json"))
            made = raw.with_name(COLUMNS)
            columns = Columns.load(made)
            # Columns are everybody's, by their fingerprint: what a reader says is not enough.
            if columns.fingerprint != told["fingerprint"]:
                raise DatasetError(f"{table.name} could not be prepared: its columns are not what its reader said.")
            if keep:
                self._store.put(f"columns/{columns.fingerprint}", made)
            size = (columns.count, columns.rows, len(columns.classes))
            return PreparedColumns(columns.fingerprint, *size, tuple(told["notes"]))

    def _fetch(self, table: DatasetRow, raw: Path) -> None:
        try:
            self._store.get(f"tables/{table.digest}", raw)
        except MissingArtifactError:
            raise NotFoundError(
                f"The file of table {table.id} is not in the store any more.",
                field="dataset",
                remedy="Upload the same file again with POST /v1/datasets.",
            ) from None
