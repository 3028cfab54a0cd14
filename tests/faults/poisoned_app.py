"""A worker with one failing subset: `celery -A tests.faults.poisoned_app worker`.

The file named by POISON contains the subset, or `all`, and the action: `{"subset": [0, 1, 2], "action": "raise"}`. It
is read for each task, so that one worker serves many tests.
"""

import json
import os
import signal
import time
from pathlib import Path

from celery.exceptions import SoftTimeLimitExceeded

from maabo_dist.cluster.settings import ClusterSettings
from workers.app import make_app
from workers.tasks import EvaluateTask


class PoisonedTask(EvaluateTask):
    """Grows trees; a task with the subset performs the action instead."""

    def grow(self, table, subsets, max_depth, *, whole):
        path = Path(os.environ["POISON"])
        poison = json.loads(path.read_text()) if path.exists() else None
        if poison is not None and (poison["subset"] == "all" or poison["subset"] in subsets.tolist()):
            ACTIONS[poison["action"]]()
        return super().grow(table, subsets, max_depth, whole=whole)


def _raise():
    raise ValueError("poison")


def _run_out_of_memory():
    raise MemoryError


def _never_end():
    """Ignore the soft limit, as a loop in machine code does."""
    while True:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded as error:
            print(f"ignored: {error!r}", flush=True)


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _sleep_once():
    """Replace the file by one that contains the process id, and sleep."""
    path = Path(os.environ["POISON"])
    path.unlink()
    path.with_suffix(".asleep").write_text(str(os.getpid()))
    time.sleep(600)


ACTIONS = {
    "raise": _raise,
    "run out of memory": _run_out_of_memory,
    "never end": _never_end,
    "die": _die,
    "sleep once": _sleep_once,
}

app = make_app(ClusterSettings.from_environment(os.environ), evaluate=PoisonedTask)
