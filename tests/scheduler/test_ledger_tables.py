"""The tables of tenants, on SQLite and on a real PostgreSQL."""

from functools import partial

import pytest

from maabo_dist.contract.job import JobState
from scheduler.ledger import tenants
from scheduler.ledger.tenants import Datasets, QuotaError, QuotaRow
from tests.ledgers import TABLE, call_concurrently, opened
from tests.scheduler.tenant_rows import a_job, a_table, end

pytestmark = pytest.mark.xdist_group("ledger")


def test_a_table_is_returned_only_to_its_tenant(ledger):
    ledger.datasets.add(a_table())

    assert ledger.datasets.get("ann", "t1") == ledger.datasets.get(None, "t1") == a_table()
    assert (ledger.datasets.get("bob", "t1"), ledger.datasets.get("ann", "t2")) == (None, None)
    assert (ledger.datasets.page("bob"), ledger.datasets.delete("bob", "t1")) == ([], False)
    assert ledger.datasets.delete("ann", "t1")
    assert (ledger.datasets.get("ann", "t1"), ledger.datasets.delete("ann", "t1")) == (None, False)


def test_tables_are_listed_in_pages_even_if_some_are_deleted_in_between(ledger):
    for number in range(1, 8):
        ledger.datasets.add(a_table(number, "bob" if number == 4 else "ann"))

    first = ledger.datasets.page("ann", limit=3)
    ledger.datasets.delete("ann", first[-1].id)
    second = ledger.datasets.page("ann", after=first[-1].id, limit=3)

    assert [row.id for row in [*first, *second]] == ["t1", "t2", "t3", "t5", "t6", "t7"]
    assert [row.id for row in ledger.datasets.page(None, after="t2", limit=2)] == ["t4", "t5"]


def test_a_table_that_was_read_lately_is_gone_as_soon_as_it_is_deleted_here(ledger):
    for number in (1, 2):
        ledger.datasets.add(a_table(number))
    assert ledger.datasets.get_many(["t1"]).keys() == {"t1"}
    assert ledger.datasets.get_many(["t1", "t2", "t3"]).keys() == {"t1", "t2"}

    ledger.datasets.delete("ann", "t1")

    assert ledger.datasets.get_many(["t1", "t2"]).keys() == {"t2"}


def test_a_table_that_another_process_deletes_is_gone_within_a_second(ledger, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(tenants, "monotonic", lambda: now[0])
    ledger.datasets.add(a_table(1))
    assert ledger.datasets.get_many(["t1"])

    Datasets(ledger.database).delete("ann", "t1")
    now[0] += tenants.RECENT_SECONDS

    assert ledger.datasets.get_many(["t1"]) == {}


def test_the_store_keeps_tables_that_a_tenant_has(ledger):
    ledger.datasets.add(a_table(1))
    ledger.datasets.add(a_table(2, digest=a_table(1).digest))
    ledger.datasets.delete("ann", "t1")

    assert ledger.artifacts() == {f"tables/{a_table(1).digest}"}


def test_a_tenant_stores_the_same_table_once(ledger):
    first = ledger.datasets.find_or_add(a_table(1))
    again = ledger.datasets.find_or_add(a_table(2, digest=a_table(1).digest, name="another"))
    theirs = ledger.datasets.find_or_add(a_table(3, "bob", digest=a_table(1).digest))

    assert first == again == ledger.datasets.find_by_digest("ann", a_table(1).digest) == a_table(1)
    assert theirs.id == "t3"
    assert ledger.datasets.find_by_digest("ann", a_table(9).digest) is None


def test_a_file_is_removed_when_no_row_names_it(ledger):
    removed, digest = [], a_table(1).digest
    ledger.datasets.find_or_add(a_table(1))
    ledger.datasets.find_or_add(a_table(2, "bob", digest=digest))

    ledger.datasets.delete("ann", "t1")
    assert not ledger.datasets.remove_unused_file(digest, lambda: removed.append("too early"))
    ledger.datasets.delete("bob", "t2")
    assert ledger.datasets.remove_unused_file(digest, lambda: removed.append(digest))
    assert removed == [digest]


def test_a_list_of_tables_omits_their_descriptions(ledger):
    ledger.datasets.add(a_table(1))

    assert ledger.datasets.page("ann") == [a_table(1, description={})]


def test_tables_beyond_the_quota_are_refused(ledger):
    ledger.quotas.set(QuotaRow("ann", bytes=25))
    ledger.datasets.add(a_table(1))
    ledger.datasets.add(a_table(2))
    ledger.datasets.add(a_table(9, "bob"))

    with pytest.raises(QuotaError) as caught:
        ledger.datasets.add(a_table(3))

    assert (caught.value.what, caught.value.limit, caught.value.number) == ("bytes", 25, 30)
    assert (ledger.datasets.bytes_stored("ann"), ledger.datasets.bytes_stored("zoe")) == (20, 0)
    ledger.datasets.delete("ann", "t1")
    ledger.datasets.add(a_table(3))


def test_columns_prepared_from_a_table_count_until_it_is_deleted(ledger):
    ledger.quotas.set(QuotaRow("ann", bytes=100))
    table = a_table(1)
    ledger.datasets.add(table)

    assert ledger.datasets.add_columns(table, TABLE, 60)
    assert ledger.datasets.add_columns(table, TABLE, 60)  # known already
    assert ledger.datasets.bytes_stored("ann") == 70
    with pytest.raises(QuotaError):
        ledger.datasets.add_columns(table, "c" * 64, 31)
    with pytest.raises(QuotaError):
        ledger.datasets.add(a_table(2, size=31))
    assert ledger.datasets.columns_of("t1") == [TABLE]
    assert f"columns/{TABLE}" in ledger.artifacts()
    ledger.datasets.delete("ann", "t1")
    assert (ledger.datasets.bytes_stored("ann"), ledger.datasets.columns_of("t1")) == (0, [])
    assert ledger.artifacts() == set()
    assert not ledger.datasets.add_columns(table, TABLE, 60)


def test_columns_are_removed_when_neither_a_table_nor_a_running_job_names_them(ledger):
    removed = []
    for number, tenant in ((1, "ann"), (2, "bob")):
        ledger.datasets.add(a_table(number, tenant))
        ledger.datasets.add_columns(a_table(number, tenant), TABLE, 60)
    job = ledger.submissions.submit(a_job(dataset_id="t1"), 1.0).job

    def removable():
        return ledger.datasets.remove_unused_columns(TABLE, lambda: removed.append(TABLE))

    ledger.datasets.delete("ann", "t1")
    assert not removable()  # bob's table and ann's job
    ledger.datasets.delete("bob", "t2")
    assert not removable()  # ann's job
    assert f"columns/{TABLE}" in ledger.artifacts()
    end(ledger, job)
    assert f"columns/{TABLE}" not in ledger.artifacts()
    assert removable()
    assert removed == [TABLE]


def test_columns_that_no_job_uses_any_more_do_not_count(ledger):
    ledger.datasets.add(a_table(1))
    ledger.datasets.add_columns(a_table(1), TABLE, 60)
    ids = [ledger.submissions.submit(a_job(dataset_id="t1", seed=seed), 1.0).job for seed in (1, 2)]
    end_all = {lease.job: lease for lease in ledger.leases.acquire("one", 10.0, seconds=1, limit=100)}
    for job in ids:
        ledger.search.end_job(end_all[job], 10.0, JobState.DONE)

    ledger.jobs.delete("ann", ids[0])
    assert ledger.datasets.bytes_stored("ann") == 70
    ledger.jobs.delete("ann", ids[1])
    assert ledger.datasets.bytes_stored("ann") == 10


def test_concurrent_uploads_do_not_exceed_the_quota(ledger, url):
    ledger.quotas.set(QuotaRow("ann", bytes=35))

    def upload(number):
        with opened(url) as own_ledger:
            try:
                own_ledger.datasets.add(a_table(number))
            except QuotaError:
                return 0
            return 1

    assert sum(call_concurrently(*[partial(upload, number) for number in range(1, 7)])) == 3
    assert ledger.datasets.bytes_stored("ann") == 30
