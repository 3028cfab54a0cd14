"""Where a cluster's parts are. Built once, at the entry point of a process."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.cluster.address import add_password
from maabo_dist.errors import SettingsError

_VARIABLES = {
    "redis_url": "MAABO_REDIS",
    "broker_url": "MAABO_BROKER",
    "prefix": "MAABO_PREFIX",
    "store_url": "MAABO_STORE",
    "ledger_url": "MAABO_LEDGER",
    "cache_dir": "MAABO_CACHE",
    "cache_bytes": "MAABO_CACHE_BYTES",
    "task_seconds": "MAABO_TASK_SECONDS",
    "task_limit": "MAABO_TASK_LIMIT",
    "screen_seconds": "MAABO_SCREEN_SECONDS",
    "worker_memory": "MAABO_WORKER_MEMORY",
    "retention": "MAABO_RETENTION",
    "lease_seconds": "MAABO_LEASE_SECONDS",
    "partial_seconds": "MAABO_PARTIAL_SECONDS",
    "stuck_seconds": "MAABO_STUCK_SECONDS",
    "webhook_hosts": "MAABO_WEBHOOK_HOSTS",
    "webhook_attempts": "MAABO_WEBHOOK_ATTEMPTS",
    "webhook_pause": "MAABO_WEBHOOK_PAUSE",
    "webhook_seconds": "MAABO_WEBHOOK_SECONDS",
    "log": "MAABO_LOG",
}
_PASSWORDS = {
    "redis_url": "MAABO_REDIS_PASSWORD_FILE",
    "broker_url": "MAABO_BROKER_PASSWORD_FILE",
    "ledger_url": "MAABO_LEDGER_PASSWORD_FILE",
}


class EnvironmentSettings(BaseModel):
    """Settings that MAABO_… variables may give."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variables: ClassVar[Mapping[str, str]]
    """The variable of each field."""
    passwords: ClassVar[Mapping[str, str]] = {}
    """Of fields that are addresses: the variable that names a file with the password."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **given: object) -> Self:
        """Read MAABO_… variables; values given otherwise come first, and have their passwords in them."""
        found = {name: environment[variable] for name, variable in cls.variables.items() if variable in environment}
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in cls.passwords.keys() - chosen.keys():
            found |= cls._with_password(name, found, environment)
        try:
            return cls.model_validate(found | chosen)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = str(problem["loc"][0])
            # An address may hold a password, and messages end up in logs.
            shown = "…" if name.endswith("_url") else repr(problem["input"])
            raise SettingsError(f"{cls.variables.get(name, name)} = {shown}: {problem['msg'].lower()}.") from None

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Without addresses: a repr ends up in logs, too."""
        return [(name, "…" if name and name.endswith("_url") else value) for name, value in super().__repr_args__()]

    def environment(self) -> dict[str, str]:
        """The variables that tell another process the same. Passwords are in the addresses: no file is named."""
        no_files = dict.fromkeys(self.passwords.values(), "")
        return no_files | {variable: str(getattr(self, name)) for name, variable in self.variables.items()}

    @classmethod
    def _with_password(cls, name: str, found: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
        """The address of this name with its password; nothing where no file is named."""
        variable = cls.passwords[name]
        path = environment.get(variable)
        if not path:
            return {}
        address = found.get(name, cls.model_fields[name].default)
        return {name: add_password(address, path, cls.variables[name], variable)}


class ClusterSettings(EnvironmentSettings):
    """Addresses and limits that all processes of a cluster agree on."""

    variables: ClassVar[Mapping[str, str]] = _VARIABLES
    passwords: ClassVar[Mapping[str, str]] = _PASSWORDS

    redis_url: str = Field("redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://")
    broker_url: str = Field("", pattern=r"^(amqps?://|$)")
    """A RabbitMQ for the tasks; without one, the Redis is the broker, too."""
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
    screen_seconds: float = Field(1.0, ge=0, le=600)
    """A screen that should take less is made by the scheduler itself; a larger one is cut into tasks."""
    worker_memory: int = Field(16 << 30, ge=256 << 20)
    """Bytes after which a worker process is replaced between two tasks. What it has mapped of a table counts."""
    retention: float = Field(7 * 86400.0, gt=0)
    """Seconds that ended jobs stay readable."""
    lease_seconds: float = Field(15.0, ge=1)
    """A scheduler of which nothing is heard for so long loses its jobs to another."""
    partial_seconds: float = Field(5.0, gt=0)
    """Rules so far are mined this often, or seldomer where that takes long."""
    stuck_seconds: float = Field(300.0, gt=0)
    """A job fails when for so long no worker could even begin its tasks."""
    webhook_hosts: str = Field("", max_length=10_000)
    """Hosts beside public ones that webhooks may call: names, *.names, addresses and networks, by commas; * for all."""
    webhook_attempts: int = Field(12, ge=1, le=1000)
    webhook_pause: float = Field(5.0, gt=0)
    """Seconds before a webhook is called a second time; each pause is twice the one before, up to an hour."""
    webhook_seconds: float = Field(10.0, gt=0, le=600)
    """A receiver that has not answered after so long has not answered."""
    log: Literal["text", "json"] = "text"

    @property
    def celery_url(self) -> str:
        """The address of Redis as Celery spells it: another name for a socket, and for its database."""
        if not self.redis_url.startswith("unix://"):
            return self.redis_url
        return self.redis_url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")

    def key(self, name: str) -> str:
        """A Redis key of this cluster."""
        return f"{self.prefix}{name}"
