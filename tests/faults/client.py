"""What a client of a cluster does, and what a test expects of a job: `check_done` checks all of it.

A job is done within so many seconds, its digest is that of `mine` in this process, and who looks it up in Redis sees
the same.
"""

from functools import cache

from maabo_dist.cluster.streams import results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.research.synthetic.generation import generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.settings import MiningSettings, TableSettings
from tests import servers
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
    """A bundled table, or one with so many features in which rules are planted: `planted 200`."""
    if name.startswith("planted "):
        frame, _ = generate(Recipe(rows=300, features=int(name.split()[1]), xor=1, seed=4))
        return prepare(frame, TableSettings(target="y")).columns
    return prepare(*load_bundled(name)).columns


@cache
def _digest(name, mining):
    return mine(table(name), MiningSettings.parse(dict(mining))).digest


def expected_digest(mining, name="breast_cancer"):
    return _digest(name, tuple(sorted(mining.items())))


class Client:
    """Whoever derives from it has `settings`, a `directory`, a `ledger` and a `client` of Redis."""

    def submit(self, mining=None, *, name="breast_cancer", job=None, **document):
        return submit(self.settings, self.directory, table(name), job, document=document, **(mining or MINING))

    def ask(self, kind, job):
        ask(self.settings, kind, job)

    def row(self, job):
        return self.ledger.jobs.get(job)

    def under_way(self, job, trees=300, seconds=30):
        """The job has some trees and is to get more."""
        row = servers.wait_for(
            lambda: (found := self.row(job)) is not None and (found.trees >= trees or found.state.ended) and found,
            seconds,
            what=f"{trees} trees",
        )
        assert row.state is JobState.RUNNING, f"the fault would come too late: {row.state}, {row.trees} trees"
        return row

    def ended(self, job, seconds=30):
        return servers.wait_for(
            lambda: (found := self.row(job)) is not None and found.state.ended and found, seconds, what="the end"
        )

    def check_done(self, job, mining=None, *, name="breast_cancer", digest=None, seconds=30):
        """The end that every job must come to; gives its row."""
        row = self.ended(job, seconds)
        assert (row.state, row.reason) == (JobState.DONE, None)
        assert row.digest == (digest or expected_digest(mining or MINING, name))
        servers.wait_for(lambda: self._shown(job) == (row.state, row.digest), 15, what="the job's record in Redis")
        return row

    def record(self, job):
        text = self.client.get(self.settings.key(f"{names.JOB_RECORD}:{job}"))
        return None if text is None else JobRecord.model_validate_json(text)

    def document(self, job):
        return self.ledger.jobs.document(job)

    def stream(self, job):
        return results_stream(self.settings, job)

    def _shown(self, job):
        record = self.record(job)
        if record is None:  # as a client does: Redis may have been emptied since
            self.ask("look", job)
            return None
        return record.state, record.digest
