"""What the commands that speak to a cluster share: the option that names it, the client, the end of waiting."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from maabo_dist.cli.options import section_option
from maabo_dist.cli.progress import INTERRUPTED, note
from maabo_dist.cluster.ids import shown_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.cluster.client import QueueClient

job_argument = click.argument("job")

redis_option = section_option(
    "--redis",
    "redis_url",
    section="Cluster",
    metavar="URL",
    help="The cluster's Redis.  [default: MAABO_REDIS, or redis://127.0.0.1:6379/0]",
)


def connect(redis_url: str | None, say: Callable[[str], None] = note) -> "QueueClient":
    """The cluster at this address, or at that of the environment."""
    try:
        from maabo_dist.cluster.address import check_url
        from maabo_dist.cluster.client import QueueClient
        from maabo_dist.cluster.settings import ClusterSettings
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{error.name} is not installed, which clusters need. Run: pip install 'maabo-dist[service]'"
        ) from error
    address = os.environ.get("MAABO_REDIS") if redis_url is None else redis_url
    if address is not None:
        check_url(address)
    return QueueClient.connected(ClusterSettings.from_environment(os.environ, redis_url=address), say)


def warn_if_idle(client: "QueueClient") -> None:
    """Say why nothing moves, where that is so."""
    if client.cluster() is None:
        note(f"no scheduler is running at {client.address}; what is shown may be old.")


@contextmanager
def left_running(*jobs: str, standing: str | None = None) -> Iterator[None]:
    """Ctrl-C in the block ends the waiting, not the jobs; `standing` is what becomes of them."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"no longer waiting; {goes_on(jobs, standing)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def goes_on(jobs: Sequence[str], standing: str | None = None) -> str:
    """What becomes of jobs that nobody waits for, and what can be done about them."""
    first, *others = map(shown_id, jobs)
    if not others:
        left = f"job {first} {standing or 'goes on'}. `maabo watch {first}` follows it, `maabo cancel {first}` ends it."
    else:
        left = (
            f"jobs {', '.join([first, *others])} {standing or 'go on'}. "
            f"`maabo watch {first}` follows one, `maabo cancel {first}` ends it."
        )
    return left


def check_not_failed(record: JobRecord) -> None:
    """A job without a result to show ends the command, with its reason."""
    if record.state in {JobState.FAILED, JobState.CANCELLED}:
        verb = "failed" if record.state is JobState.FAILED else "was cancelled"
        reason = f": {printable(record.reason)}" if record.reason else "."
        raise MaaboError(f"Job {shown_id(record.id)} {verb}{reason}")


def printable(text: str) -> str:
    """A text from outside, without the codes that would move the cursor of a terminal."""
    if text.isprintable():
        return text
    from maabo_dist.report.wording import one_line  # takes a second to import, and few texts need it

    return one_line(text)
