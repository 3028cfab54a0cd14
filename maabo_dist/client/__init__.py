"""A client of the HTTP API of a cluster.

    from maabo_dist.client import Client

    with Client("http://127.0.0.1:8080", token="maabo_…") as client:
        rules = client.submit("table.csv", target="y", seed=5).wait().rules()

`AsyncClient` has the same methods with `await`. It is the one source; `Client` is generated from it.
"""

try:
    import httpx  # noqa: F401
    import httpx_sse  # noqa: F401
except ModuleNotFoundError as error:
    message = f"{error.name} is not installed, which the client needs. Run: pip install 'maabo-dist[client]'"
    raise ModuleNotFoundError(message, name=error.name) from None

from maabo_dist.client._async.client import AsyncClient
from maabo_dist.client._async.jobs import AsyncRemoteJob
from maabo_dist.client._sync.client import Client
from maabo_dist.client._sync.jobs import RemoteJob
from maabo_dist.client.errors import (
    JobFailedError,
    ProblemError,
    RefusedError,
    ServerUnreachableError,
    WaitTimeoutError,
)
from maabo_dist.client.payloads import Event, JobStatus
from maabo_dist.client.requests import Retrying
from maabo_dist.contract.api import Column, CreatedToken, Dataset, DatasetDetails, Explanation, Quota, Token, Tree
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord

__all__ = [
    "AsyncClient",
    "AsyncRemoteJob",
    "Client",
    "Column",
    "CreatedToken",
    "Dataset",
    "DatasetDetails",
    "Event",
    "Explanation",
    "JobFailedError",
    "JobStatus",
    "ProblemError",
    "Quota",
    "RefusedError",
    "RemoteJob",
    "ResultDocument",
    "Retrying",
    "RuleRecord",
    "ServerUnreachableError",
    "Token",
    "Tree",
    "WaitTimeoutError",
]
