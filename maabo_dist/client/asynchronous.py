"""`AsyncClient`: the same as `Client`, with await. See there for what each call does."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
import httpx

from maabo_dist.client.address import Address
from maabo_dist.client.async_wire import AsyncWire
from maabo_dist.client.calls import Calls
from maabo_dist.client.orders import order_of
from maabo_dist.client.retries import Retrying
from maabo_dist.client.rows import Rows, plain_rows
from maabo_dist.client.rules import Rule, exported, rules_of
from maabo_dist.client.shapes import Dataset, Explanation, JobStatus, MadeToken, Quota, Token, Tree
from maabo_dist.client.stream import Event
from maabo_dist.client.uploads import uploadable
from maabo_dist.contract.job import JobState

if TYPE_CHECKING:
    import pandas as pd


class AsyncClient:
    """A server at `url`; the arguments are those of `Client`."""

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
        self._wire = AsyncWire(Address.checked(url, token, insecure=insecure), timeout, transport)
        self._calls = Calls(retrying or Retrying())

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Of the server."""
        return self._wire.address.url

    async def close(self) -> None:
        """Let go of all connections."""
        await self._wire.close()

    async def upload(self, table: "str | Path | pd.DataFrame", name: str | None = None) -> Dataset:
        """Bring a file or a DataFrame to the server. The same file again gives the same dataset."""
        with ExitStack() as stack:
            upload = await anyio.to_thread.run_sync(stack.enter_context, uploadable(table, name))
            return await self._wire.run(self._calls.upload(upload))

    async def dataset(self, dataset: str) -> Dataset:
        """One table, with what its columns hold."""
        return await self._wire.run(self._calls.dataset(dataset))

    def datasets(self) -> AsyncIterator[Dataset]:
        """All tables."""
        return self._wire.iterate(self._calls.datasets())

    async def delete_dataset(self, dataset: str) -> None:
        """Forget a table; jobs on it go on."""
        await self._wire.run(self._calls.delete_dataset(dataset))

    async def submit(
        self,
        table: "str | Path | pd.DataFrame | Dataset",
        *,
        target: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        priority: str = "normal",
        callback: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> "AsyncRemoteJob":
        """Ask for a job; `settings` are the options of `maabo mine`, as `trees=200`.

        The same `key` gives the same job, however often it is used. Without `fresh`, a job of equal table and settings
        is found again. `callback` is a webhook, {"url": …, "secret": …}.
        """
        settings = {"target": target, **settings}
        order = order_of(settings, key=key, fresh=fresh, priority=priority, callback=callback)
        dataset = table if isinstance(table, Dataset) else await self.upload(table)
        status, created = await self._wire.run(self._calls.submit(dataset.id, order))
        return AsyncRemoteJob(self, status, created=created)

    async def jobs(self, state: str | None = None, dataset: str | None = None) -> "AsyncIterator[AsyncRemoteJob]":
        """Jobs, the newest first, asked for page by page."""
        async with aclosing(self._wire.iterate(self._calls.jobs(state, dataset))) as found:
            async for status in found:
                yield AsyncRemoteJob(self, status)

    async def job(self, job: str) -> "AsyncRemoteJob":
        """The job of this id."""
        return AsyncRemoteJob(self, await self._wire.run(self._calls.status(job)))

    async def create_token(
        self,
        tenant: str = "default",
        scopes: Iterable[str] = ("read", "submit"),
        *,
        expires_seconds: float | None = None,
        name: str = "",
    ) -> MadeToken:
        """Make a token (scope admin). Its text is in what this gives, and is never told again."""
        return await self._wire.run(self._calls.create_token(tenant, scopes, expires_seconds, name))

    async def tokens(self, tenant: str | None = None) -> list[Token]:
        """Tokens that were made (scope admin)."""
        return await self._wire.run(self._calls.tokens(tenant))

    async def revoke_token(self, token: str) -> None:
        """From now on the token of this id is of no use (scope admin)."""
        await self._wire.run(self._calls.revoke_token(token))

    async def quota(self) -> Quota:
        """What the tenant of the token may have, and what it has."""
        return await self._wire.run(self._calls.quota())

    async def set_quota(self, tenant: str, **limits: int | None) -> Quota:
        """Say what a tenant may have (scope admin): queued, running, bytes, trees; None for no limit."""
        return await self._wire.run(self._calls.set_quota(tenant, limits))

    async def ready(self) -> dict[str, str]:
        """The parts of the cluster, each with `ok` or what is wrong."""
        return await self._wire.run(self._calls.ready())


class AsyncRemoteJob:
    """A job on a server. `known` is where it stood when it was last looked at; `created`, whether asking made it."""

    def __init__(self, client: AsyncClient, status: JobStatus, *, created: bool = False) -> None:
        self._wire, self._calls = client._wire, client._calls  # noqa: SLF001  # the two are one
        self.known, self.created = status, created

    def __repr__(self) -> str:
        return f"AsyncRemoteJob({self.id!r}, {self.state.value})"

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return self.known.id

    @property
    def state(self) -> JobState:
        """When it was last looked at."""
        return self.known.state

    async def status(self) -> JobStatus:
        """Where the job stands now."""
        self.known = await self._wire.run(self._calls.status(self.id))
        return self.known

    async def wait(self, timeout: float | None = None, on_event: Callable[[Event], object] | None = None) -> Self:
        """Come back when the job is done; an error if it fails, or if that takes more than `timeout` seconds."""
        self.known = await self._wire.run(self._calls.wait(self.id, timeout, on_event))
        return self

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """What happened since the event of this id, and what happens until the job has ended."""
        return self._wire.iterate(self._calls.events(self.id, after))

    async def cancel(self) -> JobStatus:
        """End the job. It is heeded within seconds."""
        return await self._wish("cancel")

    async def pause(self) -> JobStatus:
        """Let the job rest. It is heeded within seconds."""
        return await self._wish("pause")

    async def resume(self) -> JobStatus:
        """Let a paused job go on."""
        return await self._wish("resume")

    async def delete(self) -> None:
        """Forget the job, which must have ended, and its result."""
        await self._wire.run(self._calls.delete_job(self.id))

    async def document(self) -> dict[str, Any]:
        """The rules as the JSON of `maabo mine`: final, or those found so far while the job runs."""
        return await self._wire.run(self._calls.document(self.id))

    async def rules(self) -> list[Rule]:
        """The rules, best first."""
        return rules_of(await self.document())

    async def export(self, form: str, table_name: str = "data") -> str:
        """The rules as json, csv, markdown, sql or pandas."""
        return exported(await self.document(), form, table_name)

    async def explain(self, rows: Rows) -> Explanation:
        """Which rules fire for each of the rows: a DataFrame, or dicts with the table's columns."""
        return await self._wire.run(self._calls.explain(self.id, plain_rows(rows)))

    async def report(self) -> str:
        """A page for people, as HTML."""
        return await self._wire.run(self._calls.report(self.id))

    def trees(self, order: str = "search") -> AsyncIterator[Tree]:
        """The trees that the job has grown, in the order of the search, or with `best` by score."""
        return self._wire.iterate(self._calls.trees(self.id, order))

    async def diff(self, other: "AsyncRemoteJob | str") -> dict[str, Any]:
        """What is different between the rules of this job and of another."""
        return await self._wire.run(self._calls.diff(self.id, other if isinstance(other, str) else other.id))

    async def _wish(self, wish: str) -> JobStatus:
        self.known = await self._wire.run(self._calls.wish(self.id, wish))
        return self.known
