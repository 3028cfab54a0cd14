"""Ledgers of all versions are made and brought up to date, by whoever comes first."""

import pytest
from sqlalchemy import text

from maabo_dist.contract.job import JobState
from maabo_dist.errors import SettingsError
from scheduler.ledger.ledger import BlockRow, Ledger
from tests.ledgers import (
    CALLBACK,
    TABLE,
    TABLES,
    a_job,
    connected,
    contents,
    held,
    numbers,
    opened,
    rows_of_search,
    side_by_side,
    with_search,
)

pytestmark = pytest.mark.xdist_group("ledger")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """Of a database in which there is nothing."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres_url")


@pytest.mark.parametrize("attempt", range(5))
def test_schedulers_that_start_at_once_on_an_empty_database_all_begin(url, attempt):
    def start():
        with opened(url) as ledger:
            ledger.add([a_job(1)], 1.0)
            return ledger.counts()

    assert side_by_side(*[start] * 4) == [{"queued": 1}] * 4


VERSION_1 = """
CREATE TABLE maabo_meta ("key" VARCHAR(40) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE maabo_jobs (
    id VARCHAR(32) NOT NULL, tenant VARCHAR(200) NOT NULL, priority VARCHAR(10) NOT NULL, state VARCHAR(12) NOT NULL,
    wanted VARCHAR(8) NOT NULL, spec TEXT NOT NULL, created FLOAT NOT NULL, started FLOAT, finished FLOAT,
    updated FLOAT NOT NULL, trees BIGINT NOT NULL, planned BIGINT, best_score FLOAT, reason TEXT, digest VARCHAR(64),
    document TEXT, owner VARCHAR(80), fence BIGINT NOT NULL, lease_until FLOAT NOT NULL, PRIMARY KEY (id)
);
CREATE INDEX maabo_jobs_created ON maabo_jobs (created);
CREATE INDEX maabo_jobs_open ON maabo_jobs (state, lease_until);
CREATE TABLE maabo_batches (
    job VARCHAR(32) NOT NULL, number INTEGER NOT NULL, subsets {binary} NOT NULL, PRIMARY KEY (job, number)
);
CREATE TABLE maabo_tasks (
    job VARCHAR(32) NOT NULL, batch INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    attempt INTEGER NOT NULL, issued FLOAT NOT NULL, PRIMARY KEY (job, batch, start, stop)
);
CREATE TABLE maabo_results (
    job VARCHAR(32) NOT NULL, batch INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    seconds FLOAT NOT NULL, trees {binary} NOT NULL, reason TEXT, PRIMARY KEY (job, batch, start)
);
INSERT INTO maabo_meta VALUES ('schema', '1');
"""


def make_version_1(url):
    """With a queued job of each priority and one that is done."""
    rows = [(1, "low", "queued"), (2, "normal", "queued"), (3, "high", "queued"), (4, "normal", "done")]
    with connected(url) as connection:
        binary = "BLOB" if connection.dialect.name == "sqlite" else "BYTEA"
        for statement in filter(str.strip, VERSION_1.format(binary=binary).split(";")):
            connection.execute(text(statement))
        for number, priority, state in rows:
            spec = f'{{"version":1,"id":"{number:032x}","dataset":{{"fingerprint":"{TABLE}","name":"table"}}}}'
            values = {"id": f"{number:032x}", "priority": priority, "state": state, "spec": spec}
            done = {"finished": 9.0, "digest": "d" * 64, "document": "{}"} if state == "done" else {}
            values |= {"tenant": "default", "wanted": "run", "created": 1.0, "updated": 2.0, "trees": 7} | done
            values |= {"fence": 2, "lease_until": 0.0}
            listed = ", ".join(values), ", ".join(f":{name}" for name in values)
            connection.execute(text("INSERT INTO maabo_jobs ({}) VALUES ({})".format(*listed)), values)


def test_a_ledger_of_version_1_is_brought_up_to_date_with_its_jobs(url):
    make_version_1(url)

    with opened(url) as ledger:
        done = ledger.job(a_job(4).id)
        assert (done.state, done.finished, done.trees, done.digest) == (JobState.DONE, 9.0, 7, "d" * 64)
        assert (done.ran, done.failed, done.segments, done.stop_after, done.rules) == (0.0, 0, (), None, None)
        assert (ledger.document(done.id), ledger.claim_calls(99.0, seconds=10)) == ("{}", [])
        leases = ledger.acquire("one", 100.0, seconds=10, most=9)
        assert numbers(leases) == [3, 2, 1]
        with_search(ledger, leases[0])
        ledger.end(leases[0], 102.0, JobState.DONE)
        assert ledger.purge(before=10.0) == [done.id]


def make_version_2(url):
    """As the version before screens left it, with a job under way."""
    with opened(url) as ledger:
        with_search(ledger, held(ledger))
    with connected(url) as connection:
        for name in ("maabo_screen_blocks", "maabo_screens"):
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text("UPDATE maabo_meta SET value = '2' WHERE key = 'schema'"))


def test_a_ledger_of_version_2_is_brought_up_to_date_with_its_jobs(url):
    make_version_2(url)

    with opened(url) as ledger:
        (lease,) = ledger.acquire("two", 1000.0, seconds=10, most=9)
        assert len(rows_of_search(ledger, lease.job)) == 4
        assert (ledger.blocks(lease.job), ledger.screen(lease.job)) == ([], None)
        ledger.write_blocks(lease, 1001.0, [BlockRow(0, 5, 0)])
        ledger.write_screen(lease, 1002.0, b"screen")
        assert ledger.screen(lease.job) == b"screen"
        assert contents(url)["maabo_meta"] == ["('schema', '4')"]


def make_version_3(url):
    """As the version before tenants left it, with a job under way and one whose callback is due."""
    with opened(url) as ledger:
        ledger.end(held(ledger, 2, **CALLBACK), 101.0, JobState.DONE)
        with_search(ledger, held(ledger))
    with connected(url) as connection:
        for name in ("maabo_datasets", "maabo_tokens", "maabo_quotas", "maabo_idempotency_keys"):
            connection.execute(text(f"DROP TABLE {name}"))
        for name in ("waiting", "held", "to_call", "newest", "of_tenant", "same"):
            connection.execute(text(f"DROP INDEX maabo_jobs_{name}"))
        for name in ("calls", "call_next", "same", "dataset", "correlation"):
            connection.execute(text(f"ALTER TABLE maabo_jobs DROP COLUMN {name}"))
        where = "finished IS NOT NULL AND called IS NULL"
        connection.execute(text(f"CREATE INDEX maabo_jobs_uncalled ON maabo_jobs (finished) WHERE {where}"))
        connection.execute(text("CREATE INDEX maabo_jobs_next ON maabo_jobs (rank, created, id)"))
        connection.execute(text("UPDATE maabo_meta SET value = '3' WHERE key = 'schema'"))


def test_a_ledger_of_version_3_is_brought_up_to_date_with_its_jobs(url):
    make_version_3(url)

    with opened(url) as ledger:
        assert [row.id for row in ledger.claim_calls(1000.0, seconds=10)] == [a_job(2).id]
        (lease,) = ledger.acquire("two", 1000.0, seconds=10, most=9)
        assert len(rows_of_search(ledger, lease.job)) == 4
        assert [row.id for row in ledger.registry.list_jobs("default")] == [a_job(2).id, a_job(1).id]
        assert ledger.registry.submit(a_job(3), 1001.0).created
        assert not ledger.registry.any_token()


@pytest.mark.parametrize("make_old", [make_version_1, make_version_2, make_version_3])
def test_schedulers_that_start_at_once_on_an_old_ledger_migrate_it_once(url, make_old):
    make_old(url)
    known = {make_version_1: {"queued": 3, "done": 1}, make_version_2: {"running": 1}}
    jobs = known.get(make_old, {"running": 1, "done": 1})

    def start():
        with opened(url) as ledger:
            return ledger.counts()

    assert side_by_side(*[start] * 4) == [jobs] * 4


@pytest.mark.parametrize("make_old", [make_version_1, make_version_3])
def test_a_migrated_ledger_has_the_columns_and_indexes_of_a_new_one(url, make_old):
    def shape(ledger):
        with ledger._database.read() as connection:
            if connection.dialect.name == "sqlite":
                columns = "SELECT name, '' FROM pragma_table_info('maabo_jobs')"
                indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            else:
                columns = (
                    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'maabo_jobs'"
                )
                indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
            return [sorted(map(tuple, connection.execute(text(query)))) for query in (columns, indexes)]

    with opened(url) as ledger:
        fresh = shape(ledger)
    with connected(url) as connection:
        for name in TABLES:
            connection.execute(text(f"DROP TABLE {name}"))
    make_old(url)

    with opened(url) as ledger:
        assert shape(ledger) == fresh


def test_a_ledger_of_a_newer_schema_is_refused_and_left_as_it_is(url):
    Ledger(url).close()
    with connected(url) as connection:
        connection.execute(text("UPDATE maabo_meta SET value = '99' WHERE key = 'schema'"))
    before = contents(url)

    with pytest.raises(SettingsError, match=r"schema version 99; this scheduler knows 4\. Use a newer"):
        Ledger(url)

    assert contents(url) == before
