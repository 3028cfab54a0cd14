"""Settings of a cluster, and addresses of its servers: validation, redaction of secrets, and error messages.

Settings are read from the environment once, at the entry point of a process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import quote, urlsplit

import redis
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.errors import SettingsError

EXAMPLE_URL = "redis://127.0.0.1:6379/0"


class UnreachableError(SettingsError):
    """The Redis cannot be used at this address."""


def redact_url(url: str) -> str:
    """Return the URL without user, password and query; only `…` if it is unclear which part is secret."""
    scheme, separator, _ = url.partition("://")
    try:
        parts = urlsplit(url)
        # An unescaped # or ? in a password moves the rest of the password to another part of the URL.
        clear = "@" not in f"{parts.path}{parts.query}{parts.fragment}" and parts.port != 0
    except ValueError:
        clear = False
    if not clear:
        return f"{scheme}://…" if separator else "…"
    address = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{scheme}://{address}" if separator else url.partition("?")[0]


def require_certificate(url: str) -> str:
    """Return the URL with the option that makes kombu verify the server's certificate, as redis-py does by default."""
    if not url.startswith("rediss://") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


def check_url(url: str) -> None:
    """Raise an error if this is not a Redis URL."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        problem = "does not begin with redis://, rediss:// or unix://"
    elif redact_url(url).endswith("…"):
        problem = (
            "is malformed: the port must be a number, and # / ? @ in a password must be escaped as %23 %2F %3F %40"
        )
    else:
        return
    raise UnreachableError(f"The address of the Redis, {redact_url(url)!r}, {problem}. Example: {EXAMPLE_URL}.")


def check_redis(url: str, ping: Callable[[], object]) -> str | None:
    """Return None if the Redis answers, else a description of the problem; permanent problems are raised."""
    try:
        ping()
    except redis.RedisError as error:
        problem = f"Redis at {redact_url(url)} {_problem(error)}"
        # Retrying is pointless if the password, the user or a certificate is rejected.
        if isinstance(error, redis.AuthenticationError) or "certificate" in str(error).lower():
            raise UnreachableError(problem) from error
        return problem
    return None


@contextmanager
def redis_errors(url: str) -> Iterator[None]:
    """Turn Redis errors in the block into an UnreachableError that explains the cause and the remedy."""
    try:
        yield
    except redis.RedisError as error:
        raise UnreachableError(f"Redis at {redact_url(url)} {_problem(error)}") from error


def _problem(error: redis.RedisError) -> str:
    text = str(error).rstrip(".")
    match error:
        case redis.AuthenticationError() | redis.AuthenticationWrongNumberOfArgsError():
            return f"rejects the password or user ({text}). Give them as redis://USER:PASSWORD@HOST:PORT/0."
        case _ if "certificate" in text.lower():
            return (
                f"failed the certificate check ({text}). Set the certificate authority of the server with "
                "rediss://…?ssl_ca_certs=FILE and, if the server requires one, a client certificate with "
                "ssl_certfile=FILE and ssl_keyfile=FILE."
            )
        case redis.TimeoutError():
            return f"did not answer in time ({text}). Check the address, the network and the load of the server."
        case redis.ConnectionError():
            return f"cannot be reached ({text}). Check that it is running, and the address in --redis or MAABO_REDIS."
        case _:
            return f"rejected a command ({text}). Check the permissions, memory and version of the server."


MAX_SECRET_LENGTH = 1000


def add_password(url: str, path: str, address: str, variable: str) -> str:
    """Return the URL with the password from the file. `address` and `variable` name the two in error messages."""
    parts = urlsplit(url)
    userinfo, _, host = parts.netloc.rpartition("@")
    user = userinfo or ("default" if parts.scheme in {"redis", "rediss", "unix"} else "")
    if ":" in user:
        raise SettingsError(f"{address} contains a password, and {variable} is also set. Remove one of them.")
    if not user:
        raise SettingsError(f"{variable} is set, but {address} has no user name.")
    password = quote(read_secret(path, variable), safe="")
    return f"{parts.scheme}://{user}:{password}@{host}" + url[len(f"{parts.scheme}://{parts.netloc}") :]


def read_secret(path: str, variable: str) -> str:
    """Read the one line in the file. Error messages never contain its content."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_SECRET_LENGTH + 3).rstrip("\r\n")
    except (OSError, ValueError) as error:
        # Decoding errors quote some of the bytes.
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{variable} = {path!r} cannot be read: {reason}.") from None
    if not text or len(text) > MAX_SECRET_LENGTH or not text.isprintable():
        raise SettingsError(
            f"{variable} = {path!r}: the file must contain one line of 1 to {MAX_SECRET_LENGTH:,} characters."
        )
    return text


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


# The longest lease of a job.
MAX_LEASE_SECONDS = 600.0


class ClusterSettings(EnvironmentSettings):
    """Addresses and limits that all processes of a cluster share."""

    with_password: ClassVar[tuple[str, ...]] = ("redis_url", "broker_url", "ledger_url")

    redis_url: str = Field("redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://")
    # RabbitMQ as the broker of the tasks; by default, Redis is the broker.
    broker_url: str = Field("", pattern=r"^(amqps?://|$)")
    # Prefix of every Redis key, so that clusters can share a server.
    prefix: str = Field("", max_length=50, pattern=r"^[A-Za-z0-9_.:-]*$")
    store_url: str = "file:///var/lib/maabo/store"
    ledger_url: str = "sqlite:////var/lib/maabo/ledger.db"
    # fsspec URL of the table directory: a directory or bucket with datasets that all workers read.
    tables_url: str = ""
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
    lease_seconds: float = Field(15.0, ge=1, le=MAX_LEASE_SECONDS)
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
