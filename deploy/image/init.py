"""The init process of a container (process 1), and the directory for temporary files.

The kernel makes process 1 the parent of orphans, and delivers to it only signals that it handles. A role that ran as
process 1 would miss a SIGTERM during its start-up, and would leave zombies. Signals are blocked and waited for, so that
none arrives at a bad moment.
"""

import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
MAX_TEMPORARY_AGE = 86400.0  # in seconds; uploads and other uses take far less


def run_as_init(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command and forward signals to it; returns its exit code, or 128 plus the number of a fatal signal."""
    signals = FORWARDED | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.posix_spawnp(command[0], command, environment, setsigmask=())
    while True:
        number = signal.sigwait(signals)
        if number != signal.SIGCHLD:
            os.kill(child, number)  # the process ID is valid until the child has been waited for
        elif (code := _reap(child)) is not None:
            return code


def clear_temporary_files(environment: Mapping[str, str]) -> None:
    """Create the directory for temporary files, and remove what killed processes left there."""
    folder = Path(environment.get("TMPDIR") or "/tmp")  # noqa: S108 - in a container
    with suppress(OSError):  # the code that uses the directory reports what is wrong with it
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("maabo-*"):
            if path.is_dir() and path.stat().st_mtime < time.time() - MAX_TEMPORARY_AGE:
                shutil.rmtree(path, ignore_errors=True)


def _reap(child: int) -> int | None:
    """Wait for all processes that have ended; returns the exit code of the child if it is one of them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            exit_code = os.waitstatus_to_exitcode(status)
            code = exit_code if exit_code >= 0 else 128 - exit_code
