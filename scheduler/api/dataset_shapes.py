"""Tables as other services see them."""

from typing import Self

from pydantic import BaseModel

from maabo_dist.data.columns import ColumnKind
from scheduler.ledger.tenants import DatasetRow


class Dataset(BaseModel):
    """A table that is stored."""

    id: str
    name: str
    format: str
    """csv or parquet."""
    size: int
    """Bytes of the file."""
    rows: int
    columns: int
    fingerprint: str
    """SHA-256 of the file."""
    created: float
    """Seconds since the epoch."""

    @classmethod
    def of(cls, row: DatasetRow) -> Self:
        """From the ledger's row."""
        return cls(**_told(row))


class Column(BaseModel):
    """What one column holds."""

    name: str
    kind: ColumnKind
    """`number`; `pair`, two texts and nothing missing; `level`, texts; `other`, what cannot be mined."""
    missing: int
    """Cells."""
    distinct: int | None
    """Values that are not missing; null where they cannot be compared."""
    levels: list[str] | None
    """The first 50 texts, each cut after 100 characters; fewer in a table with very many. Null for numbers."""
    smallest: float | None
    largest: float | None


class DatasetDetails(Dataset):
    """A table, and what its columns hold."""

    features: list[Column]
    """In the table's order."""

    @classmethod
    def of(cls, row: DatasetRow) -> Self:
        """From the ledger's row."""
        return cls(**_told(row), features=row.description.get("features", []))


def _told(row: DatasetRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "format": row.format,
        "size": row.size,
        "rows": row.rows,
        "columns": row.columns,
        "fingerprint": row.digest,
        "created": row.created,
    }
