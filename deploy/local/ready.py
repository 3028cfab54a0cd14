"""The ready file: written when all is healthy, rewritten when a process changes, gone when the cluster stops."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.local.directory import write_private
from deploy.local.processes import Plan


class ReadyFile:
    """Tells programs where the cluster is. Only its user reads it: the address of Redis has the password in it."""

    def __init__(self, path: Path | None, plan: Plan) -> None:
        self._path, self._plan = path, plan
        self._written: dict[str, Any] | None = None
        self.remove()  # one that a killed cluster left would be taken for this one's

    def write(self, processes: Sequence[tuple[str, int]]) -> None:
        """Write it if it would say something new."""
        content = {
            "redis": self._plan.settings.redis_url,
            "http": self._plan.http_url,
            "flower": self._plan.flower_url,
            "processes": [{"role": role, "pid": pid} for role, pid in processes],
        }
        if self._path is not None and content != self._written:
            write_private(self._path, json.dumps(content, indent=2) + "\n")
            self._written = content

    def remove(self) -> None:
        """Take it away."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
