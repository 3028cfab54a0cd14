"""A server process, as `python -m scheduler serve` starts it."""

import os
import subprocess
import sys
from contextlib import contextmanager

from tests import servers


@contextmanager
def serving(settings, directory):
    """Gives a function that waits for it, and gives the address: other parts may start meanwhile."""
    log_path = directory / "server.log"
    command = [sys.executable, "-m", "scheduler", "serve", "--port", "0"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=servers.ROOT, env=os.environ | settings.environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield lambda: servers.wait_for(lambda: _address(log_path, process), what="a server that listens")
    finally:
        process.terminate()
        process.wait()


def _address(log_path, process):
    assert process.poll() is None, log_path.read_text()
    lines = [line for line in log_path.read_text().splitlines() if "listening on http" in line]
    return lines[0].rsplit(" ", 1)[1] if lines else None
