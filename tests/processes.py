"""Processes that tests start, watch by their logs, signal and end."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from tests import servers


class Process:
    """A child of ours with a log. It leads a session, so that all of its children can be ended with it."""

    def __init__(self, command, environment, log, root=servers.ROOT):
        self.log_path = Path(log)
        with self.log_path.open("ab") as file:
            self._popen = subprocess.Popen(
                command,
                cwd=root,
                env=os.environ | environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self._popen.pid

    @property
    def alive(self):
        return self._popen.poll() is None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def children(self):
        """Process ids of the children: of a worker, those that run tasks."""
        return [child.pid for child in psutil.Process(self.pid).children()]

    def ready(self, mark, seconds=60):
        servers.wait_for(lambda: mark in self.log or not self.alive, seconds, what=f"{mark!r} in {self.log_path}")
        assert self.alive, self.log
        return self

    def signal(self, number):
        os.kill(self.pid, number)

    def exit_code(self, seconds):
        return self._popen.wait(seconds)

    def end(self):
        """Whatever is left of it."""
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
        self._popen.wait()
