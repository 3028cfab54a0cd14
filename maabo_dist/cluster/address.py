"""Addresses of Redis and other servers: validation, redaction of secrets, and error messages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import redis

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
    """Raise an error if this is not the URL of a Redis."""
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
