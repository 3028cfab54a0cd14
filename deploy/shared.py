"""Code that the ways to run a cluster share: private files, values of redis.conf, and a health check over HTTP."""

import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from maabo_dist._util.files import atomic_write


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, completely or not at all."""
    with atomic_write(path) as file:
        os.fchmod(file.fileno(), 0o600)  # while it is still empty
        file.write(text.encode())


def quote_redis(text: str) -> str:
    """Return a value as redis.conf needs it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def http_problem(host: str, port: int | None, path: str, timeout: float) -> str | None:
    """Return what is wrong with a server; None if it answers with 200."""
    connection = HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"{host}:{port}{path} does not answer: {error}"
    finally:
        connection.close()
    return None if status == 200 else f"{host}:{port}{path} answers {status}."
