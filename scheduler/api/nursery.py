"""`Nursery`: forks a process for each table, from one that has nothing of the server's: no connection, no secret."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic

import scheduler
from scheduler.api.problems import UnavailableError

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


class Nursery:
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
                [sys.executable, "-P", "-m", "scheduler.api.reading"],
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
