"""`python -m scheduler token`: tokens made on the ledger itself, where no server runs yet: the first one, above all."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.text import parse_duration
from maabo_dist.cluster.address import redis_errors
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.console.commands import json_option
from maabo_dist.console.tokens import (
    new_token_options,
    parse_scopes,
    parse_token_id,
    print_new_token,
    print_tokens,
    tenant_option,
)
from maabo_dist.contract import names
from maabo_dist.errors import InputError, MaaboError, SettingsError
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.tokens import TokenRow

if TYPE_CHECKING:
    from scheduler.ledger.backup import Kept
    from scheduler.resources import Resources


MOST_TEXT = 200


@click.group("token")
def token_group() -> None:
    """Make, list and revoke tokens on the ledger that MAABO_LEDGER names."""


@token_group.command("create")
@new_token_options
def create_command(tenant: str, scopes: str, expires: str, name: str) -> int:
    """Make a token. Stdout is the token alone; it is shown this once."""
    from scheduler.ledger.tokens import make_token

    for option, text, fewest in (("--tenant", tenant, 1), ("--name", name, 0)):
        if not fewest <= len(text) <= MOST_TEXT:
            raise SettingsError(f"{option} has {len(text)} characters; {fewest} to {MOST_TEXT} are taken.")
    made = make_token(tenant, frozenset(parse_scopes(scopes)), time(), name=name, seconds=parse_duration(expires))
    with _ledger() as ledger:
        ledger.tokens.add(made.row)
    print_new_token(made.text, _told(made.row))
    return 0


@token_group.command("list")
@tenant_option
@json_option
def list_command(tenant: str | None, as_json: bool) -> int:
    """List the tokens that were made, the oldest first."""
    with _ledger() as ledger:
        found = [_told(row) for row in ledger.tokens.of_tenant(tenant)]
    print_tokens(found, as_json=as_json)
    return 0


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
def revoke_command(token_id: str) -> int:
    """Revoke the token of this ID: from now on it is of no use."""
    number = parse_token_id(token_id)
    with _ledger() as ledger:
        revoked = ledger.tokens.revoke(number, time())
    if not revoked:
        raise InputError(f"There is no token {number} that is valid. `python -m scheduler token list` lists them.")
    click.echo(f"Token {number} is revoked.")
    return 0


@contextmanager
def _ledger() -> Iterator[Ledger]:
    """Of the ledger alone: neither Redis nor a store has to be there yet."""
    ledger = Ledger(ClusterSettings.from_environment(os.environ).ledger_url)
    try:
        yield ledger
    finally:
        ledger.close()


def _told(row: TokenRow) -> dict[str, Any]:
    from scheduler.ledger.tokens import SCOPES

    told = asdict(row) | {"scopes": sorted(row.scopes, key=SCOPES.index)}
    del told["hash"]
    return told


@click.command("backup")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB…")
@click.option("--to", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
def backup_command(jobs: tuple[str, ...], target: Path) -> int:
    """Write jobs to a file, with the tables and trees they need. They may go on meanwhile."""
    from scheduler.ledger.backup import back_up

    if not target.parent.is_dir():
        raise InputError(f"There is no directory {target.parent} to write the backup to.")
    with _resources() as resources:
        _tell("Wrote", back_up(resources.ledger, resources.store, jobs, target), target)
    return 0


@click.command("restore")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def restore_command(source: Path) -> int:
    """Bring the jobs of a backup back. Those that had not ended go on from where they were."""
    from scheduler.ledger.backup import restore

    with _resources() as resources, TemporaryDirectory(prefix="maabo-restore-") as scratch:
        _tell("Restored", restore(resources.ledger, resources.store, source, Path(scratch)), source)
    return 0


@contextmanager
def _resources() -> Iterator["Resources"]:
    from scheduler.resources import Resources

    resources = Resources.connect(ClusterSettings.from_environment(os.environ))
    try:
        yield resources
    finally:
        resources.close()


def _tell(done: str, kept: "Kept", path: Path) -> None:
    many = f"{len(kept.jobs)} job{'s' if len(kept.jobs) != 1 else ''}"
    click.echo(f"{done} {many}: {kept.rows:,} rows of the ledger and {kept.artifacts:,} artifacts ({path}).")


PATIENCE = 5.0
_PROCESSES = Path("/proc")


class UnwellError(MaaboError):
    """No scheduler takes its turns here."""

    kind = "unavailable"


def check_scheduler(settings: ClusterSettings) -> str:
    """Who is well, in a line.

    Every scheduler writes its meters to Redis as it turns, and they expire when it does not. Looked for are those of
    the processes that can be seen from here: in a container, its own.
    """
    # Without retries: a Redis that is not there is an answer, too.
    with (
        redis_errors(settings.redis_url),
        open_redis(settings, timeout=PATIENCE, retries=0) as client,
    ):
        found = _turning(client, settings)
    if not found:
        raise UnwellError(f"No scheduler process of {socket.gethostname()} has taken a turn in the last minute.")
    return f"{', '.join(found)} is well."


def _turning(client: Any, settings: ClusterSettings) -> list[str]:
    host = socket.gethostname()
    owners = [f"{host}:{path.name}" for path in _PROCESSES.iterdir() if path.name.isdecimal()]
    kept = client.mget([settings.key(f"{names.METERS}:{owner}") for owner in owners])
    return [owner for owner, metrics in zip(owners, kept, strict=True) if metrics is not None]
