"""A client of a cluster. `check_done` is the complete check of a finished job.

The job must be done within a time limit, with the digest of `mine` in this process, and Redis must show the same.
"""

from functools import cache

import numpy as np

from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.settings import MiningSettings, TableSettings
from tests import factories, servers
from tests.cluster import ask, submit

MINING = {
    "preset": "paper",
    "trees": 3000,
    "batch": 32,
    "in_flight": 16,
    "seed": 1,
    "similarity": 0.4,
    "subset_size": 4,
}


@cache
def table(name="breast_cancer"):
    """Return a bundled table, or one with planted rules and N features if the name is `planted N`.

    In `weak` there is so little evidence that searches on shuffled labels have to certify its rules.
    """
    if name == "weak":
        rng = np.random.default_rng(5)
        matrix = rng.normal(size=(8, 200))
        return factories.columns_of(matrix, 0.55 * matrix[0] + 1.2 * rng.normal(size=200) > 0)
    if name.startswith("planted "):
        frame, _ = generate(Recipe(rows=300, features=int(name.split()[1]), xor=1, seed=4))
        return prepare(frame, TableSettings(target="y")).columns
    return prepare(*load_bundled(name)).columns


@cache
def _mined(name, mining, jobs):
    return mine(table(name), MiningSettings.parse(dict(mining)), jobs=jobs)


def mined_here(mining, name="breast_cancer", jobs=1):
    """Return the result of this process."""
    return _mined(name, tuple(sorted(mining.items())), jobs)


def expected_digest(mining, name="breast_cancer"):
    return mined_here(mining, name).digest


class Client:
    """Base class. Subclasses provide `settings`, `directory`, `ledger` and `client` (of Redis)."""

    def submit(self, mining=None, *, name="breast_cancer", job=None, **document):
        return submit(self.settings, self.directory, table(name), job, document=document, **(mining or MINING))

    def ask(self, kind, job):
        ask(self.settings, kind, job)

    def row(self, job):
        return self.ledger.jobs.get(job)

    def under_way(self, job, trees=300, seconds=30):
        """Wait until the job has some trees, check that it is still running, and return its row."""
        row = servers.wait_for(
            lambda: (row := self.row(job)) is not None and (row.trees >= trees or row.state.ended) and row,
            seconds,
            what=f"{trees} trees",
        )
        assert row.state is JobState.RUNNING, f"the fault would come too late: {row.state}, {row.trees} trees"
        return row

    def ended(self, job, seconds=30):
        return servers.wait_for(
            lambda: (row := self.row(job)) is not None and row.state.ended and row, seconds, what="the end"
        )

    def check_done(self, job, mining=None, *, name="breast_cancer", digest=None, seconds=30):
        """Wait for the end of the job, check its result, and return its row."""
        row = self.ended(job, seconds)
        assert (row.state, row.reason) == (JobState.DONE, None)
        assert row.digest == (digest or expected_digest(mining or MINING, name))
        servers.wait_for(
            lambda: self._published_result(job) == (row.state, row.digest), 15, what="the job's record in Redis"
        )
        return row

    def record(self, job):
        text = self.client.get(self.settings.key(f"{names.JOB_RECORD}:{job}"))
        return None if text is None else JobRecord.model_validate_json(text)

    def document(self, job):
        return self.ledger.jobs.document(job)

    def stream(self, job):
        return results_stream(self.settings, job)

    def _published_result(self, job):
        record = self.record(job)
        if record is None:  # as a client does: Redis may have been emptied since
            self.ask("look", job)
            return None
        return record.state, record.digest
