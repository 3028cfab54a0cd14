"""Passwords of a cluster in containers: given by the operator, or generated if only this machine can reach it.

/run/secrets/NAME-password ──► /run/maabo/NAME/password     (empty if the operator provides none)
          generated        ──► /run/maabo/NAME/password     (one volume per password, mounted where it is needed)
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.shared import quote_redis
from maabo_dist._util.files import atomic_write
from maabo_dist._util.network import is_loopback
from maabo_dist.errors import SettingsError

INPUT, OUTPUT = Path("/run/secrets"), Path("/run/maabo")
READERS = 10001  # the group that may read passwords; services of other images are members
MIN_LENGTH, MAX_LENGTH = 16, 200


@dataclass(frozen=True, slots=True)
class Secret:
    """A password: the variable that names its file, and the variable with the address that can make it required."""

    name: str
    variable: str
    bind: str = "MAABO_BIND"


SECRETS = (
    Secret("redis", "MAABO_REDIS_PASSWORD_FILE"),
    Secret("ledger", "MAABO_LEDGER_PASSWORD_FILE"),
    Secret("flower", "MAABO_FLOWER_PASSWORD_FILE"),
    Secret("grafana", "MAABO_GRAFANA_PASSWORD_FILE", "MAABO_MONITORING_BIND"),
)


def prepare_secrets(
    environment: Mapping[str, str], report: Callable[[str], object], input_dir: Path = INPUT, output: Path = OUTPUT
) -> int:
    """Write every password to where its readers expect it and return 0; raise if a required one is missing."""
    passwords = {secret: _read_password(secret, input_dir) for secret in SECRETS}
    exposed = {secret for secret in SECRETS if not is_loopback(environment.get(secret.bind) or "127.0.0.1")}
    missing = [secret for secret, text in passwords.items() if text is None and secret in exposed]
    if missing:
        raise SettingsError(_describe_missing(missing, environment))
    for secret, text in passwords.items():
        path = output / secret.name / "password"
        if text is not None:
            _write(path, text)
        elif not path.exists():
            _write(path, secrets.token_urlsafe(32))
            report(f"maabo: generated a password for {secret.name}.\n")
    password = (output / "redis" / "password").read_text()
    _write(output / "redis" / "auth.conf", f"requirepass {quote_redis(password)}\n")
    return 0


def write_metrics_token(output: Path = OUTPUT) -> int:
    """Create the token that Prometheus uses, unless it exists, and return the exit code."""
    path = output / "metrics" / "token"
    if path.exists():
        return 0
    command = ["-m", "scheduler", "token", "create", "--tenant", "monitoring", "--scopes", "admin"]
    result = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, *command, "--name", "Prometheus"], env=os.environ, stdout=subprocess.PIPE, check=False
    )
    if result.returncode == 0:
        _write(path, result.stdout.decode().strip())
    return result.returncode


def _describe_missing(missing: list[Secret], environment: Mapping[str, str]) -> str:
    binds = dict.fromkeys(f"{secret.bind}={environment[secret.bind]}" for secret in missing)
    lines = [
        f"{', '.join(binds)} is reachable from other machines, so passwords must be set explicitly.",
        f"Set these in .env, each to a file with one line of at least {MIN_LENGTH} characters:",
        *(f"  {secret.variable}: a file with the password of {secret.name}" for secret in missing),
    ]
    return "\n".join(lines)


def _read_password(secret: Secret, folder: Path) -> str | None:
    """Return the line in the file; None if no password was given, which leaves the file empty."""
    try:
        text = (folder / f"{secret.name}-password").read_text(encoding="ascii").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise SettingsError(f"{secret.variable} cannot be read, or is not plain text.") from None
    if text and not (MIN_LENGTH <= len(text) <= MAX_LENGTH and text.isprintable() and " " not in text):
        raise SettingsError(
            f"{secret.variable}: the file must have one line of {MIN_LENGTH} to {MAX_LENGTH} characters without spaces."
        )
    return text or None


def _write(path: Path, text: str) -> None:
    """Atomically write a file that the group READERS can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        os.fchmod(file.fileno(), 0o440)  # while it is still empty
        if os.geteuid() == 0:
            os.fchown(file.fileno(), READERS, READERS)
        file.write(text.encode())
