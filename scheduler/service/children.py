"""`Children`: tables from outside are read by processes of their own, few at a time, each within its limits."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from anyio import CapacityLimiter

import scheduler
from maabo_dist.cluster.logs import Journal
from maabo_dist.errors import DatasetError, InputError, SettingsError
from scheduler.service.problems import UnavailableError
from scheduler.service.reading import ANSWER, ANSWER_BYTES, NO_MEMORY, REQUEST, UNEXPECTED
from scheduler.service.settings import ServiceSettings

journal = Journal("maabo.service.children")

AT_A_TIME = max(2, os.cpu_count() or 2)
_ROOT = Path(scheduler.__file__).resolve().parent.parent
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "HOME")
_SINGLE = {
    # One thread each: there are several of them, and threads reserve memory that would count as used.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}
_ERRORS: dict[str, type[InputError]] = {"invalid-settings": SettingsError}
_TIMES_UP = {-signal.SIGXCPU, -signal.SIGALRM}


class Children:
    """Runs `scheduler.service.reading`."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
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
            code = self._wait(file.parent)
        answer = _answer(file.parent)
        if code != 0 or answer is None:
            raise self._died(name, code)
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

    def _wait(self, folder: Path) -> int | None:
        """The child's exit code; None if its time was up. Nothing of it is left when this returns."""
        process = subprocess.Popen(  # our own program, and no shell
            [sys.executable, "-P", "-m", "scheduler.service.reading"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(self._settings.read_seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # it has not been waited for, so that the number is still its own
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise

    def _refused(self, refusal: dict[str, Any], file: str, name: str) -> InputError:
        if refusal["kind"] == NO_MEMORY:
            return self._too_much(name, f"{self._settings.read_bytes:,} bytes of memory")
        if refusal["kind"] == UNEXPECTED:
            journal.warn("a table was strange to its reader", table=name, reason=refusal["detail"])
            return DatasetError(f"{name} does not read as a table.", remedy="Write the file again.")
        kind = _ERRORS.get(refusal["kind"], DatasetError)
        detail = refusal["detail"].replace(file, name)
        return kind(detail, field=refusal["field"], remedy=refusal["remedy"])

    def _died(self, name: str, code: int | None) -> InputError:
        journal.warn("a table was too much for its reader", table=name, code=code)
        if code is None or code in _TIMES_UP:
            return self._too_much(name, f"{self._settings.read_seconds:g} seconds")
        limits = f"{self._settings.read_bytes:,} bytes of memory and {self._settings.read_seconds:g} seconds"
        return self._too_much(name, limits, " It is too large, or damaged.")

    def _too_much(self, name: str, limit: str, why: str = "") -> InputError:
        return DatasetError(
            f"{name} could not be read within {limit}.{why}",
            remedy="Leave out columns or rows, or write the file again.",
        )


def _environment(folder: Path) -> dict[str, str]:
    """Nothing that is a secret: passwords of the cluster are in MAABO_… variables."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return kept | _SINGLE | {"PYTHONPATH": path, "TMPDIR": str(folder)}


def _answer(folder: Path) -> dict[str, Any] | None:
    path = folder / ANSWER
    try:
        if path.stat().st_size > ANSWER_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
