"""What the commands that speak to a cluster share: the way to it, and the end of waiting."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.place import Place
from maabo_dist.cli.progress import INTERRUPTED, note
from maabo_dist.contract.ids import short_id
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.cli.cluster_port import Cluster
    from maabo_dist.client import Client

job_argument = click.argument("job")


def connect(place: Place, say: Callable[[str], None] = note) -> "Cluster":
    """The cluster that is meant by what was given, and by the environment."""
    server = place.server()
    if server is None and place.has_token:
        raise SettingsError("A token is given, and no server that it is for. Give --server, or set MAABO_SERVER.")
    return _over_redis(place, say) if server is None else _over_http(place, server, say)


def open_client(place: Place, server: str) -> "Client":
    """A client of this server, with the token that was given."""
    try:
        from maabo_dist.client import Client
    except ModuleNotFoundError as error:
        raise SettingsError(str(error)) from error
    return Client(server, place.read_token(), insecure=place.insecure)


def warn_if_idle(cluster: "Cluster") -> None:
    """Say why nothing moves, where that is so."""
    if cluster.idle():
        note(f"no scheduler is running at {cluster.address}; what is shown may be old.")


def _over_http(place: Place, server: str, say: Callable[[str], None]) -> "Cluster":
    client = open_client(place, server)
    from maabo_dist.cli.http_cluster import HttpCluster

    return HttpCluster.connected(client, say)


def _over_redis(place: Place, say: Callable[[str], None]) -> "Cluster":
    try:
        from maabo_dist.cli.queue_cluster import QueueCluster
        from maabo_dist.cluster.address import check_url
        from maabo_dist.cluster.settings import ClusterSettings
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{error.name} is not installed, which clusters need. Run: pip install 'maabo-dist[service]'"
        ) from error
    address = os.environ.get("MAABO_REDIS") if place.redis_url is None else place.redis_url
    if address is not None:
        check_url(address)
    return QueueCluster.connected(ClusterSettings.from_environment(os.environ, redis_url=place.redis_url), say)


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
    if not jobs:
        return f"the job {standing or 'goes on'}. `maabo jobs` lists it if so."
    first, *others = map(short_id, jobs)
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
        raise MaaboError(f"Job {short_id(record.id)} {verb}{reason}")
