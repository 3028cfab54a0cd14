"""A worker that delays each task while the file HOLD exists, longer as the job progresses, so that a test can act while
the job runs: `HOLD=PATH celery -A tests.faults.held_app worker`.
"""

import os
import time
from pathlib import Path

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import EvaluateTask

SECONDS_PER_BATCH, MAX_SECONDS = 0.05, 2.0


class HeldTask(EvaluateTask):
    """Grows trees after a delay."""

    def work(self, message):
        if Path(os.environ["HOLD"]).exists():
            time.sleep(min(MAX_SECONDS, SECONDS_PER_BATCH * message["batch"]))
        return super().work(message)


app = make_app(ClusterSettings.from_environment(os.environ), evaluate=HeldTask)
