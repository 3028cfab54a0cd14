"""Schedulers, API servers and workers in processes forked from one that has imported them and loaded the kernels.

    start() ──► parent ──► keeper ──► program
                           waits for it and sends its exit code

This saves most of the time that a program takes to start. Slow and soak tests start programs as users do (`ENABLED` is
False), and so do tests of the start itself.
"""

import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
MAX_REQUEST = 1 << 17
ENABLED = False
_lock, _parents = threading.Lock(), []


def start(command, *, env, stdout, stderr=None, start_new_session=False):
    """Start a command `python -m module …` in the directory of the project, as `subprocess.Popen` does."""
    stderr = stdout if stderr is None else stderr
    if not ENABLED:
        return subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=stdout, stderr=stderr, start_new_session=start_new_session
        )
    assert command[:2] == [sys.executable, "-m"], command
    request = {"command": command[2:], "environment": dict(env), "session": start_new_session}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, _lock:
        descriptors = [file.fileno() for file in (theirs, stdout, stderr)]
        socket.send_fds(_control(), [json.dumps(request).encode()], descriptors)
    return ForkedProcess(ours)


def run(command, *, env, timeout):
    """Run a command until it ends, as `subprocess.run` does with `capture_output` and `text`."""
    with TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        process = start(command, env=env, stdout=stdout, stderr=stderr)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, stdout.read(), stderr.read())


def stop():
    """Stop the parent process."""
    for parent, control in _parents:
        control.close()
        parent.wait()
    _parents.clear()


def _control():
    """The socket of the parent process, which is started on first use."""
    if not _parents:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-m", "tests.forked", str(number)]
            _parents.append((subprocess.Popen(command, cwd=ROOT, pass_fds=[number]), ours))
    return _parents[0][1]


class ForkedProcess:
    """Has the methods of `subprocess.Popen` that tests use."""

    def __init__(self, connection):
        self._connection, self.returncode = connection, None
        self.pid = int(connection.recv(32))

    def poll(self):
        with suppress(BlockingIOError, TimeoutError):
            self._receive(0)
        return self.returncode

    def wait(self, timeout=None):
        try:
            self._receive(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _receive(self, timeout):
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._connection.recv(32))
            self._connection.close()


def _fork_on_request(control):
    """Fork a process for each request; return its command in that process, and None when the tests have ended."""
    while True:
        message, descriptors, *_ = socket.recv_fds(control, MAX_REQUEST, 3)
        _reap()
        if not message:
            return None
        if os.fork() == 0:
            control.close()
            return _keep(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap():
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _keep(request, connection, *output):
    """Fork the program, and send its exit code when it ends; in the program, return its command."""
    with socket.socket(fileno=connection) as client:
        program = os.fork()
        if program == 0:
            _set_up(request, client, output)
            return request["command"]
        for descriptor in output:
            os.close(descriptor)
        _, status = os.waitpid(program, 0)
        with suppress(BrokenPipeError):
            client.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _set_up(request, client, output):
    if request["session"]:
        os.setsid()
    for descriptor, stream in zip(output, (1, 2), strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    client.send(str(os.getpid()).encode())
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None


def _preload():
    """Import what the programs import, except the application of the workers, which reads the environment."""
    for module in (
        "scheduler.cli",
        "scheduler.core.loop",
        "scheduler.api.server",
        "celery.apps.worker",
        "celery.bin.celery",
        "celery.concurrency.prefork",
        "celery.concurrency.thread",
        "celery.worker.consumer",
        "kombu.transport.redis",
        "workers.celery_hooks",
        "workers.guard",
        "workers.passes",
        "workers.tasks",
    ):
        import_module(module)
    from maabo_dist.warm import warm

    warm()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _preload()
    program = _fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        sys.argv = program
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
