"""A worker that delays each block of a screen, so that a test can act while a small table is screened:
`celery -A tests.faults.ordinary_app worker`.

While the file HOLD exists, workers hold every block but the first few, and log which process holds one.
"""

import os
import time
from pathlib import Path

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import ScreenTask

SECONDS, MAX_SECONDS, FIRST_BLOCKS = 0.08, 30.0, 4
HOLD = Path(os.environ["HOLD"])


class SlowScreenTask(ScreenTask):
    """Screens after a delay."""

    def screen(self, table, task):
        time.sleep(SECONDS)
        if task.number > FIRST_BLOCKS and HOLD.exists():
            print(f"process {os.getpid()} holds a block of job {task.job}", flush=True)
            end = time.monotonic() + MAX_SECONDS
            while HOLD.exists() and time.monotonic() < end:
                time.sleep(0.02)
        return super().screen(table, task)


app = make_app(ClusterSettings.from_environment(os.environ), screen=SlowScreenTask)
