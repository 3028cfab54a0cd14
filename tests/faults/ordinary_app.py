"""An ordinary worker, but that it takes its time over each block of a screen: so a job that screens a small table can
be met while it does. `celery -A tests.faults.ordinary_app worker`.
"""

import os
import time

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import ScreenTask

SECONDS = 0.08


class SlowScreenTask(ScreenTask):
    """Screens after a rest."""

    def screen(self, table, task):
        time.sleep(SECONDS)
        return super().screen(table, task)


app = make_app(ClusterSettings.from_environment(os.environ), screen=SlowScreenTask)
