"""Passwords that stand in files of their own: put into the addresses that they are for.

Container and service managers hand secrets over as files; `docker inspect` and every child would show a variable.
"""

from pathlib import Path
from urllib.parse import quote, urlsplit

from maabo_dist.errors import SettingsError

LONGEST = 1000


def with_password(url: str, path: str, address: str, variable: str) -> str:
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
            text = file.read(LONGEST + 3).rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable} = {path!r} cannot be read: {_why(error)}.") from None
    if not text or len(text) > LONGEST or not text.isprintable():
        raise SettingsError(f"{variable} = {path!r}: a file with one line of 1 to {LONGEST:,} characters is needed.")
    return text


def _why(error: Exception) -> str:
    """Errors of decoding would show some of the bytes."""
    return str(error.strerror) if isinstance(error, OSError) else "it is no text"
