"""How a command ends: every way that is expected becomes a line and an exit code."""

import click

from maabo_dist.errors import InputError, MaaboError


def exit_code(group: click.Command, name: str) -> int:
    """Run a command, or one of a group, called `name`: 0 done, 1 failed, 2 wrongly asked for, 130 interrupted."""
    try:
        return int(group.main(prog_name=name, standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except MaaboError as error:
        for line in str(error).splitlines():
            click.echo(f"maabo: {line}", err=True)
        return 2 if isinstance(error, InputError) else 1
    except click.Abort:
        click.echo("maabo: interrupted.", err=True)
        return 130
