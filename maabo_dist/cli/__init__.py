"""The command line, `maabo`. Commands translate options into a library call, and its result into text.

Only click and the settings are imported with this package, so that `--help` is fast; commands import NumPy and other
large packages when they run.

Exit codes: 0 success, 1 failure, 2 invalid input, 130 interrupted.
"""

import atexit
import gc
import sys

import click

from maabo_dist._version import __version__
from maabo_dist.cli.access import quota_group, token_group
from maabo_dist.cli.cluster import ClusterAddress, cluster_options
from maabo_dist.cli.generate import generate_command, score_command
from maabo_dist.cli.jobs import JOB_COMMANDS
from maabo_dist.cli.mine import mine_command, submit_command
from maabo_dist.cli.new_data import apply_command, check_command
from maabo_dist.cli.paper import paper_group
from maabo_dist.cli.results import diff_command, report_command
from maabo_dist.console import run_command

__all__ = ["maabo", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maabo", message="%(prog)s %(version)s")
@cluster_options
@click.pass_context
def maabo(context: click.Context, address: ClusterAddress) -> None:
    """Mine short lists of reliable, dissimilar if-then rules from tables.

    Options that name a cluster may be given before or after a command.
    """
    context.obj = address


for command in (
    mine_command,
    submit_command,
    *JOB_COMMANDS,
    apply_command,
    check_command,
    report_command,
    diff_command,
    token_group,
    quota_group,
    generate_command,
    score_command,
    paper_group,
):
    maabo.add_command(command)


def main() -> None:
    """Run a command, and exit with its exit code."""
    # Collect garbage less often, and not at exit. pandas and numba create some hundred thousand objects that live as
    # long as the process. Looking for garbage among them, while they are imported and once more at exit, took a
    # quarter of the time of `maabo mine` on a small table.
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot encode ≤ gets an escape sequence, not a traceback.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run_command(maabo, "maabo"))
