"""Passwords of a cluster in containers: given as files, or made at the first start of one that nobody else reaches.

/run/secrets/NAME-password ──► /run/maabo/NAME/password     (given by the operator; empty if not)
          made by us       ──► /run/maabo/NAME/password     (a volume for each name: who needs one, mounts one)
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from maabo_dist._util.files import replacing
from maabo_dist._util.hosts import is_loopback
from maabo_dist.errors import SettingsError

GIVEN, KEPT = Path("/run/secrets"), Path("/run/maabo")
READERS = 10001
"""The group that reads; services of other images are members."""
SHORTEST, LONGEST = 16, 200


@dataclass(frozen=True, slots=True)
class Secret:
    """A password: the operator's variable that names a file with it, and the address that makes it needed."""

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
    environment: Mapping[str, str], say: Callable[[str], object], given: Path = GIVEN, kept: Path = KEPT
) -> int:
    """Put every password where its readers find it; 0. Refuses where one is missing that must be given."""
    found = {secret: _given(secret, given) for secret in SECRETS}
    missing = [secret for secret, text in found.items() if text is None and not _alone(secret, environment)]
    if missing:
        raise SettingsError(_refusal(missing, environment))
    for secret, text in found.items():
        path = kept / secret.name / "password"
        if text is not None:
            _write(path, text)
        elif not path.exists():
            _write(path, secrets.token_urlsafe(32))
            say(f"maabo: a password for {secret.name} was made.\n")
    password = (kept / "redis" / "password").read_text()
    _write(kept / "redis" / "auth.conf", f"requirepass {_quoted(password)}\n")
    return 0


def write_metrics_token(kept: Path = KEPT) -> int:
    """Make the token that Prometheus reads with, once; the exit code."""
    path = kept / "metrics" / "token"
    if path.exists():
        return 0
    command = ["-m", "scheduler", "token", "create", "--tenant", "monitoring", "--scopes", "admin"]
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, *command, "--name", "Prometheus"], env=os.environ, stdout=subprocess.PIPE, check=False
    )
    if made.returncode == 0:
        _write(path, made.stdout.decode().strip())
    return made.returncode


def _alone(secret: Secret, environment: Mapping[str, str]) -> bool:
    return is_loopback(environment.get(secret.bind) or "127.0.0.1")


def _refusal(missing: list[Secret], environment: Mapping[str, str]) -> str:
    binds = dict.fromkeys(f"{secret.bind}={environment[secret.bind]}" for secret in missing)
    lines = [f"  {secret.variable}: a file with the password of {secret.name}" for secret in missing]
    return "\n".join(
        [
            f"{', '.join(binds)} lets other machines in. Passwords made by themselves are for trials on this machine;",
            f"give these in .env, each a file with one line of at least {SHORTEST} characters:",
            *lines,
        ]
    )


def _given(secret: Secret, folder: Path) -> str | None:
    """The one line in the file; None where none was given, which is an empty file."""
    try:
        text = (folder / f"{secret.name}-password").read_text(encoding="ascii").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise SettingsError(f"{secret.variable} cannot be read, or is no plain text.") from None
    if text and not (SHORTEST <= len(text) <= LONGEST and text.isprintable() and " " not in text):
        raise SettingsError(
            f"{secret.variable}: one line of {SHORTEST} to {LONGEST} characters without spaces is needed, and no other."
        )
    return text or None


def _write(path: Path, text: str) -> None:
    """For the group of readers, and whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        os.fchmod(file.fileno(), 0o440)  # before anything is in it
        if os.geteuid() == 0:
            os.fchown(file.fileno(), READERS, READERS)
        file.write(text.encode())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
