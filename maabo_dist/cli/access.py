"""`maabo token` and `maabo quota`: access to a server, and the limits of tenants."""

from typing import TYPE_CHECKING, Any

import click

from maabo_dist._util.text import parse_duration
from maabo_dist.cli.cluster import DEFAULT_SERVER, ClusterAddress, open_client, server_options
from maabo_dist.console import (
    combine,
    json_option,
    new_token_options,
    parse_scopes,
    parse_token_id,
    print_fields,
    print_json,
    print_new_token,
    print_tokens,
    tenant_option,
)
from maabo_dist.errors import SettingsError

if TYPE_CHECKING:
    from maabo_dist.client import Client


_LIMITS = {
    "queued": "Waiting jobs.",
    "running": "Jobs that run at the same time; others wait.",
    "bytes": "Total size of all tables.",
    "trees": "Trees per job.",
}
_limit_options = combine(
    *(
        click.option(f"--{name}", type=click.IntRange(min=0), metavar="N", help=f"{text}  [default: no limit]")
        for name, text in _LIMITS.items()
    )
)


@click.group("token")
def token_group() -> None:
    """Create, list and revoke tokens of a server. Once there are tokens, this needs one with scope admin."""


@token_group.command("create")
@new_token_options
@server_options
def create_token_command(address: ClusterAddress, tenant: str, scopes: str, expires: str, name: str) -> int:
    """Create a token and print it on stdout. It is shown only once."""
    seconds = parse_duration(expires)
    with _connect(address) as client:
        token = client.create_token(tenant, parse_scopes(scopes), expires_seconds=seconds, name=name)
    print_new_token(token.token, token.model_dump())
    return 0


@token_group.command("list")
@tenant_option
@json_option
@server_options
def list_tokens_command(address: ClusterAddress, tenant: str | None, as_json: bool) -> int:
    """List all tokens, oldest first, without the tokens themselves, which are not stored."""
    with _connect(address) as client:
        tokens = [token.model_dump(mode="json") for token in client.tokens(tenant)]
    print_tokens(tokens, as_json=as_json)
    return 0


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
@server_options
def revoke_token_command(address: ClusterAddress, token_id: str) -> int:
    """Revoke the token with this ID, immediately and for good."""
    with _connect(address) as client:
        client.revoke_token(parse_token_id(token_id))
    click.echo(f"Token {parse_token_id(token_id)} is revoked.")
    return 0


@click.group("quota")
def quota_group() -> None:
    """Show and set the limits of a tenant."""


@quota_group.command("show")
@json_option
@server_options
def show_quota_command(address: ClusterAddress, as_json: bool) -> int:
    """Show the limits of the token's tenant, and what it uses."""
    with _connect(address) as client:
        _print_quota(client.quota().model_dump(), as_json=as_json)
    return 0


@quota_group.command("set")
@click.argument("tenant")
@_limit_options
@json_option
@server_options
def set_quota_command(address: ClusterAddress, tenant: str, as_json: bool, **limits: int | None) -> int:
    """Set the limits of TENANT. Needs a token with scope admin.

    This replaces all four limits; omit one to remove it. Existing jobs and tables are kept.
    """
    with _connect(address) as client:
        _print_quota(client.set_quota(tenant, **limits).model_dump(), as_json=as_json)
    return 0


def _print_quota(quota: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(quota)
        return
    limits = {name: quota[name] for name in _LIMITS}
    texts = {name: "no limit" if limit is None else f"{limit:,}" for name, limit in limits.items()}
    texts["bytes"] += f" ({quota['bytes_stored']:,} stored)"
    print_fields([("tenant", quota["tenant"]), *texts.items()])


def _connect(address: ClusterAddress) -> "Client":
    server = address.server(DEFAULT_SERVER)
    if server is None:
        raise SettingsError("Tokens and quotas belong to a server. Use --server instead of --redis.")
    return open_client(address, server)
