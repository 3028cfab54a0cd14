"""A client for the HTTP interface of a cluster.

    from maabo_dist.client import Client

    with Client("http://127.0.0.1:8080", token="maabo_…") as client:
        rules = client.submit("table.csv", target="y", seed=5).wait().rules()

`AsyncClient` is the same with `await`. What is asked and how answers are read is written once, as flows (`steps`) that
do no I/O; the two clients carry them out.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maabo_dist.client.asynchronous import AsyncClient, AsyncRemoteJob
    from maabo_dist.client.errors import JobFailedError, ProblemError, ServerUnreachableError, WaitTimeoutError
    from maabo_dist.client.retries import Retrying
    from maabo_dist.client.rules import Condition, Evidence, Rule
    from maabo_dist.client.shapes import Dataset, Explanation, JobStatus, MadeToken, Quota, Token, Tree
    from maabo_dist.client.stream import Event
    from maabo_dist.client.synchronous import Client, RemoteJob

_HOMES = {
    "AsyncClient": "asynchronous",
    "AsyncRemoteJob": "asynchronous",
    "Client": "synchronous",
    "Condition": "rules",
    "Dataset": "shapes",
    "Event": "stream",
    "Evidence": "rules",
    "Explanation": "shapes",
    "JobFailedError": "errors",
    "JobStatus": "shapes",
    "MadeToken": "shapes",
    "ProblemError": "errors",
    "Quota": "shapes",
    "RemoteJob": "synchronous",
    "Retrying": "retries",
    "Rule": "rules",
    "ServerUnreachableError": "errors",
    "Token": "shapes",
    "Tree": "shapes",
    "WaitTimeoutError": "errors",
}

__all__ = [
    "AsyncClient",
    "AsyncRemoteJob",
    "Client",
    "Condition",
    "Dataset",
    "Event",
    "Evidence",
    "Explanation",
    "JobFailedError",
    "JobStatus",
    "MadeToken",
    "ProblemError",
    "Quota",
    "RemoteJob",
    "Retrying",
    "Rule",
    "ServerUnreachableError",
    "Token",
    "Tree",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        said = "httpx is not installed, which the client needs. Run: pip install 'maabo-dist[client]'"
        raise ModuleNotFoundError(said, name="httpx") from None
