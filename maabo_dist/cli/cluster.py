"""Options that select a cluster, and `Cluster`, the interface that commands use.

A cluster is reached through its Redis or through HTTP.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import click

from maabo_dist._util.text import printable
from maabo_dist.cli.options import Source, section_option
from maabo_dist.console import INTERRUPTED, combine, print_note
from maabo_dist.contract.job import JobRecord, JobState, short_id
from maabo_dist.errors import MaaboError, SettingsError

if TYPE_CHECKING:
    from maabo_dist.cli.http_cluster import HttpCluster
    from maabo_dist.cli.queue_cluster import QueueCluster
    from maabo_dist.client import Client
    from maabo_dist.data.columns import Columns
    from maabo_dist.settings import MiningSettings


# The address on which `python -m scheduler serve` listens by default.
DEFAULT_SERVER = "http://127.0.0.1:8080"

cluster_option = partial(section_option, section="Cluster")
_redis_option = cluster_option(
    "--redis",
    "redis_url",
    metavar="URL",
    help="The cluster's Redis.  [default: MAABO_REDIS, or redis://127.0.0.1:6379/0]",
)
_server_options = combine(
    cluster_option(
        "--server",
        "server_url",
        metavar="URL",
        help="The cluster's HTTP server, instead of its Redis.  [default: MAABO_SERVER]",
    ),
    cluster_option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="File that contains the token for --server.  [default: the token in MAABO_TOKEN]",
    ),
    cluster_option(
        "--token",
        metavar="TEXT",
        help="The token itself. Other users of this machine can see it in the process list; prefer --token-file or "
        "MAABO_TOKEN.",
    ),
    cluster_option("--insecure", is_flag=True, help="Send the token over plain HTTP to another machine."),
)


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The cluster that the command line names: by its Redis, or by its server and a token."""

    redis_url: str | None = None
    server_url: str | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    insecure: bool = False

    def inherit(self, outer: "ClusterAddress | None") -> Self:
        """Fill in options that were given before the command and not after it."""
        if outer is None:
            return self
        inherited = {name: getattr(outer, name) for name in _NAMES if not getattr(self, name)}
        if self.has_token:
            inherited = {name: value for name, value in inherited.items() if not name.startswith("token")}
        return replace(self, **inherited)

    def check(self) -> Self:
        """Reject options that contradict each other."""
        if self.redis_url is not None and self.server_url is not None:
            raise SettingsError("--redis and --server cannot be used together.")
        if self.token is not None and self.token_file is not None:
            raise SettingsError("--token and --token-file cannot be used together.")
        if self.server(DEFAULT_SERVER) is None and self.has_token:
            raise SettingsError(
                "--redis cannot be combined with a token. Put the Redis password in the URL, or use --server."
            )
        return self

    @property
    def has_token(self) -> bool:
        """True if the command line contains a token; MAABO_TOKEN is ignored."""
        return self.token is not None or self.token_file is not None

    def server(self, default: str | None = None) -> str | None:
        """Return the URL of the server; None if the cluster is reached through its Redis."""
        if self.redis_url is not None:
            return None
        return self.server_url or os.environ.get("MAABO_SERVER") or default

    def read_token(self) -> str | None:
        """Return the token from the options, the file or the environment."""
        if self.token is not None:
            return self.token
        if self.token_file is None:
            return os.environ.get("MAABO_TOKEN", "").strip() or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"--token-file {self.token_file} cannot be read: {error}.") from error


_NAMES = tuple(each.name for each in fields(ClusterAddress))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a cluster, reached by Redis or by HTTP; the command gets them as `address`."""
    return combine(_redis_option, _server_options)(_pass_address(command, _NAMES))


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a server, for commands that are available only over HTTP."""
    return _server_options(_pass_address(command, tuple(name for name in _NAMES if name != "redis_url")))


def _pass_address(command: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    @wraps(command)
    def call(*args: Any, **values: Any) -> Any:
        address = ClusterAddress(**{name: values.pop(name) for name in names})
        outer = click.get_current_context().find_object(ClusterAddress)
        return command(*args, address=address.inherit(outer).check(), **values)

    return call


def connect(address: ClusterAddress, note: Callable[[str], None] = print_note) -> "Cluster":
    """Connect to a cluster; `note` receives messages for the user."""
    server = address.server()
    if server is not None:
        client = open_client(address, server)
        # The client takes 0.2 s to import, and is not installed without the extra `client`.
        from maabo_dist.cli.http_cluster import HttpCluster  # noqa: PLC0415

        return HttpCluster(client, note)
    if address.has_token:
        raise SettingsError("A token needs a server. Add --server, or set MAABO_SERVER.")
    return _connect_redis(address, note)


def open_client(address: ClusterAddress, server: str) -> "Client":
    """Return an HTTP client for this server, with the token of the address."""
    try:
        from maabo_dist.client import Client  # noqa: PLC0415 - as in connect
    except ModuleNotFoundError as error:
        raise SettingsError(str(error)) from error
    return Client(server, address.read_token(), insecure=address.insecure)


def _connect_redis(address: ClusterAddress, note: Callable[[str], None]) -> "Cluster":
    try:
        # redis takes 0.1 s to import, and is not installed without the extra `service`.
        from maabo_dist.cli.queue_cluster import QueueCluster  # noqa: PLC0415
        from maabo_dist.cluster.settings import ClusterSettings, check_url  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"Clusters need {error.name}, which is not installed. Run: pip install 'maabo-dist[service]'"
        ) from error
    url = os.environ.get("MAABO_REDIS") if address.redis_url is None else address.redis_url
    if url is not None:
        check_url(url)
    return QueueCluster.connect(ClusterSettings.from_environment(os.environ, redis_url=address.redis_url), note)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """The options of a job other than its table and its mining settings."""

    name: str | None = None
    priority: str = "normal"
    tenant: str | None = None
    fresh: bool = False
    quiet: bool = False
    # `--sample`.
    sample: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and its repeats, checked and ready to be sent.

    `ids` is empty if the cluster assigns the ids. `send` submits the jobs, the one on the table itself first, and
    returns their records. `read_columns` reads and prepares the table. `explained` says what is read of a table that is
    not prepared here.
    """

    ids: tuple[str, ...]
    read_columns: "Callable[[], Columns]"
    send: Callable[[], list[JobRecord]]
    explained: tuple[str, ...] = ()


# A cluster, as the commands use it: both classes have the same methods.
Cluster: TypeAlias = "HttpCluster | QueueCluster"


def raise_for_failure(record: JobRecord) -> None:
    """Raise an error with the reason if a job failed or was cancelled."""
    if record.state in {JobState.FAILED, JobState.CANCELLED}:
        verb = "failed" if record.state is JobState.FAILED else "was cancelled"
        reason = f": {printable(record.reason)}" if record.reason else "."
        raise MaaboError(f"Job {short_id(record.id)} {verb}{reason}")


@contextmanager
def leave_running(*jobs: str, possibly_queued: bool = False) -> Iterator[None]:
    """On Ctrl-C in the block, exit and leave the jobs running; `possibly_queued` if they may not be submitted yet."""
    try:
        yield
    except KeyboardInterrupt:
        print_note(f"no longer waiting; {describe_running(jobs, possibly_queued=possibly_queued)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def describe_running(jobs: Sequence[str], *, possibly_queued: bool = False) -> str:
    """Tell the user how to follow or cancel jobs that keep running."""
    state = "may already be queued" if possibly_queued else "keeps running"
    if not jobs:
        return f"the job {state}. Check with `maabo jobs`."
    first, *others = map(short_id, jobs)
    commands = f"`maabo watch {first}` follows it, `maabo cancel {first}` cancels it."
    if not others:
        return f"job {first} {state}. {commands}"
    state = state if possibly_queued else "keep running"
    return f"jobs {', '.join([first, *others])} {state}. For the first, {commands}"


def repeat_settings_of(source: Source, columns: "Columns") -> "tuple[MiningSettings, ...]":
    """Return the settings of each repeat; an error if the table is too small for them."""
    if not source.repeating.repeats:
        return ()
    # pandas and numba take half a second to import.
    from maabo_dist.mining.repeats import check_repeats, repeat_settings  # noqa: PLC0415

    settings = repeat_settings(source.mining, source.repeating.repeats, columns.rows)
    check_repeats(columns, settings)
    return settings
