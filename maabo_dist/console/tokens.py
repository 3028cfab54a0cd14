"""Options and output of the token commands, which work over HTTP (`maabo token`) or on the ledger itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from maabo_dist.console.commands import combine, print_json, print_note
from maabo_dist.console.tables import NOTHING, Column, format_time, print_table
from maabo_dist.errors import SettingsError

new_token_options = combine(
    click.option("--tenant", metavar="TEXT", default="default", help="Tenant of the token.  [default: default]"),
    click.option(
        "--scopes",
        metavar="LIST",
        default="read,submit",
        help="Permissions, separated by commas: read, submit (includes read), admin.  [default: read,submit]",
    ),
    click.option(
        "--expires",
        metavar="TIME",
        default="never",
        help="Lifetime: 30d, 12h, 90m or never.  [default: never]",
    ),
    click.option("--name", metavar="TEXT", default="", help="A note on what the token is used for."),
)
tenant_option = click.option("--tenant", metavar="TEXT", help="Only tokens of this tenant.  [default: all]")

_COLUMNS = (
    Column("token"),
    Column("tenant", wrap=True),
    Column("permits", wrap=True),
    Column("created"),
    Column("valid", wrap=True),
    Column("name", wrap=True),
)


def parse_scopes(text: str) -> tuple[str, ...]:
    """Split a comma-separated list; the caller checks that the scopes exist."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"--scopes {text!r} is empty. Give one or more of read, submit and admin.")
    return names


def parse_token_id(text: str) -> str:
    """Return the id of a token, given the id or the whole token, which contains it."""
    parts = text.strip().split("_", 2)
    return parts[1] if parts[0] == "maabo" and len(parts) == 3 else text.strip()


def print_new_token(token: str, record: Mapping[str, Any]) -> None:
    """Print the token on stdout, and its properties on stderr."""
    until = f"valid until {format_time(record['expires'])}" if record["expires"] else "valid until revoked"
    print_note(
        f"token {record['id']} for tenant {record['tenant']} with scopes {', '.join(record['scopes'])}, {until}. "
        "It is shown only once."
    )
    click.echo(token)


def print_tokens(tokens: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a table of tokens, or their JSON."""
    if as_json:
        print_json(tokens)
    elif not tokens:
        click.echo("There are no tokens: any process on the server's machine may call it, and no other.")
    else:
        print_table(_COLUMNS, [_row(token) for token in tokens])


def _row(token: Mapping[str, Any]) -> tuple[str, ...]:
    scopes, created = ", ".join(token["scopes"]), format_time(token["created"])
    return token["id"], token["tenant"], scopes, created, _validity(token), token["name"] or NOTHING


def _validity(token: Mapping[str, Any]) -> str:
    if token["revoked"]:
        return f"revoked {format_time(token['revoked'])}"
    return f"until {format_time(token['expires'])}" if token["expires"] else "until revoked"
