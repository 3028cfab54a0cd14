from pathlib import Path

import click
import pytest

from maabo_dist.cli import maabo
from maabo_dist.data.bundled import BUNDLED

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def options(command):
    return [
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]


def commands(group, path=""):
    """Return all commands by their words, including those in groups."""
    for name, command in group.commands.items():
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


@pytest.mark.parametrize("name", sorted(dict(commands(maabo))))
def test_every_command_has_its_own_section(name):
    assert f"## `maabo {name}`" in PAGE


@pytest.mark.parametrize(
    "option", sorted({name for command in (maabo, *dict(commands(maabo)).values()) for name in options(command)})
)
def test_every_option_is_described(option):
    assert f"`{option}" in PAGE


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_table_is_named_in_the_help_and_on_the_page(name):
    help_text = maabo.commands["mine"].get_help(click.Context(maabo.commands["mine"]))

    assert name in help_text
    assert f"`{name}`" in PAGE
