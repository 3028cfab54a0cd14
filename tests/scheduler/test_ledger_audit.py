"""The audit log on SQLite and on a real PostgreSQL."""

import pytest
from sqlalchemy import delete, update

from scheduler.ledger.audit import PAGE, AuditEntry, AuditFilter, append_entries
from scheduler.ledger.database import LedgerError
from scheduler.ledger.schema import audit
from scheduler.ledger.tenants import EVERYONE, QuotaError, QuotaRow
from tests.ledgers import a_job, numbers

pytestmark = pytest.mark.xdist_group("ledger")


def entry(number, **changes):
    return AuditEntry(
        **{"time": float(number), "action": "job.submit", "object": f"j{number}", "tenant": "ann"} | changes
    )


def test_entries_are_returned_newest_first_in_pages_and_exported_oldest_first(ledger):
    for number in range(5):
        ledger.audit.add(entry(number, tenant="ann" if number % 2 else "bob", address="192.0.2.1"))

    first = ledger.audit.page(AuditFilter(), limit=3)
    second = ledger.audit.page(AuditFilter(), before=first[-1].number, limit=3)
    assert [row.object for row in [*first, *second]] == ["j4", "j3", "j2", "j1", "j0"]
    assert [row.object for row in ledger.audit.export(AuditFilter(tenant="bob"))] == ["j0", "j2", "j4"]
    assert [row.object for row in ledger.audit.page(AuditFilter(since=1.0, until=3.0))] == ["j2", "j1"]
    assert [row.tenant for row in ledger.audit.page(AuditFilter(object="j3", action="job.submit"))] == ["ann"]


def test_an_export_returns_everything(ledger):
    with ledger.database.write() as connection:
        append_entries(connection, *map(entry, range(2 * PAGE + 1)))

    assert [row.object for row in ledger.audit.export(AuditFilter())] == [
        f"j{number}" for number in range(2 * PAGE + 1)
    ]


@pytest.mark.parametrize("change", [delete(audit), update(audit).values(tenant="bob")], ids=["delete", "update"])
def test_the_database_refuses_to_change_the_log(ledger, change):
    ledger.audit.add(entry(1))

    with pytest.raises(LedgerError, match="maabo_audit is append-only"), ledger.database.write() as connection:
        connection.execute(change)
    assert [row.tenant for row in ledger.audit.page(AuditFilter())] == ["ann"]


def test_a_submission_and_its_entry_are_one_transaction(ledger):
    ledger.quotas.set(QuotaRow("ann", queued=1))
    for number in (1, 1, 2):
        job = a_job(number, tenant="ann", settings={"seed": number})
        try:
            ledger.submissions.submit(job, 1.0, entry=entry(number))
        except QuotaError:
            continue

    assert [row.object for row in ledger.audit.page(AuditFilter())] == ["j1"]  # neither repeated nor refused ones


def test_default_limits_apply_to_tenants_without_limits_of_their_own(ledger):
    ledger.quotas.set(QuotaRow(EVERYONE, queued=1, running=1, bytes=7))
    ledger.quotas.set(QuotaRow("bob", queued=2))

    assert ledger.quotas.get("ann") == QuotaRow("ann", queued=1, running=1, bytes=7)
    assert ledger.quotas.get("bob") == QuotaRow("bob", queued=2)
    jobs = [a_job(number, tenant="ann" if number < 3 else "bob", settings={"seed": number}) for number in range(1, 5)]
    for job in jobs:
        ledger.submissions.submit(job, 1.0)
    with pytest.raises(QuotaError):
        ledger.submissions.submit(a_job(9, tenant="ann", settings={"seed": 9}), 1.0)
    assert sorted(numbers(ledger.leases.acquire("one", 10.0, seconds=5, limit=10))) == [1, 3, 4]
