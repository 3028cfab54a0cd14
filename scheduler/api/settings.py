"""Settings of an API process, read from the environment once, when it starts."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from maabo_dist.cluster.settings import EnvironmentSettings


class ApiSettings(EnvironmentSettings):
    """Address and limits of one API process."""

    variables: ClassVar[Mapping[str, str]] = {
        "host": "MAABO_HTTP_HOST",
        "port": "MAABO_HTTP_PORT",
        "flower_url": "MAABO_FLOWER_URL",
        "header_seconds": "MAABO_HTTP_HEADER_SECONDS",
        "body_seconds": "MAABO_HTTP_BODY_SECONDS",
    }

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)  # 0 for any free port
    header_seconds: float = Field(20.0, gt=0)  # time limit of a request's headers
    body_seconds: float = Field(30.0, gt=0)  # time limit of its body, in addition to its bytes at 4 KiB a second
    # fsspec URL of a directory or bucket whose tables can be used without uploading them.
    tables_url: Annotated[str | None, AfterValidator(lambda url: url or None)] = None
    upload_bytes: int = Field(1 << 30, ge=1)  # larger uploads are rejected
    upload_columns: int = Field(50_000, ge=2)
    read_seconds: float = Field(300.0, gt=0)  # time limit of the process that reads a table
    # Memory limit of that process, in addition to what Python itself takes.
    read_bytes: int = Field(8 << 30, ge=256 << 20)
    tenant_rate: float = Field(0.0, ge=0)  # requests a second of each tenant; 0 for no limit
    event_streams: int = Field(2000, ge=1)  # maximum number of open event streams
    open_metrics: bool = False  # serve /metrics without a token
    # Address of Flower, which the page links to.
    flower_url: str | None = Field(None, pattern=r"^https?://[^\s]+$", max_length=2000)
    # Require a token even if none has been created yet, and listen on `host` in any case.
    require_token: bool = False
