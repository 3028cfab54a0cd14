"""Command lines: exit codes, notes on stderr, common options, tables on stdout, and the token commands.

`maabo`, the scheduler and the deployment tools share it. The token commands work over HTTP (`maabo token`) or on the
ledger itself.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from maabo_dist._util.text import printable
from maabo_dist.errors import InputError, MaaboError, SettingsError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


Command = TypeVar("Command", bound=Callable[..., Any])

# The exit code after Ctrl-C.
INTERRUPTED = 130

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def run_command(command: click.Command, name: str) -> int:
    """Run a command or group under this program name, and return its exit code.

    0 is success, 1 a failure, 2 invalid input and 130 an interruption. Expected errors are printed as messages.
    """
    try:
        return int(command.main(prog_name=name, standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except MaaboError as error:
        for line in str(error).splitlines():
            print_note(line)
        return 2 if isinstance(error, InputError) else 1
    except click.Abort:
        print_note("interrupted.")
        return INTERRUPTED


def print_note(line: str) -> None:
    """Print a message for the user on stderr."""
    click.echo(f"maabo: {line}", err=True)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def combine(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator that applies all of these; `--help` lists their options in this order."""

    def decorate(command: Command) -> Command:
        # Decorators apply from the bottom up.
        decorated: Command = reduce(lambda result, decorator: decorator(result), reversed(decorators), command)
        return decorated

    return decorate


# The width where stdout is not a terminal: enough for every cell, because programs split the lines.
PIPE_WIDTH = 160
# Terminals of fewer columns show only the columns of a table that matter most.
NARROW = 96
NOTHING = "–"

# A text, or a text and its style. Control characters are escaped.
Cell = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """The heading and layout of a column. A column that wraps gives way first on a narrow terminal."""

    title: str
    right: bool = False
    wrap: bool = False
    min_width: int | None = None
    max_width: int | None = None
    # True if it is left out on a terminal of fewer than `NARROW` columns.
    wide_only: bool = False


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows under headings."""
    # rich takes 0.1 s to import, which `--help`, `--json` and the processes of a cluster do not need.
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = _console()
    shown = [not column.wide_only or console.width >= NARROW for column in columns]
    table = Table(box=SIMPLE_HEAD, header_style="dim", border_style="dim", padding=(0, 1))
    for column in compress(columns, shown):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            min_width=column.min_width,
            max_width=column.max_width,
        )
    for row in rows:
        table.add_row(*map(_text, compress(row, shown)))
    _print(table, console)


def print_fields(fields: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, one pair per line."""
    from rich.table import Table  # noqa: PLC0415 - see print_table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, _text(value))
    _print(table, _console())


def format_time(seconds: float) -> str:
    """Format seconds since the epoch as local time with its offset."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


def format_duration(seconds: float) -> str:
    """Format a duration in a suitable unit: `40 s`, `5 min`, `1.5 h`, `3 days`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _text(cell: Cell) -> "Text":
    from rich.text import Text  # noqa: PLC0415 - see print_table

    text, style = (cell, "") if isinstance(cell, str) else cell
    return Text(printable(text), style=style)


def _console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - see print_table

    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def _print(table: "Table", console: "Console") -> None:
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    # rich pads lines with spaces, which a pipe would keep.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


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
        click.echo("There are no tokens: only processes on the server's machine have access.")
    else:
        rows = []
        for token in tokens:
            scopes, created = ", ".join(token["scopes"]), format_time(token["created"])
            validity = f"until {format_time(token['expires'])}" if token["expires"] else "until revoked"
            if token["revoked"]:
                validity = f"revoked {format_time(token['revoked'])}"
            rows.append((token["id"], token["tenant"], scopes, created, validity, token["name"] or NOTHING))
        print_table(_COLUMNS, rows)
