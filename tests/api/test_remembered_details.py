"""Documents of jobs that a server remembers are those that it would build anew, whatever happened in between."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobSpec, JobState, Obstacle
from scheduler.api import dependencies
from scheduler.api.details import new_details, render_details, render_statuses
from scheduler.ledger.jobs import queued_job
from tests.ledgers import TABLE
from tests.reference.details import slow_details, slow_status

JOBS = [f"{number:032x}" for number in (1, 2)]
OUTAGE = Obstacle(kind="redis", text="Redis cannot be used", remedy="Start Redis.")
FUNNEL = ("leaves", "large", "pure", "distinct", "supported", "certified", "rules")
NUMBERS = st.integers(1, 3)


class History:
    """Things that happen to jobs: through the API, by a scheduler, and in Redis."""

    def __init__(self, api):
        self.api, self.resources, self.ledger = api, api.resources, api.ledger
        self.leases, self.time = {}, 100.0

    def submit(self, job, number):
        table = {"target": "y"} if number == 1 else None
        document = {"id": job, "dataset": {"fingerprint": TABLE, "name": f"table {number}", "settings": table}}
        spec = JobSpec.parse(document | {"settings": {"seed": number}, "correlation": f"request {number}"})
        self.ledger.submissions.submit(spec, self.time, fresh=True)
        return new_details(self.api, queued_job(spec, self.time)).model_dump_json()

    def name(self, job, number):
        self.ledger.jobs.set_labels(job, {"title": f"title {number}", "note": None if number == 1 else "a note"})

    def command(self, job, number):
        self.ledger.jobs.set_command(job, ["run", "pause", "cancel"][number - 1], self.ledger.now)

    def run(self, job, number):
        for lease in self.ledger.leases.acquire(f"scheduler {number}", self.ledger.now, 500.0, limit=2):
            self.leases[lease.job] = lease
        self._write(job, {"state": JobState.RUNNING.value, "planned": 10})

    def grow(self, job, number):
        self._write(job, {"trees": number, "best_score": number / 10, "run_seconds": 6.0 * number})

    def mine(self, job, number):
        self._write(job, {"rules": number})

    def pause(self, job, number):
        self._write(job, {"state": JobState.PAUSED.value})

    def end(self, job, number):
        if job in self.leases:
            document = {"digest": "d" * 64, "rules": number, "document": self._document(number)}
            state = [JobState.DONE, JobState.FAILED, JobState.DONE][number - 1]
            self.ledger.search.end_job(self.leases.pop(job), self.time, state, document)

    def publish(self, job, number):
        record = JobRecord(id=job, state=JobState.RUNNING, trees=number, planned=9, seconds=9.0, rules=number - 1)
        self._set(names.JOB_RECORD, job, record.model_dump_json())

    def publish_document(self, job, number):
        self._set(names.JOB_DOCUMENT, job, self._document(number))

    def damage(self, job, number):
        self._set(names.JOB_RECORD, job, "not a record")

    def expire(self, job, number):
        self.resources.redis.delete(self._key(names.JOB_RECORD, job))

    def break_down(self, job, number):
        lease = self.leases.get(job)
        if lease is not None and number > 1:
            self.ledger.outages.write(lease.owner, OUTAGE, self.ledger.database.steady_clock()())
        elif lease is not None:
            self.ledger.outages.clear(lease.owner)

    def _write(self, job, columns):
        if job in self.leases:
            self.ledger.search.write(self.leases[job], self.time, columns)

    def _document(self, number):
        return json.dumps({"funnel": dict.fromkeys(FUNNEL, number), "rules": []})

    def _key(self, name, job):
        return self.resources.settings.key(f"{name}:{job}")

    def _set(self, name, job, value):
        self.resources.redis.set(self._key(name, job), value)


EVENTS = sorted(name for name in vars(History) if not name.startswith("_") and name != "submit")


@pytest.fixture
def api(app, monkeypatch):
    monkeypatch.setattr(dependencies, "OUTAGE_SECONDS", -1.0)  # outages may be a second old otherwise
    return app.state.api


def check(api):
    rows = api.ledger.jobs.get_many(JOBS)
    assert [json.loads(each) for each in render_details(api, rows)] == [
        slow_details(api.resources, row.id) for row in rows
    ]
    assert [json.loads(each) for each in render_statuses(api, rows)] == [
        slow_status(api.resources, row.id) for row in rows
    ]


def clear(api):
    """Delete everything but what the server remembers."""
    with api.ledger.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM maabo_jobs")
        connection.exec_driver_sql("DELETE FROM maabo_meta WHERE key LIKE 'outage:%'")
    for job in JOBS:
        for name in (names.JOB_RECORD, names.JOB_DOCUMENT):
            api.resources.redis.delete(api.resources.settings.key(f"{name}:{job}"))
    api.funnels.clear()  # of jobs that are done: their ids are never used again


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(NUMBERS, NUMBERS),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(JOBS), NUMBERS), min_size=1, max_size=15),
)
def test_documents_are_those_that_the_ledger_and_redis_have_now(api, submitted, events):
    clear(api)
    history = History(api)
    for job, number in zip(JOBS, submitted, strict=True):
        assert json.loads(history.submit(job, number)) == slow_details(api.resources, job)
    check(api)
    for event, job, number in events:
        getattr(history, event)(job, number)
        check(api)
