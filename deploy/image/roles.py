"""The roles of the image: the command of each. Arguments and environment in, command out."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from maabo_dist.errors import SettingsError

ROLES = ("scheduler", "api", "worker", "flower")
FLOWER_PORT = 5555
_ANYWHERE = "0.0.0.0"  # noqa: S104 - of the container; what of it is reached from outside is said by who runs it
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_FLOWER_CONFIG = Path(__file__).parent.parent / "local" / "flower_config.py"


def command_of(role: str, options: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """What a role runs; options are added at the end."""
    commands = {"scheduler": _scheduler, "api": _api, "worker": _worker, "flower": _flower, "maabo": _maabo}
    return [*commands[role](environment), *options]


def processes(environment: Mapping[str, str], quota: str) -> int:
    """Of a worker: as it is told, or as many as it may keep busy. `quota` is the text of cgroup's cpu.max."""
    given = environment.get("MAABO_WORKER_PROCESSES")
    if given:
        if not (given.isascii() and given.isdecimal() and 1 <= int(given) <= 1024):
            raise SettingsError(f"MAABO_WORKER_PROCESSES = {given!r}: a number from 1 to 1024 is needed.")
        return int(given)
    allowed = len(os.sched_getaffinity(0))
    limit, _, period = quota.strip().partition(" ")
    return min(allowed, math.ceil(int(limit) / int(period))) if limit.isdecimal() and period.isdecimal() else allowed


def _scheduler(_: Mapping[str, str]) -> list[str]:
    return ["python", "-m", "scheduler"]


def _api(_: Mapping[str, str]) -> list[str]:
    """Where it listens is said by MAABO_HTTP_HOST and MAABO_HTTP_PORT."""
    return ["python", "-m", "scheduler", "serve"]


def _worker(environment: Mapping[str, str]) -> list[str]:
    count = processes(environment, _QUOTA.read_text() if _QUOTA.exists() else "")
    command = ["python", "-m", "celery", "-A", "workers.app", "worker", "-E", "-l", "INFO", "-c", str(count)]
    return [*command, "--without-mingle", "--without-gossip"]


def _flower(environment: Mapping[str, str]) -> list[str]:
    """Read-only, by its configuration, and with a password: in a container it cannot tell who comes from where."""
    if not (environment.get("MAABO_FLOWER_PASSWORD_FILE") or environment.get("MAABO_FLOWER_AUTH")):
        raise SettingsError("Flower needs a password: name a file with it in MAABO_FLOWER_PASSWORD_FILE.")
    command = ["python", "-m", "celery", "-A", "deploy.local.flower_app", "flower", f"--address={_ANYWHERE}"]
    return [*command, f"--port={FLOWER_PORT}", f"--conf={_FLOWER_CONFIG}"]


def _maabo(_: Mapping[str, str]) -> list[str]:
    return ["maabo"]
