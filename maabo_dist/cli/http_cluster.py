"""`HttpCluster`: a cluster reached through its HTTP server. Tables are uploaded as they are and prepared there."""

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from maabo_dist.cli.cluster import Submission, SubmitOptions, repeat_settings_of
from maabo_dist.cli.mine_dataset import open_directory
from maabo_dist.cli.options import Source
from maabo_dist.cli.progress import progress_display
from maabo_dist.client import Client, ProblemError, ServerUnreachableError
from maabo_dist.client.payloads import MAX_NAME_LENGTH
from maabo_dist.contract.api import DIRECTORY
from maabo_dist.contract.job import PAST_TENSE, JobCommand, JobRecord, JobState, is_applied, match_prefix, short_id
from maabo_dist.contract.result import ResultDocument
from maabo_dist.errors import InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.settings import MiningSettings

# Schedulers read commands every few seconds.
COMMAND_SECONDS = 20.0
POLL_SECONDS = 0.2


class HttpCluster:
    """A cluster behind a server."""

    def __init__(self, client: Client, note: Callable[[str], None]) -> None:
        self.client, self.note = client, note
        # The tenant of the token. The request also checks that the server accepts it, before a table is read.
        self.tenant = client.quota().tenant

    @property
    def address(self) -> str:
        """The URL of the server."""
        return self.client.url

    def find_problem(self) -> str | None:
        """Return why the cluster as a whole does not work; None if it does, or if it is unknown."""
        try:
            parts = {part: state for part, state in self.client.ready().items() if state != "ok"}
        except ServerUnreachableError:  # a gateway that forwards only /v1
            return None
        if "scheduler" in parts:
            return f"no scheduler is running at {self.address}"
        return "; ".join(f"{part}: {state}" for part, state in parts.items()) or None

    def record(self, job: str) -> JobRecord:
        """Return the current record of a job."""
        return self.add_tenant(self.client.job(job).last_status)

    def find(self, prefix: str) -> JobRecord:
        """Return the only job whose id starts with this prefix; short prefixes search all jobs."""

        def list_ids(digits: str) -> Iterator[str]:
            return (job.id for job in self.client.jobs() if job.id.startswith(digits))

        return self.record(match_prefix(prefix, list_ids))

    def list_jobs(self, state: JobState | None, limit: int) -> tuple[list[JobRecord], int | None]:
        """Return the newest jobs. The others are not counted, which would take a request for every 200."""
        jobs = self.client.jobs(state=None if state is None else state.value)
        records = [self.add_tenant(job.last_status) for job in islice(jobs, limit + 1)]
        return records[:limit], None if len(records) > limit else 0

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
                problem = self.find_problem() or "the schedulers did not respond"
                cause = f"{problem[0].upper()}{problem[1:]}."
                raise MaaboError(f"{cause} Job {short_id(job)} is not {PAST_TENSE[command]} yet; the request is saved.")
            time.sleep(POLL_SECONDS)
            status = handle.status()
        return self.add_tenant(status)

    def document(self, job: str) -> ResultDocument | None:
        """Return the rules; None if there are none yet."""
        try:
            return self.final_document(job)
        except ProblemError as error:
            if error.status == HTTPStatus.CONFLICT:
                return None
            raise

    def final_document(self, job: str) -> ResultDocument:
        """Return the rules of a job that is done."""
        # `partial` repeats `search.stopped`, which every document has.
        return self.client.job(job).document().model_copy(update={"partial": None})

    def figures(self, job: str) -> dict[str, Any] | None:
        """Return the data of the report's figures, if the server has it."""
        try:
            return self.client.job(job).figures()
        except ProblemError as error:
            if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                return None
            raise

    def prepare(self, source: Source, options: SubmitOptions) -> Submission:
        """Check the options. The table is read here only if repeats are requested."""
        if options.tenant not in {None, self.tenant}:
            raise SettingsError(
                f"--tenant {options.tenant}: the token belongs to tenant {self.tenant}. "
                "Remove --tenant, or use another token."
            )
        if options.name and len(options.name) > MAX_NAME_LENGTH:
            raise SettingsError(f"--name has {len(options.name)} characters; the maximum is {MAX_NAME_LENGTH}.")

        if (path := _server_path(source, options.sample)) is not None:
            return Submission((), _no_columns, lambda: self._submit_directory(source, options, path), (_ON_SERVER,))

        def read_columns() -> "Columns":
            with progress_display(quiet=options.quiet):
                return source.prepare()[0].columns

        repeats = repeat_settings_of(source, read_columns()) if source.repeating.repeats else ()
        return Submission((), read_columns, lambda: self._submit(source, options, repeats))

    def _submit_directory(self, source: Source, options: SubmitOptions, path: str) -> list[JobRecord]:
        """Submit a job on a directory in the server's table directory."""
        dataset = self.client.use_directory(path, options.name)
        sample = None if options.sample is None else int(options.sample)
        settings = source.table | source.mining.model_dump(exclude_unset=True)
        if dataset.format == DIRECTORY and "target" not in settings:
            raise SettingsError("A job on a directory of the server needs a target. Add --target.")
        if dataset.format != DIRECTORY and sample is not None:
            raise SettingsError(
                f"--sample {sample}: {path} has {dataset.rows:,} rows, and a server searches all rows of such a "
                "directory. Remove --sample, or use maabo mine."
            )
        job = self.client.submit(dataset, **settings, sample=sample, priority=options.priority, fresh=options.fresh)
        return [self.add_tenant(job.last_status)]

    def _submit(self, source: Source, options: SubmitOptions, repeats: "tuple[MiningSettings, ...]") -> list[JobRecord]:
        """Upload the table, unless the server has it, and submit a job and its repeats."""
        table, table_settings = source.read()
        dataset = self.client.upload(table, options.name or source.name)
        if options.name and " ".join(options.name.split()) != dataset.name:
            self.note(f"the server already has this table and keeps its name, {dataset.name!r}.")
        records = []
        for mining in (source.mining, *repeats):
            settings = table_settings.model_dump(exclude_unset=True) | mining.model_dump(exclude_unset=True)
            job = self.client.submit(dataset, **settings, priority=options.priority, fresh=options.fresh)
            if not job.created:
                self.note(
                    f"job {short_id(job.id)} has the same table and settings and is used; --fresh starts another."
                )
            records.append(self.add_tenant(job.last_status))
        return records

    def add_tenant(self, status: JobRecord) -> JobRecord:
        """Return the record with the tenant, which servers omit: a tenant sees only its own jobs."""
        values = {name: getattr(status, name) for name in JobRecord.model_fields}
        return JobRecord(**values | {"tenant": self.tenant})


_ON_SERVER = "table: a directory of the server, of which the workers draw a sample; its size is not known here"


def _server_path(source: Source, sample: str | None) -> str | None:
    """Return the path of a directory in the server's table directory; None for a table that is uploaded."""
    data = source.data
    if data in {None, "-"} or sample == "all" or source.repeating.repeats:
        return None
    is_local = Path(data or "").exists()
    if is_local and open_directory(source, sample) is None:
        return None
    is_file = "." in PurePosixPath(data or "").name
    if not is_local and is_file:
        if sample is not None:
            raise SettingsError(f"--sample {sample}: a cluster draws samples of directories. Use all, or maabo mine.")
        return None
    if Path(data or "").is_absolute() or "://" in (data or ""):
        raise SettingsError(
            f"{data}: a server reads directories of many rows in its own table directory (MAABO_TABLES). Give the path "
            "in there, such as sales/2024, or use maabo mine."
        )
    return PurePosixPath(data or "").as_posix()


def _no_columns() -> "Columns":
    raise SettingsError("The columns of a directory are prepared by the workers.")
