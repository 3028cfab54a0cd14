"""Read uploaded tables in separate processes with limits on memory, time and file size."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any

from anyio import CapacityLimiter

import scheduler
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import DatasetError, InputError, SettingsError
from scheduler.api.problems import UnavailableError
from scheduler.api.reader_process import ANSWER, ANSWER_BYTES, NO_MEMORY, REQUEST, UNEXPECTED
from scheduler.api.settings import ApiSettings

CLOSING_SECONDS = 5.0
_ROOT = Path(scheduler.__file__).resolve().parent.parent
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "HOME", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
_SINGLE = {
    # One thread each: threads do not survive a fork, and reserve memory that would count as used.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}


class ReaderProcesses:
    """Started when it is needed first, and again if it was killed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def run(self, folder: Path, seconds: float) -> bool:
        """Let a child answer the request in this folder; False if its time was up. Either way it is gone then."""
        end = monotonic() + seconds
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                self._send(folder, theirs)
            number = _heard(ours, end)
            if number == b"":
                raise UnavailableError("The process that reads tables has ended; another one is started. Try again.")
            if number is None or _heard(ours, end) == b"":
                return number is not None
            # The socket is open, so that the child lives and the number is its own.
            os.killpg(int(number), signal.SIGKILL)
            _heard(ours, monotonic() + CLOSING_SECONDS)
        return False

    def close(self) -> None:
        """Nothing more is to be read."""
        with self._lock:
            process, self._process = self._process, None
            if self._control is not None:
                self._control.close()
        if process is not None:
            try:
                process.wait(CLOSING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _send(self, folder: Path, line: socket.socket) -> None:
        message = [str(folder).encode()], [line.fileno()]
        with self._lock:
            if self._control is not None:
                with suppress(OSError):  # it is gone: another one
                    socket.send_fds(self._control, *message)
                    return
            socket.send_fds(self._started(), *message)

    def _started(self) -> socket.socket:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "scheduler.api.reader_process"],
                cwd="/",
                env=_environment(),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server
            )
        return self._control


def _heard(line: socket.socket, end: float) -> bytes | None:
    """What comes next: some bytes, none if the other side is closed; None if the time is up."""
    line.settimeout(max(0.001, end - monotonic()))
    try:
        return line.recv(64)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


def _environment() -> dict[str, str]:
    """Nothing that is a secret: passwords of the cluster are in MAABO_… variables."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return kept | _SINGLE | {"PYTHONPATH": path}


logger = StructuredLogger("maabo.api.children")

AT_A_TIME = max(2, os.cpu_count() or 2)
_ERRORS: dict[str, type[InputError]] = {"invalid-settings": SettingsError}


class TableReader:
    """Each lives for one table."""

    def __init__(self, settings: ApiSettings, reader_processes: ReaderProcesses) -> None:
        self._settings, self._nursery = settings, reader_processes
        self._places = BoundedSemaphore(AT_A_TIME)
        self.limiter = CapacityLimiter(AT_A_TIME)
        """Of threads that wait for a child on behalf of what runs in the event loop."""

    def run(self, act: str, file: Path, name: str, **more: object) -> dict[str, Any]:
        """What a child found out about the table in `file`, which lies in a folder of its own.

        The table is called `name` in whatever is wrong with it.
        """
        asked = {"act": act, "file": file.name, **more, **self._limits()}
        (file.parent / REQUEST).write_text(json.dumps(asked))
        with self._a_place():
            in_time = self._nursery.run(file.parent, self._settings.read_seconds)
        answer = _answer(file.parent) if in_time else None
        if answer is None:
            raise self._killed(name, in_time=in_time)
        if "refused" in answer:
            raise self._refused(answer["refused"], file.name, name)
        found: dict[str, Any] = answer["found"]
        return found

    def _limits(self) -> dict[str, float]:
        settings = self._settings
        return {"columns": settings.upload_columns, "bytes": settings.read_bytes, "seconds": settings.read_seconds}

    @contextmanager
    def _a_place(self) -> Iterator[None]:
        if not self._places.acquire(timeout=self._settings.read_seconds):
            raise UnavailableError("Too many tables are being read at the moment. Try again soon.")
        try:
            yield
        finally:
            self._places.release()

    def _refused(self, refusal: dict[str, Any], file: str, name: str) -> InputError:
        if refusal["kind"] == NO_MEMORY:
            return self._too_much(name, f"{self._settings.read_bytes:,} bytes of memory")
        if refusal["kind"] == UNEXPECTED:
            logger.warning("a table was strange to its reader", table=name, reason=refusal["detail"])
            return DatasetError(f"{name} does not read as a table.", remedy="Write the file again.")
        kind = _ERRORS.get(refusal["kind"], DatasetError)
        detail = refusal["detail"].replace(file, name)
        return kind(detail, field=refusal["field"], remedy=refusal["remedy"])

    def _killed(self, name: str, *, in_time: bool) -> InputError:
        logger.warning("a table was too much for its reader", table=name, in_time=in_time)
        seconds = f"{self._settings.read_seconds:g} seconds"
        if not in_time:
            return self._too_much(name, seconds)
        limits = f"{self._settings.read_bytes:,} bytes of memory and {seconds}"
        return self._too_much(name, limits, " It is too large, or damaged.")

    def _too_much(self, name: str, limit: str, why: str = "") -> InputError:
        return DatasetError(
            f"{name} could not be read within {limit}.{why}",
            remedy="Leave out columns or rows, or write the file again.",
        )


def _answer(folder: Path) -> dict[str, Any] | None:
    path = folder / ANSWER
    try:
        if path.stat().st_size > ANSWER_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
