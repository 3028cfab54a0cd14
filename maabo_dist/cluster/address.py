"""A Redis as people name it: its URL without what is secret, and what is wrong when it cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import redis

from maabo_dist.errors import SettingsError

EXAMPLE_URL = "redis://127.0.0.1:6379/0"


class UnreachableError(SettingsError):
    """The Redis cannot be used as it was given."""


def redact_url(url: str) -> str:
    """The URL without user, password and query. Where it cannot be told what is secret in it, nothing is shown."""
    scheme, separator, _ = url.partition("://")
    try:
        parts = urlsplit(url)
        # A # or ? in a password that was not escaped moves the rest of it to another part of the URL.
        clear = "@" not in f"{parts.path}{parts.query}{parts.fragment}" and parts.port != 0
    except ValueError:
        clear = False
    if not clear:
        return f"{scheme}://…" if separator else "…"
    place = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{scheme}://{place}" if separator else url.partition("?")[0]


def require_certificate(url: str) -> str:
    """The URL that also makes kombu verify a server's certificate, as redis-py does without being told."""
    if not url.startswith("rediss://") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


def check_url(url: str) -> None:
    """Refuse what is no URL of a Redis, in a sentence."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        problem = "begins with none of redis://, rediss:// and unix://"
    elif redact_url(url).endswith("…"):
        problem = "does not read: its port is a number, and # / ? @ in a password are written %23 %2F %3F %40"
    else:
        return
    raise UnreachableError(
        f"The address of the Redis, {redact_url(url)!r}, {problem}. One such as {EXAMPLE_URL} is right."
    )


def is_permanent(error: redis.RedisError) -> bool:
    """Whether to wait would be of no use: the password, the user or a certificate is refused."""
    return isinstance(error, redis.AuthenticationError) or "certificate" in str(error).lower()


def check_redis(url: str, ping: Callable[[], object]) -> str | None:
    """None if the Redis answers, else what is wrong with it now; what will stay wrong is raised."""
    try:
        ping()
    except redis.RedisError as error:
        if is_permanent(error):
            raise UnreachableError(f"Redis at {redact_url(url)} {_problem(error)}") from error
        return f"Redis at {redact_url(url)} {_problem(error)}"
    return None


@contextmanager
def redis_errors(url: str) -> Iterator[None]:
    """Errors of Redis in the block become one that says what failed and what to do."""
    try:
        yield
    except redis.RedisError as error:
        raise UnreachableError(f"Redis at {redact_url(url)} {_problem(error)}") from error


def _problem(error: redis.RedisError) -> str:
    said = str(error).rstrip(".")
    match error:
        case redis.AuthenticationError() | redis.AuthenticationWrongNumberOfArgsError():
            return f"refuses the password or user ({said}). Give them as redis://USER:PASSWORD@HOST:PORT/0."
        case _ if "certificate" in said.lower():
            return (
                f"cannot be trusted, or does not trust us ({said}). Name the authority that signed its certificate as "
                "rediss://…?ssl_ca_certs=FILE, and our own certificate, if it asks for one, as ssl_certfile=FILE and "
                "ssl_keyfile=FILE."
            )
        case redis.TimeoutError():
            return f"does not answer in time ({said}). Check the address, the network and the load of the server."
        case redis.ConnectionError():
            return f"cannot be reached ({said}). Check that it runs, and that --redis or MAABO_REDIS names it."
        case _:
            return f"refuses a command ({said}). Check its rights, its memory and its version."


MAX_SECRET_LENGTH = 1000


def add_password(url: str, path: str, address: str, variable: str) -> str:
    """The URL with the password in the file. `address` and `variable` are what messages call the two."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")
    user = place[0] or ("default" if parts.scheme in {"redis", "rediss", "unix"} else "")
    if ":" in user:
        raise SettingsError(f"{address} has a password, and {variable} names another. Take it out of {address}.")
    if not user:
        raise SettingsError(f"{variable} is given, but {address} names no user whose password that could be.")
    password = quote(read_secret(path, variable), safe="")
    return f"{parts.scheme}://{user}:{password}@{place[2]}" + url[len(f"{parts.scheme}://{parts.netloc}") :]


def read_secret(path: str, variable: str) -> str:
    """The one line in the file. Messages name the file and never what is in it."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_SECRET_LENGTH + 3).rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable} = {path!r} cannot be read: {_why(error)}.") from None
    if not text or len(text) > MAX_SECRET_LENGTH or not text.isprintable():
        raise SettingsError(
            f"{variable} = {path!r}: a file with one line of 1 to {MAX_SECRET_LENGTH:,} characters is needed."
        )
    return text


def _why(error: Exception) -> str:
    """Errors of decoding would show some of the bytes."""
    return str(error.strerror) if isinstance(error, OSError) else "it is no text"
