"""`python -m deploy.local up`: everything on this machine, until Ctrl-C.

Exit codes: 0 stopped as asked, 1 failed, 2 something that was given is wrong.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from deploy.local.cluster import run_cluster
from deploy.local.processes import Options
from deploy.local.screen import Screen
from maabo_dist.cli.exit_codes import exit_code
from maabo_dist.errors import SettingsError

DEMO = (sys.executable, "-m", "maabo_dist", "submit", "--dataset", "diabetes", "--wait")

_PORT = click.IntRange(1, 65535)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def local() -> None:
    """Run a whole cluster on this machine."""


@local.command()
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 256), metavar="N", help="Workers.")
@click.option(
    "--pool",
    default="prefork",
    show_default=True,
    type=click.Choice(["prefork", "threads"]),
    help="How a worker runs its tasks: in a process or in a thread.",
)
@click.option(
    "--data-dir",
    default=".maabo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where everything is kept.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Written when all is healthy: addresses and processes as JSON.",
)
@click.option("--redis-port", type=_PORT, metavar="PORT", help="Port of the private Redis.  [default: a free one]")
@click.option(
    "--http-port",
    type=_PORT,
    metavar="PORT",
    help="Port of the HTTP interface.  [default: 8080 if that is free, or another]",
)
@click.option("--no-http", "http", flag_value=False, default=True, type=bool, help="Do without the HTTP interface.")
@click.option("--flower-port", type=_PORT, metavar="PORT", help="Port of Flower.  [default: a free one]")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address that Flower listens on."
)
@click.option(
    "--flower-auth",
    envvar="MAABO_FLOWER_AUTH",
    metavar="USER:PASSWORD",
    help="Who may look into Flower; must be given unless --host is this machine alone.  [env: MAABO_FLOWER_AUTH]",
)
@click.option("--no-flower", "flower", flag_value=False, default=True, type=bool, help="Do without Flower.")
@click.option(
    "--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]), help="Of the parts' logs."
)
@click.option("--quiet", "-q", is_flag=True, help="Nothing but problems.")
def up(data_dir: Path, ready_file: Path | None, quiet: bool, **asked: object) -> int:
    """Start Redis, a scheduler, workers, the HTTP interface and Flower, and keep them running until Ctrl-C."""
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise SettingsError(f"--ready-file {ready_file}: the directory {ready_file.absolute().parent} is not there.")
    return run_cluster(Options(**asked), data_dir, Screen(quiet=quiet), ready_file=ready_file)  # type: ignore[arg-type]


@local.command()
@click.option("--flower", is_flag=True, help="Start Flower, too.")
def demo(flower: bool) -> int:
    """Mine a bundled table on a cluster that lives as long as that takes."""
    with TemporaryDirectory(prefix="maabo-demo-", ignore_cleanup_errors=True) as folder:
        return run_cluster(Options(http=False, flower=flower), Path(folder), Screen(quiet=False), client=DEMO)


def main() -> None:
    """Run a command, and turn every way in which it is expected to end into a line and an exit code."""
    sys.exit(exit_code(local, "python -m deploy.local"))


if __name__ == "__main__":
    main()
