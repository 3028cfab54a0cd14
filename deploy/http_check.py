"""A health check over HTTP."""

from http.client import HTTPConnection, HTTPException


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
