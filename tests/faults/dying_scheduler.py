"""Schedulers that die at a step: `python -m tests.faults.dying_scheduler "before commit" "after commit" …`.

For each step in turn, a process runs until it has reached that step a few times, and kills itself there. Afterwards an
ordinary scheduler continues.
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
    "shuffle-plan": ("_shuffles._ledger.shuffles", "write_plan", lambda _: True, 1),
    "shuffle": ("_shuffles._ledger.shuffles", "write", lambda _: True, 3),
    "shuffle-publish": ("_shuffles._publisher", "publish", lambda _: True, 2),
    "pass-begin": ("_passes._ledger.passes", "begin", lambda _: True, 1),
    "pass": ("_passes._ledger.passes", "write", lambda _: True, 3),
    "pass-publish": ("_passes._publisher", "publish", lambda _: True, 2),
    "pass-complete": ("_passes._ledger.passes", "complete", lambda _: True, 2),
    "screen": ("_screens._ledger.screens", "write_screen", lambda _: True, 1),
}
"""Step → the object, its method, a predicate for the calls that count, and the number of the call at which to die."""


class DyingObject:
    """A wrapper of an object that kills the process before or after a call of one method."""

    def __init__(self, inner, when, method, counts, times):
        self._inner, self._when, self._method, self._counts, self._left = inner, when, method, counts, times

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        return self._make_deadly(value) if name == self._method else value

    def _make_deadly(self, method):
        def call(*arguments, **values):
            counted = self._counts(values)
            self._left -= counted
            if counted and self._left <= 0 and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments, **values)
            if counted and self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def run_until(step):
    when, action = step.split()
    path, method, counts, times = STEPS[action]
    scheduler = Scheduler(Resources.connect(ClusterSettings.from_environment(os.environ)), f"dying {step}")
    *owner, name = path.split(".")
    owner = reduce(getattr, owner, scheduler)
    setattr(owner, name, DyingObject(getattr(owner, name), when, method, counts, times))
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
    del sys.argv[1:]  # `main` reads the rest
    sys.exit(main())
