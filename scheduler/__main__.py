"""`python -m scheduler`: one scheduler process, configured by MAABO_… variables."""

import os
import signal
import socket
import sys
from threading import Event

import redis

from maabo_dist.cluster.logs import Journal, set_up_logging
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.errors import MaaboError, SettingsError
from maabo_dist.warm import warm
from scheduler.loop import Scheduler
from scheduler.parts import Parts

journal = Journal("maabo.scheduler")


def main() -> int:
    """Run until SIGTERM or SIGINT; then give the jobs back and leave. 2 for a configuration that cannot work."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = ClusterSettings.from_environment(os.environ)
        set_up_logging(settings.log)
        parts = Parts.connected(settings, Tracing.from_environment(os.environ, "maabo-scheduler"))
        _check_access(parts)
    except MaaboError as error:
        sys.stderr.write(f"scheduler: {error}\n")
        return 2
    warm()
    owner = f"{socket.gethostname()}:{os.getpid()}"
    journal.tell(f"ready as {owner}")
    Scheduler(parts, owner).run(stop)
    parts.close()
    return 0


def _check_access(parts: Parts) -> None:
    """A Redis that is not there may come; one that refuses the password will go on doing so."""
    try:
        parts.redis.ping()
    except redis.AuthenticationError as error:
        raise SettingsError(f"Redis refused the password in MAABO_REDIS: {error}") from error
    except redis.RedisError as error:
        journal.warn("Redis cannot be reached yet", reason=error)


if __name__ == "__main__":
    sys.exit(main())
