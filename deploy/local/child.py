"""`Child`: a process of the cluster with all that it starts, and its log."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deploy.local.directory import rotate
from deploy.local.processes import ROOT, Part

_PR_SET_PDEATHSIG = 1


class Child:
    """A started part. It has a session of its own, so that the terminal's Ctrl-C does not reach it."""

    def __init__(self, part: Part, log: Path, lock: int) -> None:
        rotate(log)
        with log.open("ab") as file:
            self._log, self._log_start = log, file.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                part.command,
                cwd=ROOT,
                env=part.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,  # tables and jobs are this user's
                pass_fds=(lock,),
                preexec_fn=_signalled_as_orphan(part.orphan_signal),  # noqa: PLW1509 - this process has one thread
            )

    @property
    def pid(self) -> int:
        """Of the part's main process."""
        return self._process.pid

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def terminate(self) -> None:
        """Ask it to stop in its own way."""
        self._process.terminate()

    def kill(self) -> None:
        """End at once whatever is left of it: also the children that a killed main process leaves behind."""
        with suppress(ProcessLookupError, PermissionError):  # macOS has the latter for a group of the dead
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        """What it has logged since it was started."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


def _signalled_as_orphan(number: signal.Signals) -> Callable[[], None] | None:
    """What a new process does before its program starts: on Linux, it asks for a signal for when this process is gone.

    Elsewhere, what a killed supervisor leaves behind holds the lock of the data directory until it is ended by hand.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it was killed before the line above
            os._exit(1)

    return ask
