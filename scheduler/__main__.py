"""`python -m scheduler`: one scheduler process, configured by MAABO_… variables."""

import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from threading import Event

from maabo_dist.cluster.celery_app import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.tables import TableCache
from maabo_dist.errors import MaaboError
from maabo_dist.store import FileStore
from maabo_dist.warm import warm
from scheduler.ledger import Ledger
from scheduler.loop import Scheduler


def main() -> int:
    """Run until SIGTERM or SIGINT; then give the jobs back and leave. 2 for a configuration that cannot work."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = ClusterSettings.from_environment(os.environ)
        ledger = Ledger(settings.ledger_url)
        cache = TableCache(Path(settings.cache_dir), FileStore(settings.store_url), settings.cache_bytes)
    except MaaboError as error:
        sys.stderr.write(f"scheduler: {error}\n")
        return 2
    warm()
    owner = f"{socket.gethostname()}:{os.getpid()}"
    scheduler = Scheduler(settings, ledger, open_redis(settings), make_celery(settings), cache, owner, time.time)
    logging.getLogger("maabo.scheduler").info("ready as %s", owner)
    scheduler.run(stop)
    ledger.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
