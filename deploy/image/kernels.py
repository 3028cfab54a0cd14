"""Machine code of the kernels: compiled once, when the image is built, for any processor of a family.

numba keys its cache by the name and the features of the processor. What was compiled for the one of the machine that
built the image would be compiled again, for minutes, by every container on another one. So it is compiled for a level
that all servers of the last ten years have (measured: as fast as for the very processor). numba writes beside what it
reads, and the image is read-only: the cache is copied to where it may, which takes some 8 MB and milliseconds.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from maabo_dist.errors import SettingsError

BAKED = "/opt/maabo/kernels"
CACHE = "NUMBA_CACHE_DIR"
_LEVELS = {"x86_64": "x86-64-v3"}
_V3 = ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "popcnt", "sse4_1", "sse4_2", "ssse3")
_NEEDED = {"x86-64-v3": frozenset(_V3)}
_INFO = Path("/proc/cpuinfo")


def target(machine: str, info: str) -> dict[str, str]:
    """What numba is to compile for on such a machine; nothing where it is best left to itself: too old a processor."""
    level = _LEVELS.get(machine, "generic")
    flags = {word for line in info.splitlines() if line.startswith("flags") for word in line.split()}
    fits = _NEEDED.get(level, frozenset()) <= flags
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""} if fits else {}


def bake(folder: Path) -> int:
    """Compile into this folder; the exit code. What is compiled is run, too: by a processor that can."""
    found = _target_here()
    if not found:
        raise SettingsError("This processor is older than x86-64-v3, or /proc does not tell: others could use nothing.")
    own = os.environ | found | {CACHE: str(folder)}
    return subprocess.run([sys.executable, "-m", "maabo_dist.warm"], env=own, check=False).returncode


def unpack(environment: Mapping[str, str], say: Callable[[str], object]) -> dict[str, str]:
    """Put the kernels where numba may write; the variables that let it find them.

    Without a place or without kernels a role works all the same, and compiles what it needs.
    """
    found = _target_here()
    if not found:
        say("maabo: this processor is older than x86-64-v3; kernels are compiled for it now, which takes minutes.\n")
    try:
        shutil.copytree(environment.get("MAABO_KERNELS", BAKED), environment[CACHE], dirs_exist_ok=True)
    except (KeyError, OSError, shutil.Error) as error:
        say(f"maabo: the kernels of the image cannot be used, and are compiled now: {error}\n")
    return found


def _target_here() -> dict[str, str]:
    return target(platform.machine(), _INFO.read_text() if _INFO.exists() else "")
