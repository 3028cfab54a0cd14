"""A job's rows of the ledger as lines of JSON, and back.

What lies on the way to a worker is left out, and so is who holds the job: whoever restores it sends the tasks again.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, LargeBinary, Table, insert, select

from maabo_dist.errors import FormatError
from scheduler.job_rows import JOB_COLUMNS, read_job
from scheduler.schema import batches, blocks, datasets, jobs, results, screens

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
