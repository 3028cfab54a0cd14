"""`python -m deploy.local up`: a cluster on this machine, until Ctrl-C.

Exit codes: 0 stopped by a signal, 1 failed, 2 invalid options.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from deploy.local.cluster import StatusPrinter, run_cluster
from deploy.local.plan import Options
from maabo_dist.console import run_command
from maabo_dist.errors import SettingsError

DEMO = (sys.executable, "-m", "maabo_dist", "submit", "--dataset", "diabetes", "--wait")

_PORT = click.IntRange(1, 65535)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def local() -> None:
    """Run a cluster on this machine."""


@local.command()
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1, 256), metavar="N", help="Number of workers."
)
@click.option(
    "--pool",
    default="prefork",
    show_default=True,
    type=click.Choice(["prefork", "threads"]),
    help="Run the tasks of a worker in a process or in a thread.",
)
@click.option(
    "--data-dir",
    default=".maabo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for all files of the cluster.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write when all components are ready: addresses and processes as JSON.",
)
@click.option("--redis-port", type=_PORT, metavar="PORT", help="Port of the private Redis.  [default: a free one]")
@click.option("--http-port", type=_PORT, metavar="PORT", help="Port of the HTTP API.  [default: 8080, or a free one]")
@click.option("--no-http", "http", flag_value=False, default=True, type=bool, help="Do not start the HTTP API.")
@click.option("--flower-port", type=_PORT, metavar="PORT", help="Port of Flower.  [default: a free one]")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address that Flower listens on."
)
@click.option(
    "--flower-auth",
    envvar="MAABO_FLOWER_AUTH",
    metavar="USER:PASSWORD",
    help="User and password of Flower; required unless --host is a loopback address.  [env: MAABO_FLOWER_AUTH]",
)
@click.option("--no-flower", "flower", flag_value=False, default=True, type=bool, help="Do not start Flower.")
@click.option(
    "--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]), help="Format of the logs."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only problems.")
def up(data_dir: Path, ready_file: Path | None, quiet: bool, **options: object) -> int:
    """Start Redis, a scheduler, workers, the HTTP API and Flower, and keep them running until Ctrl-C."""
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise SettingsError(f"--ready-file {ready_file}: the directory {ready_file.absolute().parent} does not exist.")
    return run_cluster(Options(**options), data_dir, StatusPrinter(quiet=quiet), ready_file=ready_file)  # type: ignore[arg-type]


@local.command()
@click.option("--flower", is_flag=True, help="Also start Flower.")
def demo(flower: bool) -> int:
    """Mine a bundled table on a temporary cluster."""
    with TemporaryDirectory(prefix="maabo-demo-", ignore_cleanup_errors=True) as folder:
        return run_cluster(Options(http=False, flower=flower), Path(folder), StatusPrinter(quiet=False), client=DEMO)


if __name__ == "__main__":
    sys.exit(run_command(local, "python -m deploy.local"))
