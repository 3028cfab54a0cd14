"""What an HTTP server may be told beside where the cluster is. Built once, at its entry point."""

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.errors import SettingsError

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
}


class ServiceSettings(BaseModel):
    """Address and limits of one HTTP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Memory of that process."""
    event_streams: int = Field(2000, ge=1)
    """Clients that follow events at a time."""
    open_metrics: bool = False
    """Whether /metrics needs no token."""
    flower_url: str | None = Field(None, pattern=r"^https?://[^\s]+$", max_length=2000)
    """Where people find Flower, for the page to link to; None where there is none."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **given: object) -> Self:
        """Read MAABO_… variables; values given otherwise come first."""
        found = {name: environment[variable] for name, variable in _VARIABLES.items() if variable in environment}
        try:
            return cls.model_validate(found | {name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = str(problem["loc"][0])
            raise SettingsError(
                f"{_VARIABLES.get(name, name)} = {problem['input']!r}: {problem['msg'].lower()}."
            ) from None
