"""Exhibits of jobs in the store, `exhibits/<job>`: made where the trees are, and read where a report is asked for."""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from maabo_dist.store import ArtifactStore, MissingArtifactError

if TYPE_CHECKING:
    from maabo_dist.report import Exhibits

LARGEST = 64 << 20
"""Bytes of text; exhibits are bounded far below it."""


def artifact(job: str) -> str:
    """The name in the store."""
    return f"exhibits/{job}"


def keep_exhibits(store: ArtifactStore, job: str, exhibits: "Exhibits") -> None:
    """Store what belongs to a job's final rules."""
    from maabo_dist.report import dump_exhibits  # pandas and numba with it, which the ledger does not need

    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "exhibits"
        path.write_bytes(gzip.compress(dump_exhibits(exhibits).encode(), mtime=0))
        store.put(artifact(job), path)


def kept_exhibits(store: ArtifactStore, job: str) -> "Exhibits | None":
    """The exhibits of a job, if it has any."""
    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "exhibits"
        try:
            store.get(artifact(job), path)
        except MissingArtifactError:
            return None
        with gzip.open(path) as file:
            found: Exhibits = json.loads(file.read(LARGEST))
    return found
