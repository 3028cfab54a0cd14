"""A subset that cannot be evaluated, and a process that is killed in the middle of a task."""

import json
import os
import signal
from functools import cache, partial

import numpy as np
import pytest

from maabo_dist.contract.job import JobState
from maabo_dist.mining.result import conclude
from maabo_dist.mining.run import SearchRun
from maabo_dist.rules.publishing import TreePool
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.training import depth_search
from scheduler.core.losses import MAX_IN_A_ROW
from tests import factories, servers
from tests.faults.world import World, table

pytestmark = pytest.mark.xdist_group("faults")

MINING = {"trees": 400, "batch": 8, "in_flight": 8, "seed": 3, "similarity": 0.4}


class Search:
    """The search in this process, with a subset that always fails."""

    def __init__(self):
        self.study = Study.build(table(), MiningSettings.parse(MINING))

    def run(self, pool=None):
        return SearchRun(self.study, pool, factories.screen_of(self.study))

    def first_batch(self):
        return self.run().propose()

    def digest_without(self, poison):
        pool = TreePool(self.study)
        run, waiting = self.run(pool), []
        while not run.finished:
            if (subsets := run.propose()) is not None:
                waiting.append(subsets)
            else:
                run.observe(Forest.concatenate([self.tree(subset, poison) for subset in waiting.pop(0)]))
        return conclude(self.study, pool, run.reason, 0.0).digest

    def tree(self, subset, poison):
        if subset.tolist() == poison:
            return failed_forest(subset[np.newaxis], self.study.settings.max_depth, len(self.study.columns.classes))
        settings = self.study.settings
        return depth_search(self.study.table, subset[np.newaxis], settings.max_depth, whole=settings.whole_trees)


@cache
def poison_and_digest():
    search = Search()
    poison = search.first_batch()[3].tolist()
    return poison, search.digest_without(poison)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    """A cluster whose worker fails as `poison(action)` specifies."""
    directory = tmp_path_factory.mktemp("poisoned")
    world = World(directory)
    path = directory / "poison.json"
    world.poison = lambda action: path.write_text(json.dumps({"subset": poison_and_digest()[0], "action": action}))
    world.poison_all = lambda action: path.write_text(json.dumps({"subset": "all", "action": action}))
    world.asleep = path.with_suffix(".asleep")
    world.poisoned_worker = partial(world.worker, "tests.faults.poisoned_app", environment={"POISON": str(path)})
    try:
        world.first_scheduler = world.scheduler(wait=False)
        world.first_worker = world.poisoned_worker()
        world.first_scheduler.ready("ready as")
        yield world
    finally:
        world.close()


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("raise", "ValueError('poison')"),
        ("run out of memory", "The worker ran out of memory."),
        ("die", "signal 9 (SIGKILL)"),
    ],
)
def test_a_subset_that_always_fails_is_isolated_and_named(poisoned, action, reason):
    poisoned.poison(action)

    check_isolated_and_named(poisoned, reason)


def test_a_process_killed_in_the_middle_of_a_task_is_reported_immediately(poisoned):
    poisoned.asleep.unlink(missing_ok=True)
    poisoned.poison("sleep once")
    job = poisoned.submit(MINING)
    asleep = servers.wait_for(lambda: poisoned.asleep.exists() and poisoned.asleep.read_text(), 20, what="a task")
    before = len(poisoned.first_scheduler.log)
    os.kill(int(asleep), signal.SIGKILL)

    servers.wait_for(lambda: "task lost" in poisoned.first_scheduler.log[before:], 3, what="a reported loss")
    assert "no answer" not in poisoned.first_scheduler.log[before:]
    assert poisoned.check_done(job, MINING).failed == 0


@pytest.mark.parametrize("action", ["die", "run out of memory"])
def test_a_job_whose_tasks_end_all_processes_fails_early_and_names_the_cause(poisoned, action):
    """The subsets were tried one by one, with more than a hundred processes, and the reason had no word of memory."""
    poisoned.poison_all(action)
    before = len(poisoned.first_scheduler.log)
    row = poisoned.ended(poisoned.submit(MINING, dataset={"fingerprint": table().fingerprint, "name": "wide.csv"}), 60)

    lines = poisoned.first_scheduler.log[before:].splitlines()
    assert row.state is JobState.FAILED
    assert "on the table 'wide.csv' (569 rows, 30 features)" in row.reason
    assert "ran out of memory" in row.reason
    assert "Give the workers more memory or fewer processes" in row.reason
    assert sum("task lost" in line or "task failed" in line for line in lines) <= MAX_IN_A_ROW + 8  # those in flight
    assert poisoned.first_worker.alive


@pytest.mark.soak
def test_a_subset_that_never_ends_is_isolated_and_named(poisoned):
    poisoned.end(poisoned.first_worker)
    poisoned.first_worker = poisoned.poisoned_worker(task_limit=0.8)
    poisoned.poison("never end")

    check_isolated_and_named(poisoned, "TimeLimitExceeded")


def check_isolated_and_named(poisoned, reason):
    poison, digest = poison_and_digest()
    job = poisoned.submit(MINING)
    row = poisoned.check_done(job, digest=digest, seconds=60)
    names = ", ".join(table().features[index].name for index in poison)
    named = [note for note in json.loads(poisoned.document(job))["notes"] if note.startswith("No tree could be grown")]

    assert (row.failed, poisoned.record(job).failed) == (1, 1)
    assert len(named) == 1
    assert named[0].startswith(f"No tree could be grown on {names}: ")
    assert reason in named[0]
    assert poisoned.first_worker.alive
