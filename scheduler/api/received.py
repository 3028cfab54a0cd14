"""What is known about a directory of files that was received, and what can be done with tables of one file only."""

from dataclasses import dataclass
from typing import Any

from maabo_dist.contract.api import DIRECTORY
from maabo_dist.errors import SettingsError
from scheduler.ledger.tenants import DatasetRow


@dataclass(frozen=True, slots=True)
class ReceivedDirectory:
    """A directory that was opened, with more rows than are searched by default."""

    path: str
    name: str
    digest: str
    size: int
    rows: int
    columns: int
    description: dict[str, Any]


def require_file(table: DatasetRow, what: str) -> DatasetRow:
    """Return a table that is one file; raise an error for a directory."""
    if table.format == DIRECTORY:
        raise SettingsError(
            f"{table.name!r} is a directory of files, and {what} reads one file.",
            field="dataset",
            remedy="Upload one file, or use the command line on a machine that has the directory.",
        )
    return table


def require_table_directory(url: str | None) -> str:
    """Return the address of the server's table directory, or raise an error if it has none."""
    if url is None:
        raise SettingsError(
            "This server has no table directory.",
            field="path",
            remedy="Upload the table, or ask the operator to set MAABO_TABLES.",
        )
    return url
