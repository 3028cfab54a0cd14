"""Whether the role of this container is well."""

import os
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from deploy.image.roles import FLOWER_PORT, ROLES
from maabo_dist.errors import SettingsError

PATIENCE = 10.0


def role_file(environment: Mapping[str, str]) -> Path:
    """Where the entry notes what it became: a probe is told nothing."""
    return Path(environment.get("MAABO_ROLE_FILE", "/tmp/maabo-role"))  # noqa: S108 - a container's own


def probe(role: str | None, environment: Mapping[str, str]) -> int:
    """0 if it is well; else 1, with a line that says what is wrong."""
    role = role or _noted(environment)
    match role:
        case "api":
            return _asked(int(environment.get("MAABO_HTTP_PORT", "8080")), "/healthz")
        case "flower":
            return _asked(FLOWER_PORT, "/healthcheck")
        case "scheduler":
            return _called(["-m", "scheduler", "health"])
        case "worker":
            return _called(["-m", "workers.health"])
        case _:
            raise SettingsError(f"{role!r} is no role; there are {', '.join(ROLES)}.")


def _noted(environment: Mapping[str, str]) -> str:
    try:
        return role_file(environment).read_text()
    except OSError:
        raise SettingsError("No role has been started here. Name the one to probe.") from None


def _asked(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return _said(f"127.0.0.1:{port}{path} does not answer: {error}")
    finally:
        connection.close()
    return 0 if status == 200 else _said(f"127.0.0.1:{port}{path} answers {status}.")


def _called(arguments: list[str]) -> int:
    return 1 if subprocess.run([sys.executable, *arguments], env=os.environ, check=False).returncode else 0  # noqa: S603


def _said(line: str) -> int:
    sys.stderr.write(f"{line}\n")
    return 1
