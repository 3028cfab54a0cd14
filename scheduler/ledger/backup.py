"""A job's rows of the ledger as lines of JSON, and back.

What lies on the way to a worker is left out, and so is who holds the job: whoever restores it sends the tasks again.
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
from tempfile import TemporaryDirectory
from typing import IO, Any

from sqlalchemy import Connection, LargeBinary, Table, insert, select

from maabo_dist._util.files import atomic_write
from maabo_dist._version import __version__
from maabo_dist.cluster.store import ArtifactStore, MissingArtifactError, check_name, figures_name
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, InputError
from maabo_dist.trees.wire import file_digest
from scheduler.ledger import schema
from scheduler.ledger.database import DuplicateError
from scheduler.ledger.jobs import JOB_COLUMNS, read_job
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.schema import batches, blocks, datasets, jobs, results, screens

SEARCH = (batches, results, screens, blocks)
TABLES = {table.name: table for table in (jobs, *SEARCH, datasets)}
"""Of which rows are kept, by their names; jobs first."""
CHUNK = 500
"""Rows written at a time."""
UNHELD = {"owner": None, "lease_until": 0.0}


def written_rows(connection: Connection, job: str, table: Table) -> Iterator[str]:
    """The rows of a table that belong to a job, a line each."""
    for row in connection.execute(_of_job(table, job)).mappings():
        yield json.dumps({column.name: _told(row[column.name], column.type) for column in table.columns}) + "\n"


def restore_rows(connection: Connection, table: Table, lines: Iterable[bytes | str]) -> int:
    """Write rows that were written down; how many there were."""
    rows, count = (_read(table, line) for line in lines), 0
    while chunk := list(islice(rows, CHUNK)):
        connection.execute(insert(table), chunk)
        count += len(chunk)
    return count


def _of_job(table: Table, job: str) -> Any:
    if table is jobs:
        return select(jobs).where(jobs.c.id == job)
    if table is datasets:
        return select(datasets).join(jobs, jobs.c.dataset == datasets.c.id).where(jobs.c.id == job)
    return select(table).where(table.c.job == job)


def _told(value: Any, kind: object) -> Any:
    return b64encode(value).decode() if isinstance(kind, LargeBinary) and value is not None else value


def _read(table: Table, line: bytes | str) -> dict[str, Any]:
    """Checked, since it comes from a file: these columns and no others, and a job that this version can read."""
    try:
        told = json.loads(line)
        unknown = set(told) - {column.name for column in table.columns}
        if unknown:
            raise ValueError(f"unknown column {min(unknown)!r}")
        row = {
            name: b64decode(value, validate=True) if _is_bytes(table, name, value) else value
            for name, value in told.items()
        }
        if table is jobs:
            row |= UNHELD
            read_job({column.name: row.get(column.name) for column in JOB_COLUMNS})
    except (FormatError, TypeError, KeyError, ValueError) as error:
        raise FormatError(f"A row of {table.name} in the backup does not read: {error}.") from error
    return row


def _is_bytes(table: Table, name: str, value: object) -> bool:
    return isinstance(table.c[name].type, LargeBinary) and value is not None


FORMAT = "maabo-backup/1"
HEAD, STORE, LEDGER = "backup.json", "store/", "ledger/"
MOST_HEAD = 1 << 20
PRIVATE = 0o600
"""Rows hold what users sent, secrets of webhooks among it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a backup holds."""

    jobs: tuple[str, ...]
    artifacts: int
    rows: int


def back_up(ledger: Ledger, store: ArtifactStore, jobs: Iterable[str], target: Path) -> Kept:
    """Write jobs to a file, whole or not at all."""
    wanted, rows = tuple(dict.fromkeys(jobs)), 0
    with atomic_write(target) as file, TemporaryDirectory(dir=target.parent, prefix=".backup-") as scratch:
        Path(file.name).chmod(PRIVATE)
        with tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, HEAD, _head(wanted), Path(scratch))
            with ledger.database.snapshot() as connection:  # not held for anything else, which may take long
                artifacts = _needed(connection, wanted)
                for job in wanted:
                    rows += sum(_write_rows(connection, job, name, Path(scratch)) for name in TABLES)
            for job, table in product(wanted, TABLES):
                archive.add(_rows_file(Path(scratch), job, table), f"{LEDGER}{job}/{table}", filter=_anonymous)
            found = sum(_add_artifact(archive, store, name, Path(scratch)) for name in sorted(artifacts))
    return Kept(wanted, found, rows)


def restore(ledger: Ledger, store: ArtifactStore, source: Path, scratch: Path) -> Kept:
    """Put the jobs of a backup where they can go on; nothing of the ledger changes unless all of it can be read."""
    with _opened(source) as archive:
        jobs = _checked_head(archive, source)
        members = archive.getmembers()[1:]
        _refuse_known(ledger, jobs)
        stored = [member for member in members if member.name.startswith(STORE)]
        for member in stored:
            _restore_artifact(archive, member, store, scratch)
        try:
            with ledger.database.write() as connection:
                rows = sum(
                    _restore_rows(archive, member, jobs, connection) for member in members if member not in stored
                )
        except DuplicateError as error:
            raise InputError(f"A job of the backup came into the ledger meanwhile: {error}") from error
    return Kept(jobs, len(stored), rows)


def _needed(connection: Connection, jobs: tuple[str, ...]) -> set[str]:
    """Names in the store; a job that is not there is refused."""
    found: set[str] = set()
    for job in jobs:
        rows = [json.loads(line) for line in written_rows(connection, job, schema.jobs)]
        if not rows:
            raise InputError(f"The ledger holds no job {job!r}; `maabo jobs` lists those it holds.")
        (row,) = rows
        found.add(f"columns/{json.loads(row['spec'])['dataset']['fingerprint']}")
        found |= {f"trees/{digest}" for digest, _ in json.loads(row["segments"])}
        found |= {f"tables/{json.loads(line)['digest']}" for line in written_rows(connection, job, schema.datasets)}
        found.add(figures_name(job))
    return found


def _head(jobs: tuple[str, ...]) -> bytes:
    told = {"format": FORMAT, "maabo": __version__, "ledger": schema.VERSION, "made": time.time(), "jobs": list(jobs)}
    return json.dumps(told).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes, scratch: Path) -> None:
    path = scratch / "content"
    path.write_bytes(content)
    archive.add(path, name, filter=_anonymous)


def _add_artifact(archive: tarfile.TarFile, store: ArtifactStore, name: str, scratch: Path) -> bool:
    """Whether there is one: jobs have pictures only at their end."""
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


def _write_rows(connection: Connection, job: str, table: str, scratch: Path) -> int:
    count = 0
    with _rows_file(scratch, job, table).open("w", encoding="utf-8") as file:
        for line in written_rows(connection, job, TABLES[table]):
            file.write(line)
            count += 1
    return count


def _rows_file(scratch: Path, job: str, table: str) -> Path:
    return scratch / f"{job}-{table}"


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = PRIVATE
    return member


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, "r:") as archive:
            yield archive
    except tarfile.TarError as error:
        raise FormatError(f"{source} is not a backup, or is cut off: {error}.") from error
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}.") from error


def _checked_head(archive: tarfile.TarFile, source: Path) -> tuple[str, ...]:
    first = archive.next()
    if first is None or first.name != HEAD or first.size > MOST_HEAD:
        raise FormatError(f"{source} is not a backup of jobs.")
    try:
        head: dict[str, Any] = json.load(_content(archive, first))
        known, version, jobs = head["format"] == FORMAT, int(head["ledger"]), tuple(map(str, head["jobs"]))
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"The head of {source} does not read: {error}.") from error
    if not known or version > schema.VERSION:
        raise FormatError(
            f"The backup is a {head['format']} of ledger version {version}; this version reads {FORMAT} up to "
            f"{schema.VERSION}. Restore it with a newer one."
        )
    return jobs


def _refuse_known(ledger: Ledger, jobs: tuple[str, ...]) -> None:
    if known := [row.id for row in ledger.jobs.get_many(list(jobs))]:
        raise InputError(
            f"The ledger holds job {known[0]} already; delete it first (`maabo cancel`, `DELETE /v1/jobs`)."
        )


def _restore_artifact(archive: tarfile.TarFile, member: tarfile.TarInfo, store: ArtifactStore, scratch: Path) -> None:
    name = check_name(member.name.removeprefix(STORE))
    with TemporaryDirectory(dir=scratch, prefix=".restore-") as directory:
        path = Path(directory) / "artifact"
        with path.open("wb") as file:
            _copy(_content(archive, member), file)
        _verify(name, path)
        store.put(name, path)


def _verify(name: str, path: Path) -> None:
    kind, digest = name.split("/")
    found = {"trees": file_digest, "tables": file_digest, "columns": _fingerprint}.get(kind, lambda _: digest)(path)
    if found != digest:
        raise FormatError(f"{name} is damaged in the backup: it is {found[:12]}….")


def _fingerprint(path: Path) -> str:
    return Columns.load(path).fingerprint


def _restore_rows(
    archive: tarfile.TarFile, member: tarfile.TarInfo, jobs: tuple[str, ...], connection: Connection
) -> int:
    place, _, table = member.name.removeprefix(LEDGER).partition("/")
    if not member.name.startswith(LEDGER) or place not in jobs or table not in TABLES:
        raise FormatError(f"The backup holds {member.name!r}, which belongs to no job of it.")
    known = _known_datasets(connection) if table == schema.datasets.name else frozenset[str]()
    lines = (line for line in _content(archive, member) if not known or json.loads(line)["id"] not in known)
    return restore_rows(connection, TABLES[table], lines)


def _known_datasets(connection: Connection) -> frozenset[str]:
    return frozenset(connection.execute(schema.datasets.select().with_only_columns(schema.datasets.c.id)).scalars())


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        raise FormatError(f"{member.name!r} in the backup is no file.")
    return content


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while piece := source.read(1 << 20):
        target.write(piece)
