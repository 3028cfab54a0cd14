"""The start of a container: machine code of the kernels, temporary files, and the init process (process 1).

Kernels are compiled once when the image is built, for any processor of a family.
numba's cache depends on the name and the features of the processor. Code for the processor that built the image would
be compiled again, for minutes, by every container on another one. So it is compiled for a level that all servers of
the last ten years support, which was measured to be as fast. numba writes to its cache directory, and the image is
read-only: a container copies the cache to a writable directory, some 8 MB in milliseconds.

The operating system makes process 1 the parent of orphans, and delivers to it only signals that it handles. A role that
ran as process 1 would miss a SIGTERM during its start-up, and would leave zombies. Signals are blocked and waited for,
so that none arrives at a bad moment.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from maabo_dist.errors import SettingsError

IMAGE_KERNELS = "/opt/maabo/kernels"
CACHE_VARIABLE = "NUMBA_CACHE_DIR"
_V3_FLAGS = {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "popcnt", "sse4_1", "sse4_2", "ssse3"}
_CPU_INFO = Path("/proc/cpuinfo")


def numba_target(machine: str, cpu_info: str) -> dict[str, str]:
    """Return the variables that make numba compile for the level; empty if the processor does not support it."""
    level = "x86-64-v3" if machine == "x86_64" else "generic"
    flags = {word for line in cpu_info.splitlines() if line.startswith("flags") for word in line.split()}
    supported = level == "generic" or flags >= _V3_FLAGS
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""} if supported else {}


def compile_kernels(folder: Path) -> int:
    """Compile the kernels into a folder and run them once, and return the exit code."""
    target = _local_target()
    if not target:
        raise SettingsError("This processor is older than x86-64-v3, or /proc is missing: build on another machine.")
    environment = os.environ | target | {CACHE_VARIABLE: str(folder)}
    return subprocess.run([sys.executable, "-m", "maabo_dist.warm"], env=environment, check=False).returncode


def install_kernels(environment: Mapping[str, str], report: Callable[[str], object]) -> dict[str, str]:
    """Copy the kernels to where numba may write, and return the variables that let numba find them.

    If that fails, a role still works, and compiles the kernels it needs.
    """
    target = _local_target()
    if not target:
        report("maabo: this processor is older than x86-64-v3; compiling kernels for it now, which takes minutes.\n")
    try:
        shutil.copytree(
            environment.get("MAABO_KERNELS", IMAGE_KERNELS), environment[CACHE_VARIABLE], dirs_exist_ok=True
        )
    except (KeyError, OSError, shutil.Error) as error:
        report(f"maabo: the kernels of the image cannot be used, so they are compiled now: {error}\n")
    return target


def _local_target() -> dict[str, str]:
    return numba_target(platform.machine(), _CPU_INFO.read_text() if _CPU_INFO.exists() else "")


FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
MAX_TEMPORARY_AGE = 86400.0  # in seconds; uploads and other uses take far less


def run_as_init(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command and forward signals to it, and return its exit code, or 128 plus the number of a fatal signal."""
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
    folder = Path(environment.get("TMPDIR") or "/tmp")  # noqa: S108 - in a container  # nosec B108
    with suppress(OSError):  # the code that uses the directory reports what is wrong with it
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("maabo-*"):
            if path.is_dir() and path.stat().st_mtime < time.time() - MAX_TEMPORARY_AGE:
                shutil.rmtree(path, ignore_errors=True)


def _reap(child: int) -> int | None:
    """Wait for all processes that have ended, and return the exit code of the child if it is one of them."""
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
