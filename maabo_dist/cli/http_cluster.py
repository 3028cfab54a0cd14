"""`HttpCluster`: a cluster reached through its HTTP server. Tables are uploaded as they are and prepared there."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from maabo_dist.cli.cluster import JobList, SubmitOptions, repeat_settings_of
from maabo_dist.cli.progress import progress_display
from maabo_dist.cli.source import Source
from maabo_dist.client import Client, ProblemError, ServerUnreachableError
from maabo_dist.client.payloads import MAX_NAME_LENGTH
from maabo_dist.contract.ids import DIGITS, match_one, parse_prefix, short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import PAST_TENSE, JobCommand, JobRecord, is_applied
from maabo_dist.errors import InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.client import Dataset
    from maabo_dist.data.preparation import PreparedTable
    from maabo_dist.settings import MiningSettings

# Schedulers read commands every few seconds.
COMMAND_SECONDS = 20.0
POLL_SECONDS = 0.2


class HttpCluster:
    """A cluster behind a server. `tenant` is the tenant of the token."""

    def __init__(self, client: Client, tenant: str, note: Callable[[str], None]) -> None:
        self.client, self.tenant, self.note = client, tenant, note

    @classmethod
    def connect(cls, client: Client, note: Callable[[str], None]) -> Self:
        """Check that the server answers and accepts the token, before a table is read."""
        return cls(client, client.quota().tenant, note)

    @property
    def address(self) -> str:
        """The URL of the server."""
        return self.client.url

    def idle(self) -> bool:
        """Return True if the server reports that no scheduler is running; False if it is unknown."""
        try:
            return self.client.ready().get("scheduler", "ok") != "ok"
        except ServerUnreachableError:  # a gateway that forwards only /v1
            return False

    def record(self, job: str) -> JobRecord:
        """Return the current record of a job."""
        return self.add_tenant(self.client.job(job).last_status)

    def find(self, prefix: str) -> JobRecord:
        """Return the only job whose id starts with this prefix; short prefixes search all jobs."""
        digits = parse_prefix(prefix)
        if len(digits) == DIGITS:
            return self.record(digits)
        ids = sorted({job.id for job in self.client.jobs() if job.id.startswith(digits)})
        return self.record(match_one(digits, ids))

    def list_jobs(self, state: JobState | None, limit: int) -> JobList:
        """Return the newest jobs. The others are not counted, which would take a request for every 200."""
        jobs = self.client.jobs(state=None if state is None else state.value)
        records = [self.add_tenant(job.last_status) for job in islice(jobs, limit + 1)]
        return JobList(records[:limit], None if len(records) > limit else 0)

    def follow(self, job: str) -> Iterator[JobRecord]:
        """Yield the record now, and whenever an event changes it."""
        record = self.record(job)
        yield record
        if record.state.ended:
            return
        for event in self.client.job(job).events():
            status = event.status
            if status is not None and self.add_tenant(status) != record:
                record = self.add_tenant(status)
                yield record
        yield self.record(job)

    def send_command(self, job: str, command: JobCommand) -> JobRecord:
        """Send a command, and poll until it has taken effect."""
        handle = self.client.job(job)
        if handle.state.ended:
            raise InputError(f"Job {short_id(job)} is {handle.state.value}; it cannot be {PAST_TENSE[command]}.")
        status = {"pause": handle.pause, "resume": handle.resume, "cancel": handle.cancel}[command]()
        end = time.monotonic() + COMMAND_SECONDS
        while not is_applied(status, command):
            if time.monotonic() > end:
                cause = "No scheduler is running." if self.idle() else "The schedulers did not respond."
                raise MaaboError(f"{cause} Job {short_id(job)} is not {PAST_TENSE[command]} yet; the request is saved.")
            time.sleep(POLL_SECONDS)
            status = handle.status()
        return self.add_tenant(status)

    def document(self, job: str) -> str | None:
        """Return the rules; None if there are none yet."""
        try:
            return self.final_document(job)
        except ProblemError as error:
            if error.status == HTTPStatus.CONFLICT:
                return None
            raise

    def final_document(self, job: str) -> str:
        """Return the rules of a job that is done."""
        document = self.client.job(job).document()
        # `partial` repeats `search.stopped`, which every document has.
        return json.dumps(document.model_copy(update={"partial": None}).to_json())

    def figures(self, job: str) -> dict[str, Any] | None:
        """Return the data of the report's figures, if the server has it."""
        try:
            return self.client.job(job).figures()
        except ProblemError as error:
            if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                return None
            raise

    def prepare(self, source: Source, options: SubmitOptions) -> "HttpSubmission":
        """Check the options. The table is read here only if repeats are requested."""
        if options.tenant not in {None, self.tenant}:
            raise SettingsError(
                f"--tenant {options.tenant}: the token belongs to tenant {self.tenant}. "
                "Remove --tenant, or use another token."
            )
        if options.name and len(options.name) > MAX_NAME_LENGTH:
            raise SettingsError(f"--name has {len(options.name)} characters; the maximum is {MAX_NAME_LENGTH}.")
        submission = HttpSubmission(self, source, options)
        return submission.with_repeats() if source.repeating.repeats else submission

    def add_tenant(self, status: JobRecord) -> JobRecord:
        """Return the record with the tenant, which servers omit: a tenant sees only its own jobs."""
        values = {name: getattr(status, name) for name in JobRecord.model_fields}
        return JobRecord(**values | {"tenant": self.tenant})


@dataclass(frozen=True, slots=True)
class HttpSubmission:
    """A submission over HTTP."""

    cluster: HttpCluster
    source: Source
    options: SubmitOptions
    # The settings of the repeats.
    repeats: "tuple[MiningSettings, ...]" = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Empty: the server assigns ids."""
        return ()

    def count_features(self) -> int:
        """Read the table, and return its number of features."""
        return self._prepare().columns.count

    def with_repeats(self) -> "HttpSubmission":
        """Return the submission with the settings of its repeats, for which the table is read."""
        repeats = repeat_settings_of(self.source, self._prepare().columns)
        return HttpSubmission(self.cluster, self.source, self.options, repeats)

    def send(self) -> list[JobRecord]:
        """Upload the table, unless the server has it, and submit the jobs."""
        table, settings = self.source.read()
        dataset = self.cluster.client.upload(table, self.options.name or self.source.name)
        if self.options.name and " ".join(self.options.name.split()) != dataset.name:
            self.cluster.note(f"the server already has this table and keeps its name, {dataset.name!r}.")
        table_settings = settings.model_dump(exclude_unset=True)
        return [
            self._submit(dataset, table_settings | mining.model_dump(exclude_unset=True))
            for mining in (self.source.mining, *self.repeats)
        ]

    def _submit(self, dataset: "Dataset", settings: dict[str, Any]) -> JobRecord:
        job = self.cluster.client.submit(dataset, **settings, priority=self.options.priority, fresh=self.options.fresh)
        if not job.created:
            self.cluster.note(
                f"job {short_id(job.id)} has the same table and settings and is used; --fresh starts another."
            )
        return self.cluster.add_tenant(job.last_status)

    def _prepare(self) -> "PreparedTable":
        with progress_display(quiet=self.options.quiet):
            table, _ = self.source.prepare()
        return table
