"""`Tables`: convert stored tables to the columns that jobs work on."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from anyio.to_thread import run_sync

from maabo_dist.cluster.store import MissingArtifactError
from maabo_dist.data.columns import Columns
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from scheduler.api import reader_process
from scheduler.api.problems import NotFoundError
from scheduler.api.readers import TableReader
from scheduler.api.scratch import ScratchSpace
from scheduler.ledger.tenants import DatasetRow
from scheduler.resources import Resources

CACHE_SIZE = 1000
Key = tuple[str, str, bool, bool]


@dataclass(frozen=True, slots=True)
class ColumnsRequest:
    """A table and the settings to prepare it with.

    The columns are put into the store unless `keep` is False, as for previews, which would otherwise leave a copy of
    the table for each combination of settings. `names` asks for the names of the columns.
    """

    table: DatasetRow
    settings: TableSettings
    keep: bool = True
    names: bool = False

    @property
    def key(self) -> Key:
        """Equal for requests with the same outcome."""
        return (self.table.id, self.settings.model_dump_json(), self.keep, self.names)


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """The columns of a table under some settings: their fingerprint, size and classes."""

    fingerprint: str
    features: int
    rows: int
    classes: tuple[str, ...]
    # Rows of the rarest class.
    rarest: int
    # True if each row is a case of its own.
    independent: bool
    notes: tuple[str, ...]
    # Columns that nearly repeat the target.
    leaks: tuple[str, ...]
    # The table column of each feature, if it was asked for: wide tables have very many.
    column_names: tuple[str, ...] = ()


@dataclass(slots=True)
class _SharedWork:
    """A task whose result several requests wait for."""

    task: asyncio.Task[PreparedColumns]
    waiting: int = 0


class Tables:
    """Prepares each table once per settings, in a reader process, and caches the outcome."""

    def __init__(self, resources: Resources, reader: TableReader, scratch: ScratchSpace) -> None:
        self._store, self._datasets = resources.store, resources.ledger.datasets
        self.reader, self.scratch = reader, scratch
        self._cache: OrderedDict[Key, PreparedColumns] = OrderedDict()
        self._lock = Lock()  # guards the cache
        self._pending: dict[Key, _SharedWork] = {}  # only used in the event loop

    def find(self, request: ColumnsRequest) -> PreparedColumns | None:
        """Return columns that were prepared before and are still in the store, if they have to be there; or None."""
        with self._lock:
            columns = self._cache.get(request.key)
            if columns is not None:
                self._cache.move_to_end(request.key)
        usable = columns is not None and (not request.keep or self._store.has(f"columns/{columns.fingerprint}"))
        return columns if usable else None

    async def prepare(self, request: ColumnsRequest) -> PreparedColumns:
        """Return the columns of a table. Concurrent equal requests share one reader process.

        If all of them are cancelled, the process is killed.
        """
        columns = await run_sync(self.find, request)
        if columns is not None:
            return columns
        key = request.key
        if key not in self._pending:
            self._pending[key] = _SharedWork(asyncio.create_task(self._read(request)))
        work = self._pending[key]
        work.waiting += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.waiting -= 1
            if not work.waiting:
                work.task.cancel()  # which has no effect if it is done
                del self._pending[key]

    async def _read(self, request: ColumnsRequest) -> PreparedColumns:
        async with self.reader.slot(request.table.tenant):
            with self.scratch.new_folder() as folder:
                settings = request.settings.model_dump(mode="json")
                answer = await self._run_reader("prepare", request.table, Path(folder), table=settings)
                check = partial(self._check, request, Path(folder), answer)
                columns = await run_sync(check, limiter=self.reader.threads)
        with self._lock:
            self._cache[request.key] = columns
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return columns

    async def run(self, task: str, table: DatasetRow, folder: Path, **options: object) -> dict[str, Any]:
        """Run a task of reader processes on a table in this folder, as soon as its tenant may use one."""
        async with self.reader.slot(table.tenant):
            return await self._run_reader(task, table, folder, **options)

    async def _run_reader(self, task: str, stored: DatasetRow, folder: Path, **options: object) -> dict[str, Any]:
        file = folder / f"{uuid4().hex}.{stored.format}"
        try:
            await run_sync(self._store.get, f"tables/{stored.digest}", file, limiter=self.reader.threads)
        except MissingArtifactError:
            raise _gone(stored) from None
        return await self.reader.run(task, file, stored.name, **options)

    def _check(self, request: ColumnsRequest, folder: Path, answer: dict[str, Any]) -> PreparedColumns:
        """Check the columns that a reader process has written, and keep them."""
        path = folder / reader_process.COLUMNS_FILE
        columns = Columns.load(path)
        # All tenants share columns by fingerprint, so the fingerprint that the reader process reports is verified.
        if columns.fingerprint != answer["fingerprint"]:
            name = request.table.name
            raise DatasetError(f"{name} could not be prepared: its fingerprint does not match its columns.")
        if request.keep:
            # Recorded first: the columns count as bytes of the tenant, and are removed together with the table.
            if not self._datasets.add_columns(request.table, columns.fingerprint, path.stat().st_size):
                raise _gone(request.table)
            self._store.put(f"columns/{columns.fingerprint}", path)
        size = (columns.count, columns.rows, columns.classes, columns.plan_inputs["rarest"], columns.independent_rows)
        column_names = columns.column_names if request.names else ()
        return PreparedColumns(columns.fingerprint, *size, tuple(answer["notes"]), tuple(answer["leaks"]), column_names)


def _gone(table: DatasetRow) -> NotFoundError:
    return NotFoundError(
        f"The file of table {table.id} is no longer in the store.",
        field="dataset",
        remedy="Upload the same file again with POST /v1/datasets.",
    )
