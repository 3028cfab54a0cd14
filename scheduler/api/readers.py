"""`TableReader`: runs tasks on tables in processes with limits (`reader_process`), a few at a time.

TableReader ──► ReaderProcesses ──► a process for each table
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

import scheduler
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import DatasetError, InputError, SettingsError
from scheduler.api import reader_process
from scheduler.api.problems import UnavailableError
from scheduler.api.settings import ApiSettings
from scheduler.api.slots import FairSlots

logger = StructuredLogger("maabo.api.readers")

MAX_READERS = max(2, os.cpu_count() or 2)
MAX_WAITING = 100  # requests of a tenant that wait for a slot
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

    async def run(self, folder: Path, seconds: float) -> bool:
        """Run a process on the request in this folder until it ends; return False if it was killed for time.

        If the caller is cancelled, the process is killed too.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with ours:
            with theirs:
                await run_sync(self._fork, folder, theirs)
            process = b""
            try:
                async with asyncio.timeout(seconds):
                    process = await _receive(ours)
                    if process == b"":
                        raise UnavailableError("The reader process has ended and is being restarted. Try again.")
                    await _receive(ours)
            except (TimeoutError, asyncio.CancelledError) as error:
                if process:
                    # The socket is still open, so the process is alive and its ID has not been reused.
                    os.killpg(int(process), signal.SIGKILL)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CLOSING_SECONDS):
                            await _receive(ours)
                if isinstance(error, asyncio.CancelledError):
                    raise
                return False
        return True

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

    def _fork(self, folder: Path, connection: socket.socket) -> None:
        """Have the parent fork a process that uses this connection."""
        message = [str(folder).encode()], [connection.fileno()]
        with self._lock:
            try:
                socket.send_fds(self._control or self._start_parent(), *message)
            except OSError:  # the parent is gone: start another one
                socket.send_fds(self._start_parent(), *message)

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
    """Runs reader processes and converts their failures to errors about the table."""

    def __init__(self, settings: ApiSettings, processes: ReaderProcesses) -> None:
        self._settings, self._processes = settings, processes
        self._slots = FairSlots(MAX_READERS, MAX_WAITING)
        # The threads of those who have a slot; requests that need none must not wait for them.
        self.threads = CapacityLimiter(MAX_READERS)

    def slot(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, which everything that takes long with a table needs, and hold it."""
        return self._slots.slot(tenant, self._settings.read_seconds)

    async def run(self, task: str, file: Path, name: str, **options: object) -> dict[str, Any]:
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
        in_time = await self._processes.run(file.parent, settings.read_seconds)
        answer = await run_sync(_read_answer, file.parent, limiter=self.threads) if in_time else None
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


async def _receive(connection: socket.socket) -> bytes:
    """Return the next bytes, or b"" when the other side has closed the connection."""
    try:
        return await asyncio.get_running_loop().sock_recv(connection, 64)
    except ConnectionError:
        return b""
