"""Where a cluster's parts are. Built once, at the entry point of a process."""

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.errors import SettingsError

_VARIABLES = {
    "redis_url": "MAABO_REDIS",
    "prefix": "MAABO_PREFIX",
    "store_url": "MAABO_STORE",
    "ledger_url": "MAABO_LEDGER",
    "cache_dir": "MAABO_CACHE",
    "cache_bytes": "MAABO_CACHE_BYTES",
    "task_seconds": "MAABO_TASK_SECONDS",
    "task_limit": "MAABO_TASK_LIMIT",
    "retention": "MAABO_RETENTION",
}


class ClusterSettings(BaseModel):
    """Addresses and limits that all processes of a cluster agree on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    redis_url: str = Field("redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://")
    prefix: str = Field("", max_length=50, pattern=r"^[A-Za-z0-9_.:-]*$")
    """Put before every Redis key, so that clusters can share a server."""
    store_url: str = "file:///var/lib/maabo/store"
    ledger_url: str = "sqlite:////var/lib/maabo/ledger.db"
    cache_dir: str = "/var/cache/maabo"
    cache_bytes: int = Field(20 << 30, ge=1 << 20)
    task_seconds: float = Field(1.0, gt=0, le=600)
    """How long a task should run; its size adapts."""
    task_limit: float = Field(120.0, gt=0)
    """A task that runs longer is ended."""
    retention: float = Field(7 * 86400.0, gt=0)
    """Seconds that ended jobs stay readable."""

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

    def environment(self) -> dict[str, str]:
        """The variables that tell another process the same."""
        return {variable: str(getattr(self, name)) for name, variable in _VARIABLES.items()}

    def key(self, name: str) -> str:
        """A Redis key of this cluster."""
        return f"{self.prefix}{name}"
