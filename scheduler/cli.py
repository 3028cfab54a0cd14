"""`python -m scheduler`: runs a scheduler; `serve`, `token`, `backup`, `restore` and `health` are its commands.

Configured by MAABO_… variables. Exit codes: 0 stopped by a signal, 1 failed, 2 wrong arguments or configuration.

Imports inside functions keep `health`, which container managers run every few seconds, from loading Celery, FastAPI and
the kernels: it starts in half of the time.
"""

import getpass
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import time
from typing import TYPE_CHECKING, Any

import click

from maabo_dist import console
from maabo_dist._util.text import parse_duration
from maabo_dist.cluster.logs import StructuredLogger, set_up_logging
from maabo_dist.cluster.settings import ClusterSettings, check_redis, redis_errors
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract import names
from maabo_dist.errors import InputError, MaaboError, SettingsError
from scheduler.api.settings import ApiSettings
from scheduler.ledger import Ledger
from scheduler.ledger.audit import AuditEntry, AuditFilter
from scheduler.ledger.backup import BackupSummary, back_up, restore
from scheduler.ledger.tenants import make_token

if TYPE_CHECKING:
    from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")

MAX_NAME = 200
HEALTH_SECONDS = 5.0
_PROCESSES = Path("/proc")


class UnhealthyError(MaaboError):
    """No scheduler process of this host is running its loop."""

    kind = "unavailable"


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def scheduler(context: click.Context) -> int:
    """Run a scheduler until SIGTERM or SIGINT; then give its jobs back and exit."""
    if context.invoked_subcommand is None:
        _run_scheduler()
    return 0


@scheduler.command("serve")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: MAABO_HTTP_HOST, or 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: MAABO_HTTP_PORT, or 8080]")
def serve_command(host: str | None, port: int | None) -> int:
    """Serve the HTTP API. Any number of servers may run on one ledger and one Redis."""
    from scheduler.api.server import serve  # noqa: PLC0415 - 0.5 s

    settings = ApiSettings.from_environment(os.environ, host=host, port=port)
    with _service_resources("maabo-api") as resources:
        serve(resources, settings, lambda line: click.echo(f"maabo: {line}", err=True))
    return 0


@scheduler.command("health")
def health_command() -> int:
    """Exit with 0 if a scheduler process of this host is running its loop, with 1 if not."""
    click.echo(check_scheduler(_settings()), err=True)
    return 0


@scheduler.group("token")
def token_group() -> None:
    """Create, list and revoke tokens in the ledger that MAABO_LEDGER names."""


@token_group.command("create")
@console.new_token_options
def create_command(tenant: str, scopes: str, expires: str, name: str) -> int:
    """Create a token. Stdout is the token alone; it is shown only once."""
    for option, text, minimum in (("--tenant", tenant, 1), ("--name", name, 0)):
        if not minimum <= len(text) <= MAX_NAME:
            raise SettingsError(f"{option} has {len(text)} characters; it takes {minimum} to {MAX_NAME}.")
    scope_set, seconds = frozenset(console.parse_scopes(scopes)), parse_duration(expires)
    token = make_token(tenant, scope_set, time(), name=name, seconds=seconds)
    with _ledger() as ledger:
        ledger.tokens.add(token.row, _audit_entry("token.create", token.row.id))
    console.print_new_token(token.text, token.row.public_fields)
    return 0


@token_group.command("list")
@console.tenant_option
@console.json_option
def list_command(tenant: str | None, as_json: bool) -> int:
    """List the tokens, the oldest first."""
    with _ledger() as ledger:
        rows = [row.public_fields for row in ledger.tokens.of_tenant(tenant)]
    console.print_tokens(rows, as_json=as_json)
    return 0


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
def revoke_command(token_id: str) -> int:
    """Revoke the token with this ID; it stops working immediately."""
    number = console.parse_token_id(token_id)
    with _ledger() as ledger:
        revoked = ledger.tokens.revoke(number, time(), entry=_audit_entry("token.revoke", number))
    if not revoked:
        raise InputError(f"There is no token {number} that is valid. `python -m scheduler token list` lists them.")
    click.echo(f"Token {number} is revoked.")
    return 0


@scheduler.command("audit")
@click.option("--tenant", metavar="TEXT", help="Only what this tenant did.")
@click.option("--token", "token", metavar="ID", help="Only what was done with this token.")
@click.option("--action", metavar="NAME", help="Only this action, such as job.submit or token.create.")
@click.option("--object", "object_id", metavar="ID", help="Only what was done to this job, table, token or tenant.")
@click.option("--since", metavar="DURATION", help="Only the last 30m, 24h or 7d.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def audit_command(
    tenant: str | None,
    token: str | None,
    action: str | None,
    object_id: str | None,
    since: str | None,
    as_json: bool,
) -> int:
    """Print who did what, the oldest first, from the ledger that MAABO_LEDGER names."""
    seconds = None if since is None else parse_duration(since)
    chosen = AuditFilter(tenant, token, action, object_id, None if seconds is None else time() - seconds)
    with _ledger() as ledger:
        for row in ledger.audit.export(chosen):
            fields = asdict(row)
            click.echo(json.dumps(fields) if as_json else _audit_line(fields))
    return 0


def _audit_line(fields: dict[str, Any]) -> str:
    names = ("tenant", "token", "address", "correlation")
    details = " ".join(f"{name}={fields[name]}" for name in names if fields[name] is not None)
    return f"{console.format_time(fields['time'])}  {fields['action']} {fields['object']}  {details}".rstrip()


@scheduler.command("backup")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
@click.option("--to", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
def backup_command(jobs: tuple[str, ...], target: Path) -> int:
    """Write jobs to a file, with the tables and trees they need. Jobs may be running."""
    if not target.parent.is_dir():
        raise InputError(f"There is no directory {target.parent} to write the backup to.")
    with closing(_connect(_settings())) as resources:
        _print_summary("Wrote", back_up(resources.ledger, resources.store, jobs, target), target)
    return 0


@scheduler.command("restore")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def restore_command(source: Path) -> int:
    """Restore the jobs of a backup. Those that had not ended continue where they were."""
    with closing(_connect(_settings())) as resources, TemporaryDirectory(prefix="maabo-restore-") as scratch:
        _print_summary("Restored", restore(resources.ledger, resources.store, source, Path(scratch)), source)
    return 0


def main() -> int:
    """Run a command and return its exit code."""
    return console.run_command(scheduler, "python -m scheduler")


def check_scheduler(settings: ClusterSettings) -> str:
    """Return a line that names the healthy schedulers, or raise an error.

    Every scheduler writes its metrics to Redis in its loop, and they expire when it does not. Only processes that are
    visible from here count: in a container, its own.
    """
    host = socket.gethostname()
    owners = [f"{host}:{path.name}" for path in _PROCESSES.iterdir() if path.name.isdecimal()]
    # Without retries: an unreachable Redis is a valid result.
    with redis_errors(settings.redis_url), open_redis(settings, timeout=HEALTH_SECONDS, retries=0) as client:
        texts = client.mget([settings.key(f"{names.METERS}:{owner}") for owner in owners])
    healthy = [owner for owner, text in zip(owners, texts, strict=True) if text is not None]
    if not healthy:
        raise UnhealthyError(f"No scheduler on {host} has run its loop in the last minute.")
    return f"{', '.join(healthy)} is healthy."


def _run_scheduler() -> None:
    from maabo_dist.warm import warm  # noqa: PLC0415 - 0.1 s
    from scheduler.core.loop import Scheduler  # noqa: PLC0415 - 0.15 s

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _service_resources("maabo-scheduler") as resources:
        warm()
        owner = f"{socket.gethostname()}:{os.getpid()}"
        logger.info(f"ready as {owner}")
        # Its timers must not depend on a clock that can be set.
        steady = replace(resources, clock=resources.ledger.database.steady_clock())
        Scheduler(steady, owner).run(stop)


def _settings() -> ClusterSettings:
    return ClusterSettings.from_environment(os.environ)


def _audit_entry(action: str, object_id: str) -> AuditEntry:
    """An entry for a command on the ledger itself; its address is the user of this machine."""
    return AuditEntry(time(), action, object_id, address=f"{getpass.getuser()}@{socket.gethostname()}")


def _ledger() -> AbstractContextManager[Ledger]:
    """The ledger alone: neither Redis nor a store has to exist yet."""
    return closing(Ledger(_settings().ledger_url))


def _connect(settings: ClusterSettings, tracing: Tracing | None = None) -> "Resources":
    from scheduler.resources import Resources  # noqa: PLC0415 - 0.1 s

    return Resources.connect(settings, tracing)


@contextmanager
def _service_resources(name: str) -> Iterator["Resources"]:
    """The resources of a service, whose traces have this name. A configuration that cannot work ends the process."""
    from maabo_dist.cluster.broker import check_broker  # noqa: PLC0415 - 0.04 s

    try:
        settings = _settings()
        set_up_logging(settings.log)
        resources = _connect(settings, Tracing.from_environment(os.environ, name))
        # An unreachable Redis may start later; a rejected password will not become valid.
        if (problem := check_redis(settings.redis_url, resources.redis.ping)) is not None:
            logger.warning("Redis cannot be reached yet", reason=problem)
        if (problem := check_broker(settings, resources.celery)) is not None:
            logger.warning("the broker cannot be reached yet", reason=problem)
    except MaaboError as error:
        click.echo(f"scheduler: {error}", err=True)
        raise click.exceptions.Exit(2) from None
    with closing(resources):
        yield resources


def _print_summary(action: str, summary: BackupSummary, path: Path) -> None:
    jobs = f"{len(summary.jobs)} job{'s' if len(summary.jobs) != 1 else ''}"
    click.echo(f"{action} {jobs}: {summary.rows:,} rows of the ledger and {summary.artifacts:,} artifacts ({path}).")
