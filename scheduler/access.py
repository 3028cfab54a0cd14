"""`python -m scheduler token`: tokens made on the ledger itself, where no server runs yet: the first one, above all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import time
from typing import Any

import click

from maabo_dist.cli.access import (
    new_token_options,
    scope_names,
    show_tokens,
    tell_created,
    tenant_option,
    token_number,
)
from maabo_dist.cli.jobs import json_option
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.durations import seconds_until
from maabo_dist.errors import InputError, SettingsError
from scheduler.ledger import Ledger
from scheduler.registry import Registry, TokenRow

MOST_TEXT = 200


@click.group("token")
def token_group() -> None:
    """Make, list and revoke tokens on the ledger that MAABO_LEDGER names."""


@token_group.command("create")
@new_token_options
def create_command(tenant: str, scopes: str, expires: str, name: str) -> int:
    """Make a token. Stdout is the token alone; it is shown this once."""
    from scheduler.service.callers import make_token

    for option, text, fewest in (("--tenant", tenant, 1), ("--name", name, 0)):
        if not fewest <= len(text) <= MOST_TEXT:
            raise SettingsError(f"{option} has {len(text)} characters; {fewest} to {MOST_TEXT} are taken.")
    made = make_token(tenant, frozenset(scope_names(scopes)), time(), name=name, seconds=seconds_until(expires))
    with _registry() as registry:
        registry.add_token(made.row)
    tell_created(made.text, _told(made.row))
    return 0


@token_group.command("list")
@tenant_option
@json_option
def list_command(tenant: str | None, as_json: bool) -> int:
    """List the tokens that were made, the oldest first."""
    with _registry() as registry:
        found = [_told(row) for row in registry.tokens(tenant)]
    show_tokens(found, as_json=as_json)
    return 0


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
def revoke_command(token_id: str) -> int:
    """Revoke the token of this ID: from now on it is of no use."""
    number = token_number(token_id)
    with _registry() as registry:
        revoked = registry.revoke(number, time())
    if not revoked:
        raise InputError(f"There is no token {number} that is valid. `python -m scheduler token list` lists them.")
    click.echo(f"Token {number} is revoked.")
    return 0


@contextmanager
def _registry() -> Iterator[Registry]:
    """Of the ledger alone: neither Redis nor a store has to be there yet."""
    ledger = Ledger(ClusterSettings.from_environment(os.environ).ledger_url)
    try:
        yield ledger.registry
    finally:
        ledger.close()


def _told(row: TokenRow) -> dict[str, Any]:
    from scheduler.service.callers import SCOPES

    told = asdict(row) | {"scopes": sorted(row.scopes, key=SCOPES.index)}
    del told["hash"]
    return told
