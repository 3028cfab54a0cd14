"""A scheduler in a thread, and what a client does, for tests on real parts."""

import json
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from maabo_dist.cluster.celery_app import make_celery
from maabo_dist.cluster.streams import HEADER, open_redis
from maabo_dist.cluster.tables import TableCache
from maabo_dist.contract import names
from maabo_dist.store import FileStore
from scheduler.ledger import Ledger
from scheduler.loop import Scheduler
from tests import servers


@contextmanager
def a_scheduler(settings, owner="one"):
    ledger = Ledger(settings.ledger_url)
    cache = TableCache(Path(settings.cache_dir), FileStore(settings.store_url), settings.cache_bytes)
    scheduler = Scheduler(settings, ledger, open_redis(settings), make_celery(settings), cache, owner, time.time)
    stop = Event()
    thread = Thread(target=scheduler.run, args=(stop,))
    thread.start()
    try:
        yield ledger
    finally:
        stop.set()
        thread.join(20)
        ledger.close()


def submit(settings, tmp_path, columns, number, **mining):
    columns.save(tmp_path / "table")
    FileStore(settings.store_url).put(f"columns/{columns.fingerprint}", tmp_path / "table")
    document = {"id": f"{number:032x}", "dataset": {"fingerprint": columns.fingerprint}, "settings": mining}
    open_redis(settings).xadd(settings.key(names.INTAKE_STREAM), {HEADER: json.dumps(document)})
    return document["id"]


def ended(ledger, job, seconds=60):
    def look():
        row = ledger.job(job)
        return row if row is not None and row.state.ended else None

    return servers.wait_for(look, seconds, what="the end of the job")
