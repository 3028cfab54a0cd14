"""Processes that tests start, observe by their logs, signal and kill."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from tests import forked, servers


class Process:
    """A child process with a log. It leads a session, so that its own children can be killed with it."""

    def __init__(self, command, environment, log, root=servers.ROOT, *, fork=False):
        self.log_path, environment = Path(log), os.environ | environment
        with self.log_path.open("ab") as file:
            if fork:
                self._popen = forked.start(command, env=environment, stdout=file, start_new_session=True)
            else:
                self._popen = subprocess.Popen(
                    command, cwd=root, env=environment, stdout=file, stderr=file, start_new_session=True
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
        """The ids of its child processes; those of a worker run tasks."""
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
        """Kill all remaining processes of the session."""
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
        self._popen.wait()
