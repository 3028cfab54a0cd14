"""`AsyncClient`: the calls of one server."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import httpx

from maabo_dist.client._async.jobs import AsyncRemoteJob
from maabo_dist.client._async.transport import AsyncTransport
from maabo_dist.client.errors import parse_response
from maabo_dist.client.payloads import JobStatus, job_document, upload_request
from maabo_dist.client.requests import Address, Request, Retrying, async_call, get, quote_id
from maabo_dist.contract.api import CreatedToken, Dataset, DatasetDetails, Page, Quota, Token

if TYPE_CHECKING:
    import pandas as pd


class AsyncClient:
    """A client of the HTTP API of a cluster.

    `AsyncClient` is for event loops; `Client` has the same methods and blocks. Requests that are safe to repeat are
    repeated when the connection breaks or the server is briefly unavailable.

    Parameters
    ----------
    url : str
        Address of the server; it may have a path.
    token : str, optional
        API token. It is sent over https and to this machine only, unless `insecure` is set.
    timeout : float, default 30.0
        Seconds to wait for a response. Requests for which the server reads a table wait longer.
    insecure : bool, default False
        Permit sending the token to other machines over plain http.
    retrying : Retrying, optional
        How often requests are repeated, and after which pauses.
    transport : httpx.AsyncBaseTransport, optional
        An httpx transport, for example for tests.

    Raises
    ------
    SettingsError
        If the address or the token is not valid, or if the token would be sent in plain text.

    Examples
    --------
    >>> async with AsyncClient("http://127.0.0.1:8080", token="maabo_…") as client:
    ...     job = await client.submit("table.csv", target="y", seed=5, trees=10, min_samples=20)
    ...     job = await job.wait()
    ...     rules = await job.rules()
    >>> rules[0].id
    'R1'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        insecure: bool = False,
        retrying: Retrying | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        address = Address.parse(url, token, insecure=insecure)
        self._transport = AsyncTransport(address, timeout, retrying or Retrying(), transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._transport.server

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def upload(self, table: "str | Path | pd.DataFrame", name: str | None = None) -> Dataset:
        """Upload a table. Uploading the same file again returns the same dataset.

        Parameters
        ----------
        table : str, Path or DataFrame
            A CSV, TSV (both also with .gz), Parquet or Feather file, or a DataFrame.
        name : str, optional
            Name of the dataset. The default is the name of the file.
        """
        with TemporaryDirectory(prefix="maabo-") as folder:
            request = await async_call(lambda: upload_request(table, name, Path(folder)))
            return await self._transport.fetch(Dataset, request)

    async def use_directory(self, path: str, name: str | None = None) -> Dataset:
        """Use a directory of Parquet or CSV files in the server's table directory, which is not uploaded.

        Parameters
        ----------
        path : str
            Path of the directory (or of one file) in the server's table directory, for example ``sales/2024``.
        name : str, optional
            Name of the dataset. The default is the last part of the path.
        """
        document = {"path": path} | ({} if name is None else {"name": name})
        request = Request("POST", "/v1/datasets", document=document, idempotent=True, slow=True)
        return await self._transport.fetch(Dataset, request)

    async def dataset(self, dataset: str) -> DatasetDetails:
        """Return a dataset with a summary of its columns.

        Parameters
        ----------
        dataset : str
            ID of the dataset.
        """
        return await self._transport.fetch(DatasetDetails, get(f"/v1/datasets/{quote_id(dataset)}"))

    def datasets(self) -> AsyncIterator[Dataset]:
        """Iterate over all datasets."""
        return self._transport.fetch_pages(Page[Dataset], "/v1/datasets", {})

    async def delete_dataset(self, dataset: str) -> None:
        """Delete a dataset. Its jobs keep running.

        Parameters
        ----------
        dataset : str
            ID of the dataset.
        """
        await self._transport.send(Request("DELETE", f"/v1/datasets/{quote_id(dataset)}", idempotent=True))

    async def submit(
        self,
        table: "str | Path | pd.DataFrame | Dataset",
        *,
        target: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        priority: str = "normal",
        callback: Mapping[str, Any] | None = None,
        sample: int | None = None,
        **settings: Any,
    ) -> AsyncRemoteJob:
        """Submit a job.

        Parameters
        ----------
        table : str, Path, DataFrame or Dataset
            The table, which is uploaded first unless it is a `Dataset`.
        target : str, optional
            Name of the column with the classes. The default is the last column.
        key : str, optional
            Idempotency key: submitting again with the same key returns the same job. The default is a new key.
        fresh : bool, default False
            Mine again even if there is a job with the same table and settings; otherwise that one is returned.
        priority : {"low", "normal", "high"}, default "normal"
            Priority among the waiting jobs.
        callback : dict, optional
            A webhook that is called when the job has ended: ``{"url": …, "secret": …}``.
        sample : int, optional
            Rows to search of a dataset of `use_directory`; the evidence is counted on all rows. The default is 200,000.
        **settings
            The options of ``maabo mine``, for example ``trees=200``.

        Returns
        -------
        AsyncRemoteJob
            The job; its attribute `created` is False if it existed before.

        Raises
        ------
        SettingsError
            If a setting does not exist or its value is not valid; nothing is sent then.
        """
        document = job_document(
            {"target": target, **settings}, fresh=fresh, priority=priority, callback=callback, sample=sample
        )
        dataset = table if isinstance(table, Dataset) else await self.upload(table)
        headers = {"Idempotency-Key": key or uuid4().hex}
        document = {"dataset": dataset.id} | document
        request = Request("POST", "/v1/jobs", document=document, headers=headers, idempotent=True, slow=True)
        response = await self._transport.send(request)
        status = parse_response(JobStatus, response, self.url)
        return AsyncRemoteJob(self._transport, status, created=response.status_code == 202)

    async def jobs(self, state: str | None = None, dataset: str | None = None) -> AsyncIterator[AsyncRemoteJob]:
        """Iterate over jobs, newest first. Further pages are requested as needed.

        Parameters
        ----------
        state : str, optional
            Only jobs in this state, for example ``running``.
        dataset : str, optional
            Only jobs of the dataset with this ID.
        """
        params = {"state": state, "dataset": dataset}
        async with aclosing(self._transport.fetch_pages(Page[JobStatus], "/v1/jobs", params)) as statuses:
            async for status in statuses:
                yield AsyncRemoteJob(self._transport, status)

    async def job(self, job: str) -> AsyncRemoteJob:
        """Return a job.

        Parameters
        ----------
        job : str
            ID of the job.
        """
        status = await self._transport.fetch(JobStatus, get(f"/v1/jobs/{quote_id(job)}"))
        return AsyncRemoteJob(self._transport, status)

    async def create_token(
        self,
        tenant: str = "default",
        scopes: Iterable[str] = ("read", "submit"),
        *,
        expires_seconds: float | None = None,
        name: str = "",
    ) -> CreatedToken:
        """Create a token. This needs the scope ``admin``.

        Parameters
        ----------
        tenant : str, default "default"
            The tenant whose data the token gives access to.
        scopes : iterable of str, default ("read", "submit")
            Any of ``read``, ``submit`` and ``admin``.
        expires_seconds : float, optional
            Seconds until the token expires. The default does not expire.
        name : str, default ""
            A note on what the token is used for.

        Returns
        -------
        CreatedToken
            The token with its text, which cannot be retrieved later.
        """
        document = {"tenant": tenant, "scopes": list(scopes), "expires_seconds": expires_seconds, "name": name}
        return await self._transport.fetch(CreatedToken, Request("POST", "/v1/tokens", document=document))

    async def tokens(self, tenant: str | None = None) -> list[Token]:
        """Return all tokens, without their texts. This needs the scope ``admin``.

        Parameters
        ----------
        tenant : str, optional
            Only tokens of this tenant.
        """
        return await self._transport.fetch(list[Token], get("/v1/tokens", {"tenant": tenant}))

    async def revoke_token(self, token: str) -> None:
        """Revoke a token. This needs the scope ``admin``.

        Parameters
        ----------
        token : str
            ID of the token.
        """
        await self._transport.send(Request("DELETE", f"/v1/tokens/{quote_id(token)}", idempotent=True))

    async def quota(self) -> Quota:
        """Return the limits of the token's tenant and its current use."""
        return await self._transport.fetch(Quota, get("/v1/quota"))

    async def set_quota(self, tenant: str, **limits: int | None) -> Quota:
        """Replace all limits of a tenant. This needs the scope ``admin``.

        Parameters
        ----------
        tenant : str
            Name of the tenant.
        **limits
            Any of ``queued``, ``running``, ``bytes`` and ``trees``; omit one, or pass None, to remove that limit.
        """
        request = Request("PUT", f"/v1/quotas/{quote_id(tenant)}", document=limits, idempotent=True)
        return await self._transport.fetch(Quota, request)

    async def ready(self) -> dict[str, str]:
        """Return the components of the cluster, each with ``ok`` or a description of what is wrong."""
        response = await self._transport.fetch(dict[str, Any], Request("GET", "/readyz"), check=False)
        return dict(response.get("parts", {}))
