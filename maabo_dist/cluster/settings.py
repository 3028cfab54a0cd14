"""Settings of a cluster, read from the environment once, at the entry point of a process."""

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
    """Settings that can be set with MAABO_… variables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variables: ClassVar[Mapping[str, str]]
    """The variable of each field."""
    passwords: ClassVar[Mapping[str, str]] = {}
    """The variable with the path of a password file, for fields that are addresses."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **overrides: object) -> Self:
        """Read MAABO_… variables. Overrides that are not None take precedence; their addresses contain passwords."""
        values = {name: environment[variable] for name, variable in cls.variables.items() if variable in environment}
        chosen = {name: value for name, value in overrides.items() if value is not None}
        for name in cls.passwords.keys() - chosen.keys():
            values |= cls._with_password(name, values, environment)
        try:
            return cls.model_validate(values | chosen)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = str(problem["loc"][0])
            # An address may contain a password, and messages are logged.
            value = "…" if name.endswith("_url") else repr(problem["input"])
            raise SettingsError(f"{cls.variables.get(name, name)} = {value}: {problem['msg'].lower()}.") from None

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Redact addresses, because a repr may be logged."""
        return [(name, "…" if name and name.endswith("_url") else value) for name, value in super().__repr_args__()]

    def environment(self) -> dict[str, str]:
        """Return variables that give another process the same settings. Passwords are part of the addresses."""
        no_files = dict.fromkeys(self.passwords.values(), "")
        return no_files | {variable: str(getattr(self, name)) for name, variable in self.variables.items()}

    @classmethod
    def _with_password(cls, name: str, values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
        """Return the field with the password in its address; empty if there is no password file."""
        variable = cls.passwords[name]
        path = environment.get(variable)
        if not path:
            return {}
        address = values.get(name, cls.model_fields[name].default)
        return {name: add_password(address, path, cls.variables[name], variable)}


class ClusterSettings(EnvironmentSettings):
    """Addresses and limits that all processes of a cluster share."""

    variables: ClassVar[Mapping[str, str]] = _VARIABLES
    passwords: ClassVar[Mapping[str, str]] = _PASSWORDS

    redis_url: str = Field("redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://")
    broker_url: str = Field("", pattern=r"^(amqps?://|$)")
    """A RabbitMQ as the broker of the tasks; by default, Redis is the broker."""
    prefix: str = Field("", max_length=50, pattern=r"^[A-Za-z0-9_.:-]*$")
    """Prefix of every Redis key, so that clusters can share a server."""
    store_url: str = "file:///var/lib/maabo/store"
    ledger_url: str = "sqlite:////var/lib/maabo/ledger.db"
    cache_dir: str = "/var/cache/maabo"
    cache_bytes: int = Field(20 << 30, ge=1 << 20)
    task_seconds: float = Field(1.0, gt=0, le=600)
    """The intended duration of a task; its size adapts."""
    task_limit: float = Field(120.0, gt=0)
    """A task that runs longer is stopped."""
    screen_seconds: float = Field(1.0, ge=0, le=600)
    """A screen estimated to take less runs in the scheduler; a longer one is split into tasks."""
    worker_memory: int = Field(16 << 30, ge=256 << 20)
    """Bytes above which a worker process is replaced after its task. Mapped parts of tables count."""
    retention: float = Field(7 * 86400.0, gt=0)
    """Seconds that ended jobs are kept."""
    lease_seconds: float = Field(15.0, ge=1)
    """A scheduler that does not renew its leases for this long loses its jobs to another."""
    partial_seconds: float = Field(5.0, gt=0)
    """The interval between updates of the rules so far; longer if mining them takes long."""
    stuck_seconds: float = Field(300.0, gt=0)
    """A job fails if no worker can start any of its tasks for this long."""
    webhook_hosts: str = Field("", max_length=10_000)
    """Non-public hosts that webhooks may call: names, *.names, addresses and networks, comma-separated; * for all."""
    webhook_attempts: int = Field(12, ge=1, le=1000)
    webhook_pause: float = Field(5.0, gt=0)
    """Seconds before the first retry of a webhook; each delay is twice the previous one, up to an hour."""
    webhook_seconds: float = Field(10.0, gt=0, le=600)
    """The time-out of a call to a webhook."""
    log: Literal["text", "json"] = "text"

    @property
    def celery_url(self) -> str:
        """The address of Redis in the form that Celery expects, which differs for sockets."""
        if not self.redis_url.startswith("unix://"):
            return self.redis_url
        return self.redis_url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")

    def key(self, name: str) -> str:
        """Return a Redis key of this cluster."""
        return f"{self.prefix}{name}"
