"""`python -m tests.rehearsal [DIRECTORY]`: build the image's file system, run every role in it, and mine a table.

A given directory is kept, and the next run reuses what was built in it.

Exit codes: 0 success, 1 a check failed, 2 this machine cannot run it.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.dockerfile import parse
from tests.rehearsal.rootfs import RootFs, build
from tests.rehearsal.scenario import run_scenario

ROOT = Path(__file__).resolve().parent.parent.parent
_INSIDE = "MAABO_REHEARSAL"
_CLONE_NEWNET = 0x40000000


def main() -> int:
    """Start this program again in new namespaces, and run the scenario there."""
    if sys.platform != "linux" or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "setpriv"))):
        _print("This mounts file systems: it needs Linux, root and util-linux's unshare, nsenter and setpriv.")
        return 2
    if _INSIDE in os.environ:
        return _rehearse(Path(os.environ.pop(_INSIDE)))
    work = Path(sys.argv[1]).absolute() if sys.argv[1:] else Path(mkdtemp(prefix="maabo-rehearsal-"))
    work.mkdir(exist_ok=True)
    work.chmod(0o755)
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m"]
    try:
        return subprocess.run(
            [*command, "tests.rehearsal"], env=os.environ | {_INSIDE: str(work)}, check=False
        ).returncode
    finally:
        if not sys.argv[1:]:
            shutil.rmtree(work, ignore_errors=True)


def _rehearse(work: Path) -> int:
    _print("building, step by step…")
    image = build(parse((ROOT / "deploy/image/Dockerfile").read_text()), ROOT, work, _print)
    base = RootFs(work / "base")
    shutil.rmtree(work / "volumes", ignore_errors=True)
    # Only loopback from here on, so that no server can be reached from outside.
    _leave_network()
    cluster = Cluster(ROOT, work, image, base)
    try:
        run_scenario(cluster, _print)
    except (AssertionError, TimeoutError) as error:
        for name, container in cluster.running.items():
            _print(f"--- {name}\n{container.log()[-3000:]}")
        _print(f"failed: {error}")
        return 1
    finally:
        cluster.close()
    return 0


def _leave_network() -> None:
    """Give this process and its children an empty network. Python has a function for this from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
