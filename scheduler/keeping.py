"""`python -m scheduler backup` and `restore`, as commands. They need MAABO_LEDGER, MAABO_STORE and no scheduler."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import InputError

if TYPE_CHECKING:
    from scheduler.backup import Kept
    from scheduler.parts import Parts


@click.command("backup")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
@click.option("--to", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
def backup_command(jobs: tuple[str, ...], target: Path) -> int:
    """Write jobs to a file, with the tables and trees they need. They may go on meanwhile."""
    from scheduler.backup import back_up

    if not target.parent.is_dir():
        raise InputError(f"There is no directory {target.parent} to write the backup to.")
    with _parts() as parts:
        _tell("Wrote", back_up(parts.ledger, parts.store, jobs, target), target)
    return 0


@click.command("restore")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def restore_command(source: Path) -> int:
    """Bring the jobs of a backup back. Those that had not ended go on from where they were."""
    from scheduler.backup import restore

    with _parts() as parts, TemporaryDirectory(prefix="maabo-restore-") as scratch:
        _tell("Restored", restore(parts.ledger, parts.store, source, Path(scratch)), source)
    return 0


@contextmanager
def _parts() -> Iterator["Parts"]:
    from scheduler.parts import Parts

    parts = Parts.connected(ClusterSettings.from_environment(os.environ))
    try:
        yield parts
    finally:
        parts.close()


def _tell(done: str, kept: "Kept", path: Path) -> None:
    many = f"{len(kept.jobs)} job{'s' if len(kept.jobs) != 1 else ''}"
    click.echo(f"{done} {many}: {kept.rows:,} rows of the ledger and {kept.artifacts:,} artifacts ({path}).")
