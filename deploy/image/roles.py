"""The roles of the image: the command of each, and its health check."""

import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.shared import http_problem
from maabo_dist.errors import SettingsError

ROLES = ("scheduler", "api", "worker", "flower")
FLOWER_PORT = 5555
HEALTH_TIMEOUT = 10.0
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - of the container; its operator decides what is published  # nosec B104
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_FLOWER_CONFIG = Path(__file__).parent.parent / "local" / "flower_config.py"


def role_command(role: str, options: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command of a role, with options at its end."""
    match role:
        case "worker":
            count = worker_processes(environment, _CPU_QUOTA.read_text() if _CPU_QUOTA.exists() else "")
            command = ["python", "-m", "celery", "-A", "workers.app", "worker", "-E", "-l", "INFO", "-c", str(count)]
            command += ["--without-mingle", "--without-gossip"]
        case "flower":
            command = _flower_command(environment)
        case "maabo":
            command = ["maabo"]
        case "api":  # MAABO_HTTP_HOST and MAABO_HTTP_PORT set its address
            command = ["python", "-m", "scheduler", "serve"]
        case _:
            command = ["python", "-m", "scheduler"]
    return [*command, *options]


def worker_processes(environment: Mapping[str, str], quota: str) -> int:
    """Return the number of processes of a worker; `quota` is the content of cgroup's cpu.max."""
    setting = environment.get("MAABO_WORKER_PROCESSES")
    if setting:
        if not (setting.isascii() and setting.isdecimal() and 1 <= int(setting) <= 1024):
            raise SettingsError(f"MAABO_WORKER_PROCESSES = {setting!r} must be a number from 1 to 1024.")
        return int(setting)
    cpus = len(os.sched_getaffinity(0))
    limit, _, period = quota.strip().partition(" ")
    return min(cpus, math.ceil(int(limit) / int(period))) if limit.isdecimal() and period.isdecimal() else cpus


def role_file(environment: Mapping[str, str]) -> Path:
    """Return the file in which the entry point stores the role of the container, for its health check."""
    return Path(environment.get("MAABO_ROLE_FILE", "/tmp/maabo-role"))  # noqa: S108 - in a container  # nosec B108


def check_health(role: str | None, environment: Mapping[str, str]) -> int:
    """Return 0 if the role is healthy; otherwise print a line and return 1."""
    if role is None:
        try:
            role = role_file(environment).read_text()
        except OSError:
            raise SettingsError("No role has been started in this container. Name the role to check.") from None
    match role:
        case "api":
            port, path = int(environment.get("MAABO_HTTP_PORT", "8080")), "/healthz"
        case "flower":
            port, path = FLOWER_PORT, "/healthcheck"
        case "scheduler" | "worker":
            module = ["scheduler", "health"] if role == "scheduler" else ["workers.health"]
            result = subprocess.run([sys.executable, "-m", *module], env=os.environ, check=False)  # noqa: S603
            return 1 if result.returncode else 0
        case _:
            raise SettingsError(f"There is no role {role!r}. Roles are {', '.join(ROLES)}.")
    problem = http_problem("127.0.0.1", port, path, HEALTH_TIMEOUT)
    if problem:
        sys.stderr.write(f"{problem}\n")
    return 1 if problem else 0


def _flower_command(environment: Mapping[str, str]) -> list[str]:
    """Require a password, because inside a container requests from the same machine cannot be recognized."""
    if not (environment.get("MAABO_FLOWER_PASSWORD_FILE") or environment.get("MAABO_FLOWER_AUTH")):
        raise SettingsError("Flower needs a password. Set MAABO_FLOWER_PASSWORD_FILE to a file that contains it.")
    command = ["python", "-m", "celery", "-A", "deploy.local.flower_app", "flower", f"--address={_ALL_ADDRESSES}"]
    return [*command, f"--port={FLOWER_PORT}", f"--conf={_FLOWER_CONFIG}"]
