"""Builds the image and runs the compose file in namespaces; takes about five minutes."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.servers import ROOT, postgres_programs

NEEDED = ("unshare", "nsenter", "setpriv", "ip")


@pytest.mark.soak
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not all(map(shutil.which, NEEDED)),
    reason="mounts file systems, which needs Linux, root and util-linux",
)
@pytest.mark.skipif(postgres_programs() is None, reason="PostgreSQL is not installed; it is the ledger")
def test_the_rehearsed_image_mines_what_one_process_mines_and_shows_no_secret():
    done = subprocess.run(
        [sys.executable, "-m", "tests.rehearsal"], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
    )

    assert done.returncode == 0, done.stderr[-6000:]
    assert "every role stopped on SIGTERM" in done.stderr
