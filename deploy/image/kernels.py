"""Machine code of the kernels, compiled once when the image is built, for any processor of a family.

numba's cache depends on the name and the features of the processor. Code for the processor that built the image would
be compiled again, for minutes, by every container on another one. So it is compiled for a level that all servers of
the last ten years support, which was measured to be as fast. numba writes to its cache directory, and the image is
read-only: a container copies the cache to a writable directory, some 8 MB in milliseconds.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
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
    """Compile the kernels into a folder and run them once; returns the exit code."""
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
