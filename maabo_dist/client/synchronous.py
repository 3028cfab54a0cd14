"""`Client`: the calls of a server, one after another."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from maabo_dist.client.address import Address
from maabo_dist.client.calls import Calls
from maabo_dist.client.orders import order_of
from maabo_dist.client.retries import Retrying
from maabo_dist.client.rows import Rows, plain_rows
from maabo_dist.client.rules import Rule, exported, rules_of
from maabo_dist.client.shapes import Dataset, Explanation, JobStatus, MadeToken, Quota, Token, Tree
from maabo_dist.client.stream import Event
from maabo_dist.client.sync_wire import SyncWire
from maabo_dist.client.uploads import uploadable
from maabo_dist.contract.job import JobState

if TYPE_CHECKING:
    import pandas as pd


class Client:
    """A server at `url`, which may have a path. `timeout` is in seconds, for each answer.

    What is safe to repeat is, when the connection breaks or the server is away for a moment. A token is sent over
    https, or to this machine; `insecure` permits plain http to others.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        insecure: bool = False,
        retrying: Retrying | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._wire = SyncWire(Address.checked(url, token, insecure=insecure), timeout, transport)
        self._calls = Calls(retrying or Retrying())

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Of the server."""
        return self._wire.address.url

    def close(self) -> None:
        """Let go of all connections."""
        self._wire.close()

    def upload(self, table: "str | Path | pd.DataFrame", name: str | None = None) -> Dataset:
        """Bring a file or a DataFrame to the server. The same file again gives the same dataset."""
        with uploadable(table, name) as upload:
            return self._wire.run(self._calls.upload(upload))

    def dataset(self, dataset: str) -> Dataset:
        """One table, with what its columns hold."""
        return self._wire.run(self._calls.dataset(dataset))

    def datasets(self) -> Iterator[Dataset]:
        """All tables."""
        return self._wire.iterate(self._calls.datasets())

    def delete_dataset(self, dataset: str) -> None:
        """Forget a table; jobs on it go on."""
        self._wire.run(self._calls.delete_dataset(dataset))

    def submit(
        self,
        table: "str | Path | pd.DataFrame | Dataset",
        *,
        target: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        priority: str = "normal",
        callback: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> "RemoteJob":
        """Ask for a job; `settings` are the options of `maabo mine`, as `trees=200`.

        The same `key` gives the same job, however often it is used. Without `fresh`, a job of equal table and settings
        is found again. `callback` is a webhook, {"url": …, "secret": …}.
        """
        settings = {"target": target, **settings}
        order = order_of(settings, key=key, fresh=fresh, priority=priority, callback=callback)
        dataset = table if isinstance(table, Dataset) else self.upload(table)
        status, created = self._wire.run(self._calls.submit(dataset.id, order))
        return RemoteJob(self, status, created=created)

    def jobs(self, state: str | None = None, dataset: str | None = None) -> "Iterator[RemoteJob]":
        """Jobs, the newest first, asked for page by page."""
        with closing(self._wire.iterate(self._calls.jobs(state, dataset))) as found:
            for status in found:
                yield RemoteJob(self, status)

    def job(self, job: str) -> "RemoteJob":
        """The job of this id."""
        return RemoteJob(self, self._wire.run(self._calls.status(job)))

    def create_token(
        self,
        tenant: str = "default",
        scopes: Iterable[str] = ("read", "submit"),
        *,
        expires_seconds: float | None = None,
        name: str = "",
    ) -> MadeToken:
        """Make a token (scope admin). Its text is in what this gives, and is never told again."""
        return self._wire.run(self._calls.create_token(tenant, scopes, expires_seconds, name))

    def tokens(self, tenant: str | None = None) -> list[Token]:
        """Tokens that were made (scope admin)."""
        return self._wire.run(self._calls.tokens(tenant))

    def revoke_token(self, token: str) -> None:
        """From now on the token of this id is of no use (scope admin)."""
        self._wire.run(self._calls.revoke_token(token))

    def quota(self) -> Quota:
        """What the tenant of the token may have, and what it has."""
        return self._wire.run(self._calls.quota())

    def set_quota(self, tenant: str, **limits: int | None) -> Quota:
        """Say what a tenant may have (scope admin): queued, running, bytes, trees; None for no limit."""
        return self._wire.run(self._calls.set_quota(tenant, limits))

    def ready(self) -> dict[str, str]:
        """The parts of the cluster, each with `ok` or what is wrong."""
        return self._wire.run(self._calls.ready())


class RemoteJob:
    """A job on a server. `known` is where it stood when it was last looked at; `created`, whether asking made it."""

    def __init__(self, client: Client, status: JobStatus, *, created: bool = False) -> None:
        self._wire, self._calls = client._wire, client._calls  # noqa: SLF001  # the two are one
        self.known, self.created = status, created

    def __repr__(self) -> str:
        return f"RemoteJob({self.id!r}, {self.state.value})"

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return self.known.id

    @property
    def state(self) -> JobState:
        """When it was last looked at."""
        return self.known.state

    def status(self) -> JobStatus:
        """Where the job stands now."""
        self.known = self._wire.run(self._calls.status(self.id))
        return self.known

    def wait(self, timeout: float | None = None, on_event: Callable[[Event], object] | None = None) -> Self:
        """Come back when the job is done; an error if it fails, or if that takes more than `timeout` seconds."""
        self.known = self._wire.run(self._calls.wait(self.id, timeout, on_event))
        return self

    def events(self, after: str | None = None) -> Iterator[Event]:
        """What happened since the event of this id, and what happens until the job has ended."""
        return self._wire.iterate(self._calls.events(self.id, after))

    def cancel(self) -> JobStatus:
        """End the job. It is heeded within seconds."""
        return self._wish("cancel")

    def pause(self) -> JobStatus:
        """Let the job rest. It is heeded within seconds."""
        return self._wish("pause")

    def resume(self) -> JobStatus:
        """Let a paused job go on."""
        return self._wish("resume")

    def delete(self) -> None:
        """Forget the job, which must have ended, and its result."""
        self._wire.run(self._calls.delete_job(self.id))

    def document(self) -> dict[str, Any]:
        """The rules as the JSON of `maabo mine`: final, or those found so far while the job runs."""
        return self._wire.run(self._calls.document(self.id))

    def rules(self) -> list[Rule]:
        """The rules, best first."""
        return rules_of(self.document())

    def export(self, form: str, table_name: str = "data") -> str:
        """The rules as json, csv, markdown, sql or pandas."""
        return exported(self.document(), form, table_name)

    def explain(self, rows: Rows) -> Explanation:
        """Which rules fire for each of the rows: a DataFrame, or dicts with the table's columns."""
        return self._wire.run(self._calls.explain(self.id, plain_rows(rows)))

    def report(self) -> str:
        """A page for people, as HTML."""
        return self._wire.run(self._calls.report(self.id))

    def trees(self, order: str = "search") -> Iterator[Tree]:
        """The trees that the job has grown, in the order of the search, or with `best` by score."""
        return self._wire.iterate(self._calls.trees(self.id, order))

    def diff(self, other: "RemoteJob | str") -> dict[str, Any]:
        """What is different between the rules of this job and of another."""
        return self._wire.run(self._calls.diff(self.id, other if isinstance(other, str) else other.id))

    def _wish(self, wish: str) -> JobStatus:
        self.known = self._wire.run(self._calls.wish(self.id, wish))
        return self.known
