"""`python -m scheduler`: a scheduler process; `serve`, `token`, `backup`, `restore` and `health` are its commands.

Configured by MAABO_… variables.

Exit codes: 0 stopped as asked, 1 failed, 2 something that was given is wrong.
"""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import click

from maabo_dist.cluster.address import check_redis
from maabo_dist.cluster.broker import check_broker
from maabo_dist.cluster.logs import StructuredLogger, set_up_logging
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.console.commands import run_command
from maabo_dist.errors import MaaboError
from scheduler.commands import backup_command, restore_command, token_group

if TYPE_CHECKING:
    from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def scheduler(context: click.Context) -> int:
    """Run a scheduler until SIGTERM or SIGINT; then give the jobs back and leave."""
    if context.invoked_subcommand is None:
        _run_scheduler()
    return 0


@scheduler.command("serve")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: MAABO_HTTP_HOST, or 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: MAABO_HTTP_PORT, or 8080]")
def serve_command(host: str | None, port: int | None) -> int:
    """Serve the HTTP interface. Any number may run, on one ledger and one Redis."""
    from scheduler.api.server import serve
    from scheduler.api.settings import ApiSettings

    settings = ApiSettings.from_environment(os.environ, host=host, port=port)
    with _resources("maabo-service") as resources:
        serve(resources, settings, lambda line: click.echo(f"maabo: {line}", err=True))
    return 0


@scheduler.command("health")
def health_command() -> int:
    """End with 0 if a scheduler process of this host takes its turns, with 1 if not."""
    from scheduler.commands import check_scheduler

    click.echo(check_scheduler(ClusterSettings.from_environment(os.environ)), err=True)
    return 0


scheduler.add_command(token_group)
scheduler.add_command(backup_command)
scheduler.add_command(restore_command)


def main() -> int:
    """Run a command, and turn every way in which it is expected to end into a line and an exit code."""
    return run_command(scheduler, "python -m scheduler")


def _run_scheduler() -> None:
    from maabo_dist.warm import warm
    from scheduler.core.loop import Scheduler

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _resources("maabo-scheduler") as resources:
        warm()
        owner = f"{socket.gethostname()}:{os.getpid()}"
        logger.info(f"ready as {owner}")
        Scheduler(resources, owner).run(stop)


@contextmanager
def _resources(name: str) -> Iterator["Resources"]:
    """What the environment names; a configuration that cannot work ends the process. Traces go by `name`."""
    try:
        settings = ClusterSettings.from_environment(os.environ)
        set_up_logging(settings.log)
        from scheduler.resources import Resources

        resources = Resources.connect(settings, Tracing.from_environment(os.environ, name))
        _check_access(resources)
    except MaaboError as error:
        click.echo(f"scheduler: {error}", err=True)
        raise click.exceptions.Exit(2) from None
    try:
        yield resources
    finally:
        resources.close()


def _check_access(resources: "Resources") -> None:
    """A Redis that is not there may come; one that refuses the password will go on doing so."""
    problem = check_redis(resources.settings.redis_url, resources.redis.ping)
    if problem is not None:
        logger.warning("Redis cannot be reached yet", reason=problem)
    problem = check_broker(resources.settings, resources.celery)
    if problem is not None:
        logger.warning("the broker cannot be reached yet", reason=problem)


if __name__ == "__main__":
    sys.exit(main())
