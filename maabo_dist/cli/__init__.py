"""The command line, `maabo`. Commands translate options into one library call and its result into text.

At import time only click and the settings are loaded, so that `--help` answers at once; a command imports numpy and
all that follows when it runs.

Exit codes: 0 done, 1 failed, 2 something that was given is wrong, 130 interrupted.
"""

import atexit
import gc
import sys

import click

from maabo_dist._version import __version__
from maabo_dist.cli.access import quota_group, token_group
from maabo_dist.cli.exit_codes import exit_code
from maabo_dist.cli.generate import generate_command, score_command
from maabo_dist.cli.jobs import (
    cancel_command,
    jobs_command,
    pause_command,
    resume_command,
    rules_command,
    status_command,
)
from maabo_dist.cli.mine import mine_command
from maabo_dist.cli.paper import paper_group
from maabo_dist.cli.place import Place, place_options
from maabo_dist.cli.results import diff_command, report_command
from maabo_dist.cli.submit import submit_command
from maabo_dist.cli.watch import watch_command

__all__ = ["maabo", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maabo", message="%(prog)s %(version)s")
@place_options
@click.pass_context
def maabo(context: click.Context, place: Place) -> None:
    """Mine short lists of reliable, dissimilar if-then rules from tables.

    Which cluster is meant may be said before a command or after it.
    """
    context.obj = place


for command in (
    mine_command,
    submit_command,
    jobs_command,
    status_command,
    watch_command,
    rules_command,
    report_command,
    diff_command,
    pause_command,
    resume_command,
    cancel_command,
    token_group,
    quota_group,
    generate_command,
    score_command,
    paper_group,
):
    maabo.add_command(command)


def _tune_garbage_collector() -> None:
    """Collect garbage less often, and not at exit.

    pandas and numba create some hundred thousand objects that live as long as the process. Looking for garbage among
    them, while they are imported and once more at exit, took a quarter of the time of `maabo mine` on a small table.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def main() -> None:
    """Run a command, and turn every way in which it is expected to end into a line and an exit code."""
    _tune_garbage_collector()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show ≤ should get an escape, not a traceback.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(exit_code(maabo, "maabo"))
