"""`python -m tests.rehearsal [DIRECTORY]`: build the image's file system, run every role in it, mine a table, compare.

A directory that is given is kept, and what was built in it is taken the next time.

Exit codes: 0 all is as it should be, 1 something is not, 2 it cannot be rehearsed here.
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
from tests.rehearsal.play import play
from tests.rehearsal.rootfs import RootFs, build

TOP = Path(__file__).resolve().parent.parent.parent
_INSIDE = "MAABO_REHEARSAL"
_CLONE_NEWNET = 0x40000000


def main() -> int:
    """In two rounds: this one enters namespaces, in which the other one works."""
    if sys.platform != "linux" or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "setpriv"))):
        _say("A rehearsal mounts file systems: it needs Linux, root and util-linux's unshare, nsenter and setpriv.")
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
    _say("building, step by step…")
    image = build(parse((TOP / "deploy/image/Dockerfile").read_text()), TOP, work, _say)
    base = RootFs(work / "base")
    shutil.rmtree(work / "volumes", ignore_errors=True)
    # From here on, nothing but loopback: what listens is seen by nobody.
    _leave_network()
    cluster = Cluster(TOP, work, image, base)
    try:
        play(cluster, _say)
    except (AssertionError, TimeoutError) as error:
        for name, container in cluster.running.items():
            _say(f"--- {name}\n{container.log()[-3000:]}")
        _say(f"failed: {error}")
        return 1
    finally:
        cluster.close()
    return 0


def _leave_network() -> None:
    """For this process and all that it starts. Python has a function for it from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
