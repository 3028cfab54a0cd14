"""`Tables`: convert stored tables to the columns that jobs work on.

Tables ──► TableReader ──► ReaderProcesses ──► a process for each table, with limits (`reader_process`)
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any
from uuid import uuid4

from anyio import CapacityLimiter

import scheduler
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import ArtifactStore, MissingArtifactError
from maabo_dist.data.columns import Columns
from maabo_dist.errors import DatasetError, InputError, SettingsError
from maabo_dist.settings import TableSettings
from scheduler.api import reader_process
from scheduler.api.problems import NotFoundError, UnavailableError
from scheduler.api.settings import ApiSettings
from scheduler.ledger.tenants import DatasetRow

logger = StructuredLogger("maabo.api.readers")

MAX_READERS = max(2, os.cpu_count() or 2)
CLOSING_SECONDS = 5.0
_ROOT = Path(scheduler.__file__).resolve().parent.parent
_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "HOME"),
    *("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"),
)
_SINGLE_THREADED = {
    # Threads do not survive a fork, and they reserve memory that would count against the limit.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}


class ReaderProcesses:
    """Forks one process per table from a parent process without connections or secrets.

    The parent is started on first use, and restarted if it was killed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._parent: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def run(self, folder: Path, seconds: float) -> bool:
        """Run a process on the request in this folder until it ends; return False if it was killed for time."""
        end = monotonic() + seconds
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs, self._lock:
                message = [str(folder).encode()], [theirs.fileno()]
                try:
                    socket.send_fds(self._control or self._start_parent(), *message)
                except OSError:  # the parent is gone: start another one
                    socket.send_fds(self._start_parent(), *message)
            process = _receive(ours, end)
            if process == b"":
                raise UnavailableError("The reader process has ended and is being restarted. Try again.")
            if process is None or _receive(ours, end) == b"":
                return process is not None
            # The socket is still open, so the process is alive and its ID has not been reused.
            os.killpg(int(process), signal.SIGKILL)
            _receive(ours, monotonic() + CLOSING_SECONDS)
        return False

    def close(self) -> None:
        """Stop the parent process."""
        with self._lock:
            parent, self._parent = self._parent, None
            if self._control is not None:
                self._control.close()
        if parent is not None:
            try:
                parent.wait(CLOSING_SECONDS)
            except subprocess.TimeoutExpired:
                parent.kill()
                parent.wait()

    def _start_parent(self) -> socket.socket:
        if self._parent is not None:
            self._parent.kill()
            self._parent.wait()
        # No MAABO_… variables are passed on: they contain the passwords of the cluster.
        variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._parent = subprocess.Popen(
                [sys.executable, "-P", "-m", "scheduler.api.reader_process"],
                cwd="/",
                env=variables | _SINGLE_THREADED | {"PYTHONPATH": path},
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server only
            )
        return self._control


class TableReader:
    """Runs reader processes, few at a time, and converts their failures to errors about the table."""

    def __init__(self, settings: ApiSettings, processes: ReaderProcesses) -> None:
        self._settings, self._processes = settings, processes
        self._slots = BoundedSemaphore(MAX_READERS)
        # Limits the threads in which coroutines wait for readers.
        self.limiter = CapacityLimiter(MAX_READERS)

    def run(self, task: str, file: Path, name: str, **options: object) -> dict[str, Any]:
        """Run a task on the table in `file`, which is in a folder of its own; errors call the table `name`."""
        settings = self._settings
        request = {
            "task": task,
            "file": file.name,
            "columns": settings.upload_columns,
            "bytes": settings.read_bytes,
            "seconds": settings.read_seconds,
            **options,
        }
        (file.parent / reader_process.REQUEST_FILE).write_text(json.dumps(request))
        if not self._slots.acquire(timeout=settings.read_seconds):
            raise UnavailableError("Too many tables are being read at the moment. Try again soon.")
        try:
            in_time = self._processes.run(file.parent, settings.read_seconds)
        finally:
            self._slots.release()
        answer = _read_answer(file.parent) if in_time else None
        if answer is None:
            logger.warning("reader process was killed", table=name, in_time=in_time)
            seconds = f"{settings.read_seconds:g} seconds"
            memory_too = f"{settings.read_bytes:,} bytes of memory and {seconds}"
            raise _limit_error(name, f"{memory_too}. It is too large, or damaged" if in_time else seconds)
        if "error" in answer:
            raise self._convert_error(answer["error"], file.name, name)
        result: dict[str, Any] = answer["result"]
        return result | {"notes": [note.replace(file.name, name) for note in result["notes"]]}

    def _convert_error(self, error: dict[str, Any], file: str, name: str) -> InputError:
        if error["kind"] == reader_process.NO_MEMORY:
            return _limit_error(name, f"{self._settings.read_bytes:,} bytes of memory")
        if error["kind"] == reader_process.UNEXPECTED:
            logger.warning("unexpected error while reading a table", table=name, reason=error["detail"])
            return DatasetError(f"{name} cannot be read as a table.", remedy="Write the file again.")
        kind = SettingsError if error["kind"] == SettingsError.kind else DatasetError
        return kind(error["detail"].replace(file, name), field=error["field"], remedy=error["remedy"])


def _limit_error(name: str, limit: str) -> InputError:
    remedy = "Remove columns or rows, or write the file again."
    return DatasetError(f"{name} could not be read within {limit}.", remedy=remedy)


def _read_answer(folder: Path) -> dict[str, Any] | None:
    path = folder / reader_process.ANSWER_FILE
    try:
        answer = json.loads(path.read_bytes()) if path.stat().st_size <= reader_process.MAX_ANSWER_BYTES else None
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _receive(connection: socket.socket, end: float) -> bytes | None:
    """Return the next bytes, b"" if the other side has closed the connection, or None on timeout."""
    connection.settimeout(max(0.001, end - monotonic()))
    try:
        return connection.recv(64)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


CACHE_SIZE = 1000
Key = tuple[str, str, str, bool, bool]


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """The columns of a table under some settings: their fingerprint, size and classes."""

    fingerprint: str
    features: int
    rows: int
    classes: tuple[str, ...]
    # True if each row is a case of its own.
    independent: bool
    notes: tuple[str, ...]
    # Columns that nearly repeat the target.
    leaks: tuple[str, ...]
    # The table column of each feature, if it was asked for: wide tables have very many.
    column_names: tuple[str, ...] = ()


class Tables:
    """Prepares each table once per settings, in a reader process, and caches the outcome."""

    def __init__(self, store: ArtifactStore, reader: TableReader) -> None:
        self._store, self.reader = store, reader
        self._cache: OrderedDict[Key, PreparedColumns] = OrderedDict()
        self._pending: dict[Key, Future[PreparedColumns]] = {}
        self._lock = Lock()  # guards both dictionaries; never held while a table is read

    def prepare(
        self, table: DatasetRow, settings: TableSettings, *, keep: bool = True, names: bool = False
    ) -> PreparedColumns:
        """Return the columns of a table; concurrent calls with the same arguments share one reader process.

        The columns are put into the store unless `keep` is False, as for previews, which would otherwise leave a copy
        of the table for each combination of settings. `names` asks for the names of the columns.
        """
        # The name is part of the key because error messages contain it, and tenants must not see each other's names.
        key = (table.digest, table.name, settings.model_dump_json(), keep, names)
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
            future.set_result(self._run_reader(table, settings, keep=keep, names=names))
        except BaseException as error:  # noqa: BLE001 - raised below, and in the calls that wait
            future.set_exception(error)
        with self._lock:
            del self._pending[key]
            if future.exception() is None:
                self._cache[key] = future.result()
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return future.result()

    def _run_reader(self, table: DatasetRow, settings: TableSettings, *, keep: bool, names: bool) -> PreparedColumns:
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
            path = file.with_name(reader_process.COLUMNS_FILE)
            columns = Columns.load(path)
            # All tenants share columns by fingerprint, so the fingerprint that the reader process reports is verified.
            if columns.fingerprint != answer["fingerprint"]:
                raise DatasetError(f"{table.name} could not be prepared: its fingerprint does not match its columns.")
            if keep:
                self._store.put(f"columns/{columns.fingerprint}", path)
            size = (columns.count, columns.rows, columns.classes, columns.independent_rows)
            column_names = columns.column_names if names else ()
            notes, leaks = tuple(answer["notes"]), tuple(answer["leaks"])
            return PreparedColumns(columns.fingerprint, *size, notes, leaks, column_names)
