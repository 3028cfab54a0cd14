"""`maabo token` and `maabo quota`: who may call a server, and how much a tenant may have."""

import json
from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.text import seconds_until
from maabo_dist.cli.jobs import json_option
from maabo_dist.cli.options import all_of
from maabo_dist.cli.place import SERVER, Place, server_options
from maabo_dist.cli.progress import note
from maabo_dist.cli.remote import open_client
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.client import Client

new_token_options = all_of(
    click.option("--tenant", metavar="TEXT", default="default", help="For whom it is.  [default: default]"),
    click.option(
        "--scopes",
        metavar="LIST",
        default="read,submit",
        help="What it permits, by commas: read, submit (which includes read), admin.  [default: read,submit]",
    ),
    click.option(
        "--expires",
        metavar="TIME",
        default="never",
        help="How long it is valid: 30d, 12h, 90m or never.  [default: never]",
    ),
    click.option("--name", metavar="TEXT", default="", help="For people: what it is used for."),
)
"""What a new token is to be like, wherever it is made."""
tenant_option = click.option("--tenant", metavar="TEXT", help="Only tokens of this tenant.  [default: all]")


@click.group("token")
def token_group() -> None:
    """Make, list and revoke tokens for a server. Needs a token of scope admin, once there are any."""


@token_group.command("create")
@new_token_options
@server_options
def create_token_command(place: Place, tenant: str, scopes: str, expires: str, name: str) -> int:
    """Make a token. Stdout is the token alone; it is shown this once."""
    seconds = seconds_until(expires)
    with _client(place) as client:
        made = client.create_token(tenant, scope_names(scopes), expires_seconds=seconds, name=name)
    tell_created(made.token, made.model_dump())
    return 0


@token_group.command("list")
@tenant_option
@json_option
@server_options
def list_tokens_command(place: Place, tenant: str | None, as_json: bool) -> int:
    """List the tokens that were made, the oldest first. What a token is, nobody can tell any more."""
    with _client(place) as client:
        found = [token.model_dump(mode="json") for token in client.tokens(tenant)]
    show_tokens(found, as_json=as_json)
    return 0


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
@server_options
def revoke_token_command(place: Place, token_id: str) -> int:
    """Revoke the token of this ID: from now on it is of no use."""
    with _client(place) as client:
        client.revoke_token(token_number(token_id))
    click.echo(f"Token {token_number(token_id)} is revoked.")
    return 0


@click.group("quota")
def quota_group() -> None:
    """Show and set what a tenant may have."""


@quota_group.command("show")
@json_option
@server_options
def show_quota_command(place: Place, as_json: bool) -> int:
    """Show what the tenant of the token may have, and what it has."""
    with _client(place) as client:
        _show_quota(client.quota().model_dump(), as_json=as_json)
    return 0


@quota_group.command("set")
@click.argument("tenant")
@click.option("--queued", type=click.IntRange(min=0), metavar="N", help="Jobs that wait.  [default: no limit]")
@click.option(
    "--running",
    type=click.IntRange(min=0),
    metavar="N",
    help="Jobs that run side by side; more of them wait.  [default: no limit]",
)
@click.option("--bytes", type=click.IntRange(min=0), metavar="N", help="Bytes of all tables.  [default: no limit]")
@click.option("--trees", type=click.IntRange(min=0), metavar="N", help="Trees of one job.  [default: no limit]")
@json_option
@server_options
def set_quota_command(place: Place, tenant: str, as_json: bool, **limits: int | None) -> int:
    """Say what TENANT may have: all four limits anew. Needs a token of scope admin. What is there already stays."""
    with _client(place) as client:
        _show_quota(client.set_quota(tenant, **limits).model_dump(), as_json=as_json)
    return 0


def scope_names(text: str) -> tuple[str, ...]:
    """The names in a list; which there are, whoever makes the token says."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"--scopes {text!r} names none. Name some of read, submit and admin.")
    return names


def token_number(text: str) -> str:
    """The id in what was given. Who has a token at hand may give all of it: its id stands in its middle."""
    parts = text.strip().split("_", 2)
    return parts[1] if parts[0] == "maabo" and len(parts) == 3 else text.strip()


def tell_created(text: str, facts: dict[str, Any]) -> None:
    """The token on stdout, for programs; what it is on stderr, for people."""
    from maabo_dist.cli.listing import moment_text

    until = f"valid until {moment_text(facts['expires'])}" if facts["expires"] else "valid until it is revoked"
    scopes = ", ".join(facts["scopes"])
    note(f"token {facts['id']} of the tenant {facts['tenant']} permits: {scopes}; {until}. It is shown this once.")
    click.echo(text)


def show_tokens(tokens: list[dict[str, Any]], *, as_json: bool) -> None:
    """For programs or for people."""
    if as_json:
        click.echo(json.dumps(tokens, indent=2, ensure_ascii=False))
    elif not tokens:
        click.echo("No token has been made: anyone on the server's machine may call, and nobody else.")
    else:
        from maabo_dist.cli.listing import print_tokens

        print_tokens(tokens)


def _show_quota(quota: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(quota, indent=2, ensure_ascii=False))
        return
    from maabo_dist.cli.listing import print_quota

    print_quota(quota)


def _client(place: Place) -> "Client":
    server = place.server(SERVER)
    if server is None:
        raise SettingsError("Tokens and quotas are those of a server. Give --server instead of --redis.")
    return open_client(place, server)
