"""Settings of a cluster, read from the environment once, at the entry point of a process."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.cluster.address import add_password
from maabo_dist.errors import SettingsError


class EnvironmentSettings(BaseModel):
    """Settings that can be set with MAABO_… variables: `task_seconds` with MAABO_TASK_SECONDS.

    The endings `_url` and `_dir` of a field are not part of its variable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Variables with other names, by field.
    variables: ClassVar[Mapping[str, str]] = {}
    # Addresses whose password can be in a file, which MAABO_…_PASSWORD_FILE names.
    with_password: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the variable of a field."""
        return cls.variables.get(name, f"MAABO_{name.removesuffix('_url').removesuffix('_dir').upper()}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **overrides: object) -> Self:
        """Read MAABO_… variables. Overrides that are not None take precedence; their addresses contain passwords."""
        variables = {name: cls.variable(name) for name in cls.model_fields}
        values = {name: environment[variable] for name, variable in variables.items() if variable in environment}
        chosen = {name: value for name, value in overrides.items() if value is not None}
        for name in set(cls.with_password) - chosen.keys():
            variable = f"{variables[name]}_PASSWORD_FILE"
            if path := environment.get(variable):
                address = values.get(name, cls.model_fields[name].default)
                values[name] = add_password(address, path, variables[name], variable)
        try:
            return cls.model_validate(values | chosen)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = str(problem["loc"][0])
            # An address may contain a password, and messages are logged.
            value = "…" if name.endswith("_url") else repr(problem["input"])
            raise SettingsError(f"{variables.get(name, name)} = {value}: {problem['msg'].lower()}.") from None

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Redact addresses, because a repr may be logged."""
        return [(name, "…" if name and name.endswith("_url") else value) for name, value in super().__repr_args__()]

    def environment(self) -> dict[str, str]:
        """Return variables that give another process the same settings. Passwords are part of the addresses."""
        no_files = {f"{self.variable(name)}_PASSWORD_FILE": "" for name in self.with_password}
        return no_files | {self.variable(name): str(getattr(self, name)) for name in type(self).model_fields}


class ClusterSettings(EnvironmentSettings):
    """Addresses and limits that all processes of a cluster share."""

    with_password: ClassVar[tuple[str, ...]] = ("redis_url", "broker_url", "ledger_url")

    redis_url: str = Field("redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://")
    # A RabbitMQ as the broker of the tasks; by default, Redis is the broker.
    broker_url: str = Field("", pattern=r"^(amqps?://|$)")
    # Prefix of every Redis key, so that clusters can share a server.
    prefix: str = Field("", max_length=50, pattern=r"^[A-Za-z0-9_.:-]*$")
    store_url: str = "file:///var/lib/maabo/store"
    ledger_url: str = "sqlite:////var/lib/maabo/ledger.db"
    cache_dir: str = "/var/cache/maabo"
    cache_bytes: int = Field(20 << 30, ge=1 << 20)
    # The intended duration of a task; its size adapts.
    task_seconds: float = Field(1.0, gt=0, le=600)
    # A task that runs longer is stopped.
    task_limit: float = Field(120.0, gt=0)
    # A screen estimated to take less runs in the scheduler; a longer one is split into tasks.
    screen_seconds: float = Field(1.0, ge=0, le=600)
    # Bytes above which a worker process is replaced after its task. Mapped parts of tables count.
    worker_memory: int = Field(16 << 30, ge=256 << 20)
    # Seconds that ended jobs are kept.
    retention: float = Field(7 * 86400.0, gt=0)
    # A scheduler that does not renew its leases for this long loses its jobs to another.
    lease_seconds: float = Field(15.0, ge=1)
    # The interval between updates of the rules so far; longer if mining them takes long.
    partial_seconds: float = Field(5.0, gt=0)
    # A job fails if no worker can start any of its tasks for this long.
    stuck_seconds: float = Field(300.0, gt=0)
    # Non-public hosts that webhooks may call: names, *.names, addresses and networks, comma-separated; * for all.
    webhook_hosts: str = Field("", max_length=10_000)
    webhook_attempts: int = Field(12, ge=1, le=1000)
    # Seconds before the first retry of a webhook; each delay is twice the previous one, up to an hour.
    webhook_pause: float = Field(5.0, gt=0)
    # The time-out of a call to a webhook.
    webhook_seconds: float = Field(10.0, gt=0, le=600)
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
