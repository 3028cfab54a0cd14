"""The directory for large temporary files: on a volume, since `/tmp` of a container is memory."""

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

OLD = 86400.0
"""Seconds. Uploads and their like are done long before."""


def clear_scratch(environment: Mapping[str, str]) -> None:
    """Make the directory, and remove what a killed process left there."""
    folder = Path(environment.get("TMPDIR") or "/tmp")  # noqa: S108 - a container's own
    with suppress(OSError):  # whoever needs it says what is wrong with it
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("maabo-*"):
            if path.is_dir() and path.stat().st_mtime < time.time() - OLD:
                shutil.rmtree(path, ignore_errors=True)
