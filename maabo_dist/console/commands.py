"""Running a command and reporting to the user: exit codes, notes on stderr, and common options."""

import json
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from maabo_dist.errors import InputError, MaaboError

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
