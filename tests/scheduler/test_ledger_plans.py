"""Query plans on a large ledger."""

from contextlib import contextmanager

import pytest
from sqlalchemy import event, text

from maabo_dist.contract.job import JobState, Priority
from scheduler.ledger.schema import jobs
from tests.ledgers import (
    CALLBACK,
    a_job,
    connected,
    write_search,
)

pytestmark = pytest.mark.xdist_group("ledger")


@contextmanager
def explain_statements(ledger):
    """Yield a list to which the database's plan of every statement is added."""
    engine, plans = ledger.database.engine, []
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"

    def note(connection, cursor, statement, parameters, context, many):
        if statement.split()[0] in {"SELECT", "UPDATE", "DELETE"}:
            cursor.execute(f"{explain} {statement}", parameters)
            plans.append("\n".join([statement, *(str(row[-1]) for row in cursor.fetchall())]))

    event.listen(engine, "before_cursor_execute", note)
    yield plans
    event.remove(engine, "before_cursor_execute", note)


def copy_job(connection, first, times, **expressions):
    """Copy job 1; the id and time of each copy come from its number n, which has five digits."""
    last = first + times - 1
    counted = f"WITH RECURSIVE counted(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM counted WHERE n < {last})"
    replaced = {"id": f"'{'0' * 27}' || n", "created": "n"} | expressions
    values = ", ".join(replaced.get(column.name, column.name) for column in jobs.columns)
    names = ", ".join(jobs.columns.keys())
    only = f"WHERE id = '{a_job().id}'"
    connection.execute(
        text(f"INSERT INTO maabo_jobs ({names}) {counted} SELECT {values} FROM maabo_jobs, counted {only}")
    )


def test_no_frequent_call_scans_all_jobs(ledger, url):
    ledger.jobs.add([a_job(**CALLBACK)], 1.0)
    with connected(url) as connection:
        copy_job(connection, 10_000, 10_000, state="'queued'")
        copy_job(
            connection, 30_000, 2_000, state="'done'", finished="n", called="CASE WHEN n % 10 = 0 THEN NULL ELSE n END"
        )
        connection.execute(text("ANALYZE"))
    leases = ledger.leases.acquire("one", 20_000.0, seconds=10, limit=50)

    with explain_statements(ledger) as plans:
        (lease,) = ledger.leases.acquire("one", 20_000.0, seconds=10, limit=1)
        assert ledger.leases.acquire("one", 20_000.0, seconds=10, limit=10, min_priority=Priority.HIGH) == []
        ledger.leases.renew(leases, 20_001.0, seconds=10)
        write_search(ledger, lease)
        ledger.jobs.get_many([lease.job])
        ledger.jobs.set_command(leases[0].job, "cancel", 20_002.0)
        ledger.leases.release(leases, 20_002.0)
        ledger.search.end_job(lease, 20_003.0, JobState.DONE)
        ledger.callbacks.record_success(
            [row.id for row in ledger.callbacks.claim(20_004.0, seconds=10, limit=5)], 20_004.0
        )
        ledger.jobs.page("default", after=(15_000.0, "f"), limit=20)
        ledger.submissions.submit(a_job(2), 20_005.0, key="key", body="b" * 64)
        ledger.jobs.purge(before=30_100.0)

    of_jobs = [plan for plan in plans if "maabo_jobs" in plan]
    assert len(of_jobs) > 100
    assert [plan for plan in of_jobs if "Seq Scan on maabo_jobs" in plan or "SCAN maabo_jobs" in plan] == []
    assert [plan for plan in of_jobs if "Sort" in plan or "TEMP B-TREE" in plan] == []
    for index in ("waiting", "held", "callback", "finished"):
        assert any(f"maabo_jobs_{index}" in plan for plan in of_jobs), index
