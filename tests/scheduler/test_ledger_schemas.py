"""Ledgers are created, and ledgers of older schema versions migrated, by the first process to open them."""

import pytest
from sqlalchemy import text

from maabo_dist.contract.job import JobState
from maabo_dist.contract.passes import PassPlan
from maabo_dist.errors import SettingsError
from scheduler.ledger import Ledger, schema
from scheduler.ledger.database import LedgerError
from scheduler.ledger.search import ShufflePlanRow, ShuffleRow
from tests.ledgers import (
    CALLBACK,
    a_job,
    call_concurrently,
    connected,
    contents,
    held,
    opened,
    rows_of_search,
    write_search,
)

pytestmark = pytest.mark.xdist_group("ledger")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """URL of a database without tables."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres_url")


@pytest.mark.parametrize("attempt", range(5))
def test_schedulers_that_start_concurrently_on_an_empty_database_all_succeed(url, attempt):
    def start():
        with opened(url) as ledger:
            ledger.jobs.add([a_job(1)], 1.0)
            return ledger.jobs.count_by_state()

    assert call_concurrently(*[start] * 4) == [{"queued": 1}] * 4


@pytest.fixture
def a_later_version(monkeypatch):
    """A fictitious next schema version, in which jobs have one more column; returns a list of the migration runs."""
    runs = []

    def migrate(connection):
        runs.append(1)
        connection.execute(text("ALTER TABLE maabo_jobs ADD COLUMN colour VARCHAR(8) DEFAULT 'blue'"))

    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS | {schema.VERSION: migrate})
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    return runs


SINCE_VERSION_1 = (
    "maabo_shuffles",
    "maabo_shuffle_plans",
    "maabo_prepared_columns",
    "maabo_passes",
    "maabo_pass_blocks",
)


def make_version_1(url):
    """A ledger of version 1, without shuffled searches and labels of jobs, with a running and a finished job."""
    with opened(url) as ledger:
        ledger.search.end_job(held(ledger, 2, **CALLBACK), 101.0, JobState.DONE)
        write_search(ledger, held(ledger))
    with connected(url) as connection:
        for table in SINCE_VERSION_1:
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP INDEX maabo_jobs_of_dataset"))
        for column in ("title", "note"):
            connection.execute(text(f"ALTER TABLE maabo_jobs DROP COLUMN {column}"))
        connection.execute(text("UPDATE maabo_meta SET value = '1' WHERE key = 'schema'"))


def test_a_ledger_of_version_1_gets_room_for_searches_on_shuffled_labels(url):
    make_version_1(url)

    with opened(url) as ledger:
        (lease,) = ledger.leases.acquire("two", 1000.0, seconds=10, limit=9)
        ledger.shuffles.write_plan(lease, 1001.0, ShufflePlanRow(24, -7.5), [ShuffleRow(0, 24)])
        assert ledger.shuffles.plan(lease.job) == ShufflePlanRow(24, -7.5)
        assert ledger.shuffles.rows(lease.job) == [ShuffleRow(0, 24)]


def test_an_older_ledger_gets_room_for_passes_over_rows(url):
    make_version_1(url)
    plan = PassPlan(kind="draw", request="a" * 64, blocks=((0, 1, 500), (1, 2, 300)))

    with opened(url) as ledger:
        (lease,) = ledger.leases.acquire("two", 1000.0, seconds=10, limit=9)
        ledger.passes.begin(lease, 1001.0, 0, plan)
        assert [block.size for block in ledger.passes.blocks(lease.job, 0)] == [500, 300]
        ledger.passes.complete(lease, 1002.0, 0, "b" * 64, ["cells/c"], PassPlan(kind="plan", blocks=((0, 1, 800),)))
        assert [(row.plan.kind, row.results) for row in ledger.passes.rows(lease.job)] == [
            ("draw", "b" * 64),
            ("plan", None),
        ]
        assert ledger.passes.blocks(lease.job, 0) == []
        assert {f"results/{'b' * 64}", f"passes/{'a' * 64}", "cells/c"} <= ledger.artifacts()
        ledger.search.end_job(lease, 1003.0, JobState.CANCELLED)
        assert ledger.passes.rows(lease.job) == ledger.passes.blocks(lease.job, 1) == []


def test_the_jobs_of_an_older_ledger_can_be_named(url):
    make_version_1(url)

    with opened(url) as ledger:
        job = a_job(2).id
        assert (ledger.jobs.get(job).title, ledger.jobs.get(job).note) == (None, None)
        ledger.jobs.set_labels(job, {"title": "Spring"})
        ledger.jobs.set_labels(job, {"note": "without prices"})
        assert (ledger.jobs.get(job).title, ledger.jobs.get(job).note) == ("Spring", "without prices")
        ledger.jobs.set_labels(job, {"title": None})
        assert (ledger.jobs.get(job).title, ledger.jobs.get(job).note) == (None, "without prices")


def test_a_ledger_of_an_older_version_is_migrated_with_its_jobs(url, a_later_version):
    make_version_1(url)

    with opened(url) as ledger:
        assert [row.id for row in ledger.callbacks.claim(1000.0, seconds=10)] == [a_job(2).id]
        (lease,) = ledger.leases.acquire("two", 1000.0, seconds=10, limit=9)
        assert len(rows_of_search(ledger, lease.job)) == 4
        ledger.search.end_job(lease, 1002.0, JobState.DONE)
    with connected(url) as connection:
        assert connection.execute(text("SELECT DISTINCT colour FROM maabo_jobs")).scalars().all() == ["blue"]
    assert contents(url)["maabo_meta"] == [f"('schema', '{schema.VERSION}')"]
    assert a_later_version == [1]


def test_schedulers_that_start_concurrently_on_an_old_ledger_migrate_it_once(url, a_later_version):
    make_version_1(url)

    def start():
        with opened(url) as ledger:
            return ledger.jobs.count_by_state()

    assert call_concurrently(*[start] * 4) == [{"running": 1, "done": 1}] * 4
    assert a_later_version == [1]


def test_a_migration_that_fails_leaves_the_ledger_as_it_is(url, a_later_version, monkeypatch):
    def migrate(connection):
        connection.execute(text("ALTER TABLE maabo_jobs ADD COLUMN colour VARCHAR(8)"))
        connection.execute(text("SELECT 1 FROM nowhere"))

    Ledger(url).close()
    with connected(url) as connection:
        connection.execute(text(f"UPDATE maabo_meta SET value = '{schema.VERSION - 1}' WHERE key = 'schema'"))
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.VERSION - 1: migrate})
    before = contents(url)

    with pytest.raises(LedgerError, match="nowhere"):
        Ledger(url)

    assert contents(url) == before


def test_a_ledger_of_a_newer_schema_is_refused_and_left_as_it_is(url):
    Ledger(url).close()
    with connected(url) as connection:
        connection.execute(text("UPDATE maabo_meta SET value = '99' WHERE key = 'schema'"))
    before = contents(url)

    with pytest.raises(SettingsError, match=f"schema version 99; this scheduler knows {schema.VERSION}. Use a newer"):
        Ledger(url)

    assert contents(url) == before
