"""An ordinary worker, but that it takes its time before each task for as long as the file HOLD is there, and more of it
the further a job is: so one lasts as long as a test needs. `HOLD=PATH celery -A tests.faults.held_app worker`.
"""

import os
import time
from pathlib import Path

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import EvaluateTask

SECONDS_PER_BATCH, MOST_SECONDS = 0.05, 2.0


class HeldTask(EvaluateTask):
    """Grows trees after a rest."""

    def work(self, message):
        if Path(os.environ["HOLD"]).exists():
            time.sleep(min(MOST_SECONDS, SECONDS_PER_BATCH * message["batch"]))
        return super().work(message)


app = make_app(ClusterSettings.from_environment(os.environ), evaluate=HeldTask)
