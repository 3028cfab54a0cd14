"""A worker that delays each block of a screen and each shuffled search, so that a test can act while a small table is
screened or certified: `celery -A tests.faults.ordinary_app worker`.

While the file HOLD exists, workers hold every block and search but the first few, and log which process holds one.
"""

import os
import time
from pathlib import Path

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import ScreenTask, ShuffleTask

SECONDS, MAX_SECONDS, FIRST_BLOCKS = 0.08, 30.0, 4
HOLD = Path(os.environ["HOLD"])


def hold(number, what, is_over=lambda: False):
    """Wait a moment; for all but the first few, while the file exists."""
    time.sleep(SECONDS)
    if number > FIRST_BLOCKS and HOLD.exists():
        print(f"process {os.getpid()} holds {what}", flush=True)
        end = time.monotonic() + MAX_SECONDS
        while HOLD.exists() and time.monotonic() < end and not is_over():
            time.sleep(0.02)


class SlowScreenTask(ScreenTask):
    """Screens after a delay."""

    def screen(self, table, task):
        hold(task.number, f"a block of job {task.job}")
        return super().screen(table, task)


class SlowShuffleTask(ShuffleTask):
    """Searches after a delay."""

    def search(self, study, number, task, should_stop):
        hold(number + 1, f"a shuffled search of job {task.spec.id}", should_stop)
        return super().search(study, number, task, should_stop)


app = make_app(ClusterSettings.from_environment(os.environ), screen=SlowScreenTask, shuffle=SlowShuffleTask)
