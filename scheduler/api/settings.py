"""What an HTTP server may be told beside where the cluster is. Built once, at its entry point."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from maabo_dist.cluster.settings import EnvironmentSettings

_VARIABLES = {
    "host": "MAABO_HTTP_HOST",
    "port": "MAABO_HTTP_PORT",
    "tables_url": "MAABO_TABLES",
    "upload_bytes": "MAABO_UPLOAD_BYTES",
    "upload_columns": "MAABO_UPLOAD_COLUMNS",
    "read_seconds": "MAABO_READ_SECONDS",
    "read_bytes": "MAABO_READ_BYTES",
    "event_streams": "MAABO_EVENT_STREAMS",
    "open_metrics": "MAABO_OPEN_METRICS",
    "flower_url": "MAABO_FLOWER_URL",
    "require_token": "MAABO_REQUIRE_TOKEN",
}


class ApiSettings(EnvironmentSettings):
    """Address and limits of one HTTP server."""

    variables: ClassVar[Mapping[str, str]] = _VARIABLES

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    """0 takes a free one."""
    tables_url: str | None = None
    """fsspec URL of a place whose tables may be named instead of uploaded; None where there is none."""
    upload_bytes: int = Field(1 << 30, ge=1)
    """A larger table is refused while it comes."""
    upload_columns: int = Field(50_000, ge=2)
    read_seconds: float = Field(300.0, gt=0)
    """For the process that reads a table; after that the table counts as one that cannot be read."""
    read_bytes: int = Field(8 << 30, ge=256 << 20)
    """Memory of that process, beside what Python itself takes."""
    event_streams: int = Field(2000, ge=1)
    """Clients that follow events at a time."""
    open_metrics: bool = False
    """Whether /metrics needs no token."""
    flower_url: str | None = Field(None, pattern=r"^https?://[^\s]+$", max_length=2000)
    """Where people find Flower, for the page to link to; None where there is none."""
    require_token: bool = False
    """Whether everyone needs a token, even before one was made; then it listens wherever it is told to."""
