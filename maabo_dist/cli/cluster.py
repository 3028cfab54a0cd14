"""`Cluster`: what commands need from a cluster, whether they reach it through Redis or through HTTP."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.source import Source
from maabo_dist.console.commands import INTERRUPTED, print_note
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobCommand, JobRecord
from maabo_dist.errors import MaaboError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.settings import MiningSettings

job_argument = click.argument("job")


@dataclass(frozen=True, slots=True)
class JobList:
    """The newest jobs."""

    records: list[JobRecord]
    # The number of older jobs; None if there are some that were not counted.
    more: int | None = 0


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """The options of a job other than its table and its mining settings."""

    name: str | None = None
    priority: str = "normal"
    tenant: str | None = None
    fresh: bool = False
    quiet: bool = False

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> "SubmitOptions":
        """Take the options from a command's values."""
        return cls(values["name"], values["priority"], values["tenant"], values["fresh"], values["quiet"])


class Submission(Protocol):
    """A job and its repeats, checked and ready to be sent."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the jobs; empty if the cluster assigns them."""

    def count_features(self) -> int:
        """Return the number of features of the table."""

    def send(self) -> list[JobRecord]:
        """Submit the jobs, the one on the table itself first, and return their records."""


class Cluster(Protocol):
    """A cluster, as the commands use it."""

    @property
    def address(self) -> str:
        """The address, without secrets."""

    def idle(self) -> bool:
        """Return True if no scheduler is running."""

    def find(self, prefix: str) -> JobRecord:
        """Return the only job whose id starts with this prefix."""

    def record(self, job: str) -> JobRecord:
        """Return the current record of a job."""

    def list_jobs(self, state: JobState | None, limit: int) -> JobList:
        """Return the newest jobs first."""

    def follow(self, job: str) -> Iterator[JobRecord]:
        """Yield the record now, after every change, and when the job has ended."""

    def send_command(self, job: str, command: JobCommand) -> JobRecord:
        """Send a command, and return the record once it has taken effect or the job has ended otherwise."""

    def document(self, job: str) -> str | None:
        """Return the rules, final or so far, as the JSON of `maabo mine`; None if there are none yet."""

    def final_document(self, job: str) -> str:
        """Return the rules of a job that is done."""

    def figures(self, job: str) -> dict[str, Any] | None:
        """Return the data of the report's figures; None where it is not available."""

    def prepare(self, source: Source, options: SubmitOptions) -> Submission:
        """Check a job and prepare it for sending."""


def warn_if_idle(cluster: Cluster) -> None:
    """Warn the user if no scheduler is running."""
    if cluster.idle():
        print_note(f"no scheduler is running at {cluster.address}; this information may be out of date.")


def check_not_failed(record: JobRecord) -> None:
    """Raise an error with the reason if a job failed or was cancelled."""
    if record.state in {JobState.FAILED, JobState.CANCELLED}:
        verb = "failed" if record.state is JobState.FAILED else "was cancelled"
        reason = f": {printable(record.reason)}" if record.reason else "."
        raise MaaboError(f"Job {short_id(record.id)} {verb}{reason}")


@contextmanager
def leave_running(*jobs: str, maybe: bool = False) -> Iterator[None]:
    """On Ctrl-C in the block, exit and leave the jobs running; `maybe` if they may not be submitted yet."""
    try:
        yield
    except KeyboardInterrupt:
        print_note(f"no longer waiting; {describe_running(jobs, maybe=maybe)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def describe_running(jobs: Sequence[str], *, maybe: bool = False) -> str:
    """Tell the user how to follow or cancel jobs that keep running."""
    state = "may already be queued" if maybe else "keeps running"
    if not jobs:
        return f"the job {state}. Check with `maabo jobs`."
    first, *others = map(short_id, jobs)
    commands = f"`maabo watch {first}` follows it, `maabo cancel {first}` cancels it."
    if not others:
        return f"job {first} {state}. {commands}"
    state = state if maybe else "keep running"
    return f"jobs {', '.join([first, *others])} {state}. For the first, {commands}"


def repeat_settings_of(source: Source, columns: "Columns") -> "tuple[MiningSettings, ...]":
    """Return the settings of each repeat; an error if the table is too small for them."""
    if not source.repeating.repeats:
        return ()
    # pandas and numba take half a second to import.
    from maabo_dist.mining.repeats import check_repeats, repeat_settings  # noqa: PLC0415

    settings = repeat_settings(source.mining, source.repeating.repeats)
    check_repeats(columns, settings)
    return settings
