"""Files that deployments write."""

import os
from pathlib import Path

from maabo_dist._util.files import atomic_write


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, completely or not at all."""
    with atomic_write(path) as file:
        os.fchmod(file.fileno(), 0o600)  # while it is still empty
        file.write(text.encode())


def quote_redis(text: str) -> str:
    """Return a value as redis.conf needs it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
