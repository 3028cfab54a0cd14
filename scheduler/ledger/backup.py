"""Backups: jobs with their tables and trees in one tar file, and back.

Rows of the ledger are lines of JSON, without tasks in flight and leases: after a restore, the tasks are sent again.
"""

import json
import tarfile
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any

from sqlalchemy import Connection, LargeBinary, Table, insert, select

from maabo_dist._util.files import atomic_write, file_digest
from maabo_dist._version import __version__
from maabo_dist.cluster.store import ArtifactStore, MissingArtifactError, check_name, figures_name
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, InputError
from scheduler.ledger import Ledger, find_artifacts, schema
from scheduler.ledger.database import DuplicateError
from scheduler.ledger.jobs import JOB_COLUMNS, read_job
from scheduler.ledger.schema import (
    batches,
    blocks,
    datasets,
    jobs,
    pass_blocks,
    passes,
    results,
    screens,
    shuffle_plans,
    shuffles,
)

SEARCH = (batches, results, screens, blocks, shuffle_plans, shuffles, passes, pass_blocks)
# Tables included in a backup, by name; jobs first.
TABLES = {table.name: table for table in (jobs, *SEARCH, datasets)}
# Rows written at a time.
CHUNK = 500
NO_LEASE = {"owner": None, "lease_until": 0.0}


def dump_rows(connection: Connection, job: str, table: Table) -> Iterator[str]:
    """The rows of a table that belong to a job, as lines of JSON."""
    if table is jobs:
        query = select(jobs).where(jobs.c.id == job)
    elif table is datasets:
        query = select(datasets).join(jobs, jobs.c.dataset == datasets.c.id).where(jobs.c.id == job)
    else:
        query = select(table).where(table.c.job == job)
    for row in connection.execute(query).mappings():
        values = {
            name: b64encode(value).decode() if _is_bytes(table, name, value) else value for name, value in row.items()
        }
        yield json.dumps(values) + "\n"


def _read(table: Table, line: bytes | str) -> dict[str, Any]:
    """Validate a line: these columns and no others, and a job that this version can read."""
    try:
        values = json.loads(line)
        unknown = set(values) - {column.name for column in table.columns}
        if unknown:
            raise ValueError(f"unknown column {min(unknown)!r}")
        row = {
            name: b64decode(value, validate=True) if _is_bytes(table, name, value) else value
            for name, value in values.items()
        }
        if table is jobs:
            row |= NO_LEASE
            read_job([row.get(column.name) for column in JOB_COLUMNS])
    except (FormatError, TypeError, KeyError, ValueError) as error:
        raise FormatError(f"A row of {table.name} in the backup is invalid: {error}.") from error
    return row


def _is_bytes(table: Table, name: str, value: object) -> bool:
    return isinstance(table.c[name].type, LargeBinary) and value is not None


FORMAT = "maabo-backup/1"
HEAD, STORE, LEDGER = "backup.json", "store/", "ledger/"
MAX_HEAD = 1 << 20
# Rows contain user input, including secrets of webhooks.
PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The contents of a backup."""

    jobs: tuple[str, ...]
    artifacts: int
    rows: int


def back_up(ledger: Ledger, store: ArtifactStore, jobs: Iterable[str], target: Path) -> BackupSummary:
    """Write jobs to a file, atomically."""
    ids, rows = tuple(dict.fromkeys(jobs)), 0
    with atomic_write(target) as file, TemporaryDirectory(dir=target.parent, prefix=".backup-") as scratch:
        Path(file.name).chmod(PRIVATE)
        with tarfile.open(fileobj=file, mode="w") as archive:
            head = {"format": FORMAT, "maabo": __version__, "ledger": schema.VERSION, "made": time.time(), "jobs": ids}
            path = Path(scratch) / "content"
            path.write_text(json.dumps(head))
            archive.add(path, HEAD, filter=_anonymous)
            with ledger.database.snapshot() as connection:  # closed before the artifacts, which may take long
                artifacts = find_artifacts(connection, ids)
                if missing := [job for job in ids if figures_name(job) not in artifacts]:
                    raise InputError(f"The ledger has no job {missing[0]!r}; `maabo jobs` lists its jobs.")
                for job, table in product(ids, TABLES):
                    with path.open("w", encoding="utf-8") as lines:
                        for line in dump_rows(connection, job, TABLES[table]):
                            lines.write(line)
                            rows += 1
                    archive.add(path, f"{LEDGER}{job}/{table}", filter=_anonymous)
            stored = sum(_add_artifact(archive, store, name, Path(scratch)) for name in sorted(artifacts))
    return BackupSummary(ids, stored, rows)


def restore(ledger: Ledger, store: ArtifactStore, source: Path, scratch: Path) -> BackupSummary:
    """Restore the jobs of a backup. The ledger changes only if all of it can be read."""
    with _open(source) as archive:
        jobs = _read_head(archive, source)
        members = archive.getmembers()[1:]
        if existing := ledger.jobs.get_many(jobs):
            raise InputError(
                f"The ledger already has job {existing[0].id}; delete it first (`maabo cancel`, `DELETE /v1/jobs`)."
            )
        stored = [member for member in members if member.name.startswith(STORE)]
        for member in stored:
            _restore_artifact(archive, member, store, scratch)
        try:
            with ledger.database.write() as connection:
                rows = sum(
                    _restore_rows(archive, member, jobs, connection) for member in members if member not in stored
                )
        except DuplicateError as error:
            raise InputError(
                f"A job of the backup was added to the ledger while the backup was read: {error}"
            ) from error
    return BackupSummary(jobs, len(stored), rows)


def _add_artifact(archive: tarfile.TarFile, store: ArtifactStore, name: str, scratch: Path) -> bool:
    """False if there is none: jobs have figures only at their end."""
    path = scratch / "artifact"
    try:
        store.get(name, path)
    except MissingArtifactError:
        if name.startswith("figures/"):
            return False
        raise
    archive.add(path, STORE + name, filter=_anonymous)
    path.unlink()
    return True


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = PRIVATE
    return member


@contextmanager
def _open(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, "r:") as archive:
            yield archive
    except tarfile.TarError as error:
        raise FormatError(f"{source} is not a backup, or is cut off: {error}.") from error
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}.") from error


def _read_head(archive: tarfile.TarFile, source: Path) -> tuple[str, ...]:
    first = archive.next()
    if first is None or first.name != HEAD or first.size > MAX_HEAD:
        raise FormatError(f"{source} is not a backup of jobs.")
    try:
        head: dict[str, Any] = json.load(_content(archive, first))
        supported, version, jobs = head["format"] == FORMAT, int(head["ledger"]), tuple(map(str, head["jobs"]))
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"The head of {source} is invalid: {error}.") from error
    if not supported or version > schema.VERSION:
        raise FormatError(
            f"The backup is a {head['format']} of ledger version {version}; this version reads {FORMAT} up to "
            f"{schema.VERSION}. Restore it with a newer one."
        )
    return jobs


def _restore_artifact(archive: tarfile.TarFile, member: tarfile.TarInfo, store: ArtifactStore, scratch: Path) -> None:
    name = check_name(member.name.removeprefix(STORE))
    with TemporaryDirectory(dir=scratch, prefix=".restore-") as directory:
        path = Path(directory) / "artifact"
        with path.open("wb") as file:
            copyfileobj(_content(archive, member), file)
        kind, digest = name.split("/")
        stored = digest
        if kind in {"trees", "tables"}:
            stored = file_digest(path)
        elif kind == "columns":
            stored = Columns.load(path).fingerprint
        if stored != digest:
            raise FormatError(f"{name} is damaged in the backup: its SHA-256 is {stored[:12]}….")
        store.put(name, path)


def _restore_rows(
    archive: tarfile.TarFile, member: tarfile.TarInfo, jobs: tuple[str, ...], connection: Connection
) -> int:
    """Insert the rows of a member; return their number."""
    job, _, table = member.name.removeprefix(LEDGER).partition("/")
    if not member.name.startswith(LEDGER) or job not in jobs or table not in TABLES:
        raise FormatError(f"The backup contains {member.name!r}, which does not belong to any of its jobs.")
    lines: Iterable[bytes] = _content(archive, member)
    if table == datasets.name:
        existing = set(connection.execute(select(datasets.c.id)).scalars())
        lines = [line for line in lines if json.loads(line)["id"] not in existing]
    rows, count = (_read(TABLES[table], line) for line in lines), 0
    while chunk := list(islice(rows, CHUNK)):
        connection.execute(insert(TABLES[table]), chunk)
        count += len(chunk)
    return count


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        raise FormatError(f"{member.name!r} in the backup is not a regular file.")
    return content
