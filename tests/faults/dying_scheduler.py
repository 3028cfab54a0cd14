"""Schedulers that die at a step: `python -m tests.faults.dying_scheduler "before commit" "after commit" …`.

For each step in turn a process runs until it has come to that step some times, and kills itself there. When all are
dead, an ordinary scheduler goes on.
"""

import os
import signal
import sys
from functools import reduce
from threading import Event

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.warm import warm
from scheduler.cli import main
from scheduler.core.loop import Scheduler
from scheduler.resources import Resources

STEPS = {
    "write": ("_search._ledger.search", "write", lambda values: bool(values.get("sent")), 4),
    "publish": ("_search._publisher", "publish", lambda _: True, 4),
    "commit": ("_search._ledger.search", "write", lambda values: bool(values.get("new_results")), 4),
    "ack": ("_redis", "xdel", lambda _: True, 4),
    "block": ("_screens._ledger.screens", "write_blocks", lambda _: True, 3),
    "block-publish": ("_screens._publisher", "publish", lambda _: True, 2),
    "screen": ("_screens._ledger.screens", "write_screen", lambda _: True, 1),
}
"""Step → what does it, the method, which of its calls are meant, and at how many of them to die."""


class Dying:
    """An object one of whose methods kills the process before or after it has worked."""

    def __init__(self, inner, when, method, meant, times):
        self._inner, self._when, self._method, self._meant, self._left = inner, when, method, meant, times

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        return self._deadly(found) if name == self._method else found

    def _deadly(self, method):
        def call(*arguments, **values):
            meant = self._meant(values)
            self._left -= meant
            if meant and self._left <= 0 and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments, **values)
            if meant and self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def run_until(step):
    when, what = step.split()
    part, method, meant, times = STEPS[what]
    scheduler = Scheduler(Resources.connect(ClusterSettings.from_environment(os.environ)), f"dying {step}")
    *owner, name = part.split(".")
    owner = reduce(getattr, owner, scheduler)
    setattr(owner, name, Dying(getattr(owner, name), when, method, meant, times))
    scheduler.run(Event())


if __name__ == "__main__":
    warm()
    print("ready as one that dies", flush=True)
    for step in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            run_until(step)
        _, status = os.waitpid(child, 0)
        print(f"died: {step}, by signal {os.WTERMSIG(status)}", flush=True)
    del sys.argv[1:]  # those were for us
    sys.exit(main())
