# Generated from maabo_dist/client/_async/jobs.py by `make client`. Do not edit.
"""`RemoteJob`: one job on a server."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from maabo_dist.client._sync.transport import EventStream, Transport
from maabo_dist.client.errors import JobFailedError, ProblemError, ServerUnreachableError, WaitTimeoutError
from maabo_dist.client.payloads import Event, JobStatus, Rows, merge_explanations, rows_to_json, upload_request
from maabo_dist.client.requests import Deadline, Request, call, get, quote_id
from maabo_dist.contract.api import Dataset, Explanation, Page, Tree
from maabo_dist.contract.checks import CheckReport
from maabo_dist.contract.job import JobState
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord

if TYPE_CHECKING:
    import pandas as pd

    from maabo_dist.report.sql import SqlDialect, SqlForm

# A table on the server, or one to upload.
NewTable: TypeAlias = "Dataset | str | Path | pd.DataFrame"

FIRST_POLL_PAUSE = 1.0
MAX_POLL_PAUSE = 10.0
# Seconds. A caller that waits for hours does not give up because the server restarts.
MAX_OUTAGE = 60.0


class RemoteJob:
    """A job on a server. Clients create these objects; there is no need to do it yourself.

    Attributes
    ----------
    last_status : JobStatus
        The status as of the last call that returned it.
    created : bool
        True if the submission created the job, False if it found an existing one.

    Examples
    --------
    >>> job = client.submit("table.csv", target="y", seed=5, trees=10, min_samples=20)
    >>> job = job.wait(timeout=300)
    >>> job.state.value
    'done'
    >>> rules = job.rules()
    >>> rules[0].id
    'R1'
    >>> numbers = [tree.number for tree in job.trees()]
    >>> len(numbers)
    10
    """

    def __init__(self, transport: Transport, status: JobStatus, *, created: bool = False) -> None:
        self._transport = transport
        self._path = f"/v1/jobs/{quote_id(status.id)}"
        self.last_status, self.created = status, created

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.state.value})"

    @property
    def id(self) -> str:
        """The ID: 32 hexadecimal digits."""
        return self.last_status.id

    @property
    def state(self) -> JobState:
        """The state as of the last call that returned the status."""
        return self.last_status.state

    def status(self) -> JobStatus:
        """Return the current status."""
        return self._update(get(self._path))

    def wait(self, timeout: float | None = None, on_event: Callable[[Event], object] | None = None) -> Self:
        """Wait until the job is done.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most. The default has no limit.
        on_event : callable, optional
            Called with each `Event` until the job has ended.

        Returns
        -------
        RemoteJob
            The job itself.

        Raises
        ------
        JobFailedError
            If the job fails or is cancelled.
        WaitTimeoutError
            If the job has not ended after `timeout` seconds.
        """
        if not (self.status()).state.ended:
            with closing(self._watch(None, timeout)) as events:
                for event in events:
                    if on_event is not None:
                        on_event(event)
        if self.state is not JobState.DONE:
            raise JobFailedError(self.id, self.state.value, self.last_status.reason)
        return self

    def events(self, after: str | None = None) -> Iterator[Event]:
        """Iterate over the events of the job until it has ended.

        Parameters
        ----------
        after : str, optional
            ID of an event: begin with the one that follows it. The default begins with the current status.
        """
        return self._watch(after, None)

    def cancel(self) -> JobStatus:
        """End the job. This takes effect within seconds."""
        return self._update(Request("POST", f"{self._path}/cancel"))

    def pause(self) -> JobStatus:
        """Pause the job. This takes effect within seconds."""
        return self._update(Request("POST", f"{self._path}/pause"))

    def resume(self) -> JobStatus:
        """Resume the job after a pause."""
        return self._update(Request("POST", f"{self._path}/resume"))

    def delete(self) -> None:
        """Delete the job, which must have ended, and its result."""
        self._transport.send(Request("DELETE", self._path, idempotent=True))

    def document(self) -> ResultDocument:
        """Return the result document; while the job runs, with the rules so far.

        Its method ``to_json()`` returns the JSON that ``maabo mine --json`` prints.
        """
        return ResultDocument.parse(self._transport.fetch(dict[str, Any], get(f"{self._path}/rules")))

    def rules(self) -> tuple[RuleRecord, ...]:
        """Return the rules, best first; while the job runs, those found so far."""
        return (self.document()).rules

    def export(
        self,
        form: str,
        table_name: str = "data",
        sql_dialect: "SqlDialect" = "standard",
        sql_form: "SqlForm" = "queries",
    ) -> str:
        """Return the rules as text.

        Parameters
        ----------
        form : {"json", "csv", "markdown", "sql", "pandas", "polars"}
            The format.
        table_name : str, default "data"
            Name of the table in SQL.
        sql_dialect : {"standard", "duckdb", "postgresql", "sqlite", "bigquery", "snowflake"}, default "standard"
            The database that the SQL is for.
        sql_form : {"queries", "case"}, default "queries"
            A query for each rule, or one CASE expression.
        """
        from maabo_dist.report.exports import export_rules  # noqa: PLC0415 - 0.2 s, loads NumPy

        return export_rules(self.document(), form, table_name, sql_dialect, sql_form)

    def apply(self, table: "NewTable", out: str | Path, *, keep: Sequence[str] = ()) -> Path:
        """Write which rules match each row of a table, the class that they predict and the reason.

        Parameters
        ----------
        table : Dataset, str, Path or DataFrame
            A table on the server, or one to upload: a file or a DataFrame.
        out : str or Path
            The file to write: CSV if its name ends with .csv, otherwise Parquet.
        keep : sequence of str, optional
            Columns of the table to copy.

        Returns
        -------
        Path
            The file.
        """
        path = Path(out)
        body = {
            "dataset": self._stored(table),
            "format": "csv" if path.suffix.lower() == ".csv" else "parquet",
            "keep": list(keep),
        }
        part = path.with_name(f"{path.name}.part")
        request = Request("POST", f"{self._path}/apply", document=body, idempotent=True, slow=True, save_to=part)
        try:
            self._transport.send(request)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def check(self, table: "NewTable", target: str | None = None, *, significance: float = 0.05) -> CheckReport:
        """Measure the rules on a table with known classes: which still hold, which drifted and which failed.

        Parameters
        ----------
        table : Dataset, str, Path or DataFrame
            A table on the server, or one to upload: a file or a DataFrame.
        target : str, optional
            The column that holds the classes. The default is the target of the job.
        significance : float, default 0.05
            Level of the tests, which are corrected for the number of rules.
        """
        body = {"dataset": self._stored(table), "target": target, "significance": significance}
        request = Request("POST", f"{self._path}/check", document=body, idempotent=True, slow=True)
        return self._transport.fetch(CheckReport, request)

    def explain(self, rows: Rows) -> Explanation:
        """Return the rules that match each of some rows.

        Parameters
        ----------
        rows : DataFrame or iterable of dict
            Rows with the columns of the mined table.
        """
        parts: list[Explanation] = []
        for chunk in rows_to_json(rows):
            request = Request("POST", f"{self._path}/explain", document={"rows": chunk}, idempotent=True)
            parts.append(self._transport.fetch(Explanation, request))
        return merge_explanations(parts)

    def report(self) -> str:
        """Return the report as an HTML page."""
        return (self._transport.send(get(f"{self._path}/report", slow=True))).text

    def figures(self) -> dict[str, Any]:
        """Return the data of the report's figures, once the job is done."""
        return self._transport.fetch(dict[str, Any], get(f"{self._path}/figures", slow=True))

    def trees(self, order: str = "search") -> Iterator[Tree]:
        """Iterate over the trees of the job.

        Parameters
        ----------
        order : {"search", "best"}, default "search"
            The order of the search, or by score, best first.
        """
        return self._transport.fetch_pages(Page[Tree], f"{self._path}/trees", {"order": order})

    def diff(self, other: Self | str) -> dict[str, Any]:
        """Compare the rules with those of another job.

        Parameters
        ----------
        other : RemoteJob or str
            The other job, or its ID.
        """
        other_id = other if isinstance(other, str) else other.id
        return self._transport.fetch(dict[str, Any], get(f"{self._path}/diff/{quote_id(other_id)}"))

    def _stored(self, table: "NewTable") -> str:
        """Return the ID of a table on the server; upload it if it is not there."""
        if isinstance(table, Dataset):
            return table.id
        with TemporaryDirectory(prefix="maabo-") as folder:
            request = call(partial(upload_request, table, None, Path(folder)))
            return (self._transport.fetch(Dataset, request)).id

    def _update(self, request: Request) -> JobStatus:
        self.last_status = self._transport.fetch(JobStatus, request)
        return self.last_status

    def _watch(self, after: str | None, timeout: float | None) -> Generator[Event, None]:
        """Yield events until the job has ended. Without an event stream, poll the status and yield its changes."""
        deadline = Deadline(timeout)
        stream = EventStream(self._transport, f"{self._path}/events", after, deadline)
        pause = FIRST_POLL_PAUSE
        previous: JobStatus | None = None
        while True:
            if stream.supported:
                with closing(stream.read()) as events:
                    for event in events:
                        yield event
            status = self._poll()
            if not stream.supported and status != previous:
                yield Event(None, "status", status.model_dump(mode="json"))
                pause = FIRST_POLL_PAUSE
            if status.state.ended:
                return
            if deadline.passed:
                raise WaitTimeoutError(self.id, timeout or 0.0)
            previous = status
            sleep(min(pause, deadline.remaining))
            pause = min(MAX_POLL_PAUSE, pause * 1.5)

    def _poll(self) -> JobStatus:
        """Return the status; retry while the server is temporarily unavailable."""
        deadline = Deadline(MAX_OUTAGE)
        while True:
            try:
                return self.status()
            except (ServerUnreachableError, ProblemError) as error:
                refused = isinstance(error, ProblemError) and error.status < 500
                if refused or deadline.passed:
                    raise
            sleep(FIRST_POLL_PAUSE)
