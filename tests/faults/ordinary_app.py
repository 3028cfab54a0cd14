"""A worker that delays each block of a screen and each shuffled search, so that a test can act while a small table is
screened or certified: `celery -A tests.faults.ordinary_app worker`.

While the file HOLD exists, workers hold every block and search but the first few, and log which process holds one.
While HOLD-plan, HOLD-draw or HOLD-count exists, they hold the tasks of such passes over rows.
"""

import os
import time
from pathlib import Path

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.passes import CountTask
from workers.tasks import ScreenTask, ShuffleTask

SECONDS, MAX_SECONDS, FIRST_BLOCKS = 0.08, 30.0, 4
HOLD = Path(os.environ["HOLD"])


def hold(number, what, is_over=lambda: False, file=HOLD):
    """Wait a moment; for all but the first few, while the file exists."""
    time.sleep(SECONDS)
    if number > FIRST_BLOCKS and file.exists():
        print(f"process {os.getpid()} holds {what}", flush=True)
        end = time.monotonic() + MAX_SECONDS
        while file.exists() and time.monotonic() < end and not is_over():
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


class SlowCountTask(CountTask):
    """Reads rows after a delay."""

    def work(self, message):
        kind, job = message["kind"], message["spec"]["id"]
        number = message["start"] + 1 + (FIRST_BLOCKS if kind == "plan" else 0)
        file = HOLD.with_name(f"{HOLD.name}-{kind}")
        hold(number, f"a {kind} task of job {job}", self.end_check(job), file)
        return super().work(message)


app = make_app(
    ClusterSettings.from_environment(os.environ), screen=SlowScreenTask, shuffle=SlowShuffleTask, count=SlowCountTask
)
