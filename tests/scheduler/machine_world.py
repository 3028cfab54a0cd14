"""A job on a small table, its state machine, and a world in which its tasks are answered."""

from functools import cache

import numpy as np

from maabo_dist.mining.run import SearchRun
from maabo_dist.rules.publishing import TreePool
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.training import depth_search
from scheduler.core.machines import JobMachine
from tests import factories

# With a patience, which is never exhausted, a job pools its trees, so that tests can read them.
MINING = MiningSettings(
    subset_size=2, max_depth=3, trees=40, initial=8, min_samples=2, batch=8, in_flight=3, seed=3, patience=1000
)
ALLOWANCE = 3.0
NO_SUBSETS = frozenset()


@cache
def columns():
    return factories.make_columns(np.random.default_rng(5), 60, 10, 2)


@cache
def study():
    return Study.build(columns(), MINING)


@cache
def screen():
    return factories.screen_of(study())


def grow(subsets, bad=NO_SUBSETS):
    """Simulate the trees of workers; bad subsets fail."""
    return Forest.concatenate([tree_of(subset, subset in bad) for subset in map(tuple, subsets.tolist())])


@cache
def tree_of(subset, is_bad):
    alone = np.array([subset], np.int32)
    return failed_forest(alone, MINING.max_depth, 2) if is_bad else depth_search(study().table, alone, MINING.max_depth)


class RecordingProposer(SubsetProposer):
    """Records the observed scores by subset."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.scores = {}

    def observe(self, subsets, scores):
        super().observe(subsets, scores)
        self.scores |= zip(map(tuple, subsets.tolist()), scores.tolist(), strict=True)


def a_machine():
    return JobMachine(SearchRun(study(), TreePool(study()), screen()), MINING.max_depth, 2)


class World:
    """A machine and a manually driven worker."""

    def __init__(self):
        self.machine, self.now, self.batches = a_machine(), 0.0, []
        self.propose()

    @property
    def proposed(self):
        return [tuple(row) for subsets in self.batches for row in subsets.tolist()]

    def propose(self):
        self.batches += [subsets for _, subsets in self.machine.propose()]

    def send(self, max_size=1000):
        task = self.machine.next_task(max_size, self.now)
        if task is not None:
            self.machine.mark_sent(task.key, task.attempt, self.now)
        return task

    def send_all(self, max_size=1000):
        return list(iter(lambda: self.send(max_size), None))

    def answer(self, task, bad=NO_SUBSETS):
        fresh = self.machine.accept(task.key, grow(task.subsets, bad))
        self.propose()
        return fresh

    def silence(self, seconds):
        """Let workers take all sent tasks, and no answer arrive for this time."""
        self.machine.outbox.mark_taken(self.now, self.now)
        self.now += seconds
        return self.machine.outbox.resend_unanswered(self.now, lambda key: ALLOWANCE)

    def finish(self, bad=NO_SUBSETS):
        while (task := self.send()) is not None:
            self.answer(task, bad)
        assert self.machine.finished


@cache
def undisturbed(bad=NO_SUBSETS, stop_after=None):
    world = World()
    if stop_after is not None:
        world.machine = a_machine()
        world.machine.stop(stop_after, "time")
        world.batches = []
        world.propose()
    world.finish(bad)
    return world


def outcome(machine):
    """Return the result of a search as plain values: every subset with its score, and every leaf."""
    proposer, leaves = machine.run.proposer, machine.run.pool.leaves.distinct()
    scores = np.array([proposer.scores.get(tuple(row), np.nan) for row in proposer.proposed.rows.tolist()])
    arrays = [proposer.proposed.rows, scores, leaves.logic, leaves.bounds, leaves.counts, leaves.tree, leaves.score]
    high = sorted(proposer.guide.high(proposer.proposed).tolist())
    pending = sorted(proposer.proposed.pending), len(proposer.guide), high
    summary = machine.run.reason, machine.run.best_score, machine.run.trees
    return [array.tobytes() for array in arrays], pending, summary


def in_flight_state(machine):
    """Return every subset in flight as (batch, index, where it is)."""
    keys_by_state = {
        "unsent": [key for key, _ in machine.outbox.unsent],
        "sent": list(machine.outbox.sent),
        "postponed": [key for _, key, _ in machine.outbox.postponed],
    }
    return [
        (key.batch, index, state)
        for state, keys in keys_by_state.items()
        for key in keys
        for index in range(key.start, key.stop)
    ]


def sent_subsets(machine):
    return {(batch, index) for batch, index, state in in_flight_state(machine) if state == "sent"}
