"""Tenants on SQLite and on a real PostgreSQL: tables, tokens, quotas, idempotent jobs."""

from collections import Counter
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.problem import problem_of
from scheduler.ledger import Ledger
from scheduler.ledger.database import DuplicateError
from scheduler.ledger.submissions import KeyReusedError, Submission, SubmissionRequest
from scheduler.ledger.tenants import DatasetRow, QuotaError, QuotaRow, TokenRow, make_token
from tests.ledgers import TABLE, call_concurrently, opened

pytestmark = pytest.mark.xdist_group("ledger")

BODY, OTHER_BODY = "a" * 64, "b" * 64


def a_job(tenant="ann", seed=1, job=None, **changes):
    document = {"id": job or uuid4().hex, "tenant": tenant, "dataset": {"fingerprint": TABLE}}
    return JobSpec.parse(document | {"settings": {"seed": seed}} | changes)


def a_table(number=1, tenant="ann", **changes):
    row = DatasetRow(f"t{number}", tenant, "表", f"{number:064x}", "csv", 10, 3, 2, {"columns": ["a", "ß"]}, 1.5)
    return replace(row, **changes)


def a_token(number=1, tenant="ann", **changes):
    row = TokenRow(f"k{number}", tenant, "laptop", f"{number:064x}", frozenset({"read", "submit"}), 1.0, None, None)
    return replace(row, **changes)


def end(ledger, job, state=JobState.DONE, now=1000.0):
    leases = {lease.job: lease for lease in ledger.leases.acquire("one", now, seconds=1, limit=100)}
    ledger.search.end_job(leases[job], now, state)


# Tables.


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


# Tokens.


def test_a_token_is_found_by_its_text_even_when_it_is_revoked(ledger):
    assert not ledger.tokens.any_exist()
    token = make_token("ann", frozenset({"read", "submit"}), 1.0, name="laptop", seconds=None)
    ledger.tokens.add(token.row)
    ledger.tokens.add(a_token(2, "bob", expires=50.0, scopes=frozenset()))

    assert ledger.tokens.any_exist()
    assert ledger.tokens.find(token.text) == ledger.tokens.find(f" {token.text}\n") == token.row
    assert token.text not in str(token.row)
    assert [ledger.tokens.find(text) for text in ("", "f" * 64, token.row.hash, f"{token.text[:-1]}!")] == [None] * 4
    assert ledger.tokens.find(make_token("ann", token.row.scopes, 1.0, name="", seconds=None).text) is None
    assert ledger.tokens.of_tenant("bob") == [a_token(2, "bob", expires=50.0, scopes=frozenset())]
    assert {row.id for row in ledger.tokens.of_tenant(None)} == {token.row.id, "k2"}
    assert [ledger.tokens.revoke(token.row.id, now, "bob") for now in (6.0,)] == [False]
    assert [ledger.tokens.revoke(token.row.id, now) for now in (7.0, 8.0)] == [True, False]
    revoked = ledger.tokens.find(token.text)
    assert (revoked.revoked, revoked.is_valid(6.5), token.row.is_valid(1e9)) == (7.0, False, True)
    assert ledger.tokens.any_exist()


def test_two_tokens_cannot_have_the_same_hash(ledger):
    ledger.tokens.add(a_token())

    with pytest.raises(DuplicateError):
        ledger.tokens.add(a_token(2, hash=a_token().hash))


# Quotas.


def test_a_quota_replaces_the_one_before(ledger):
    assert ledger.quotas.get("ann") == QuotaRow("ann")
    ledger.quotas.set(QuotaRow("ann", queued=1, trees=5))
    ledger.quotas.set(QuotaRow("ann", running=2, bytes=2**40))

    assert ledger.quotas.get("ann") == QuotaRow("ann", running=2, bytes=2**40)
    assert ledger.quotas.get("bob") == QuotaRow("bob")


@pytest.mark.parametrize(("queued", "running", "limit"), [(2, None, 2), (2, 1, 3), (0, 2, 2), (None, 1, 9)])
def test_jobs_beyond_the_quota_are_refused(ledger, queued, running, limit):
    ledger.quotas.set(QuotaRow("ann", queued=queued, running=running))
    for seed in range(limit):
        ledger.submissions.submit(a_job(seed=seed), 1.0)

    ledger.submissions.submit(a_job(seed=0), 2.0)  # the same work as an earlier job
    ledger.submissions.submit(a_job("bob"), 2.0)
    if queued is not None:
        with pytest.raises(QuotaError) as caught:
            ledger.submissions.submit(a_job(seed=99), 2.0, key="late", body=BODY)
        assert (problem_of(caught.value).status, caught.value.limit) == (429, limit)
    assert len(ledger.jobs.page("ann")) == limit


def test_ended_jobs_do_not_count_towards_the_quota(ledger):
    ledger.quotas.set(QuotaRow("ann", queued=1))
    first = ledger.submissions.submit(a_job(seed=1), 1.0).job
    end(ledger, first)

    assert ledger.submissions.submit(a_job(seed=2), 2.0).created


def test_more_trees_than_the_quota_allows_are_refused(ledger):
    ledger.quotas.set(QuotaRow("ann", trees=100))

    with pytest.raises(QuotaError, match="100 trees in a job"):
        ledger.submissions.submit(a_job(), 1.0, trees=101)

    assert ledger.submissions.submit(a_job(), 1.0, trees=100).created


def test_a_tenant_runs_as_many_jobs_as_its_quota_allows(ledger):
    ledger.quotas.set(QuotaRow("ann", running=2))
    for seed in range(5):
        ledger.submissions.submit(a_job(seed=seed), 1.0)

    first = ledger.leases.acquire("one", 10.0, seconds=10, limit=9)
    assert (len(first), ledger.leases.acquire("two", 11.0, seconds=10, limit=9)) == (2, [])
    ledger.search.end_job(first[0], 12.0, JobState.DONE)
    assert len(ledger.leases.acquire("two", 13.0, seconds=10, limit=9)) == 1
    ledger.quotas.set(QuotaRow("ann", running=0))
    assert ledger.leases.acquire("two", 14.0, seconds=10, limit=9, idle_tenants_only=True) == []


# Jobs.


def test_the_same_key_and_body_are_the_same_job(ledger):
    first = ledger.submissions.submit(a_job(seed=1), 1.0, key="order 7", body=BODY)
    again = ledger.submissions.submit(a_job(seed=2), 2.0, key="order 7", body=BODY, fresh=True)
    others = ledger.submissions.submit(a_job("bob", seed=1), 3.0, key="order 7", body=OTHER_BODY)

    assert (first.created, again.created, again.job) == (True, False, first.job)
    assert (others.created, others.job != first.job) == (True, True)
    with pytest.raises(KeyReusedError, match=first.job) as caught:
        ledger.submissions.submit(a_job(seed=1), 4.0, key="order 7", body=OTHER_BODY)
    problem = problem_of(caught.value)
    assert (problem.status, problem.type, problem.field) == (
        409,
        "https://maabo.dev/problems/key-reused",
        "Idempotency-Key",
    )
    assert len(ledger.jobs.page("ann")) == 1


@pytest.mark.parametrize(
    ("state", "reused"), [(None, True), (JobState.DONE, True), (JobState.FAILED, False), (JobState.CANCELLED, False)]
)
def test_an_equal_job_is_reused_unless_it_failed_or_was_cancelled(ledger, state, reused):
    first = ledger.submissions.submit(a_job(), 1.0).job
    if state is not None:
        end(ledger, first, state)

    again = ledger.submissions.submit(a_job(priority="high", correlation="again"), 2.0, key="k", body=BODY)

    assert (again.job == first, again.created) == (reused, not reused)
    assert ledger.submissions.submit(a_job("bob"), 3.0).created
    assert ledger.submissions.submit(a_job(seed=2), 3.0).created
    assert ledger.submissions.submit(a_job(), 4.0, fresh=True).created
    assert ledger.submissions.submit(a_job(seed=9), 5.0, key="k", body=BODY).job == again.job


def test_a_job_that_is_about_to_be_cancelled_is_not_reused(ledger):
    first = ledger.submissions.submit(a_job(), 1.0).job
    ledger.leases.acquire("one", 2.0, seconds=10, limit=1)
    ledger.jobs.set_command(first, "cancel", 3.0)

    assert ledger.submissions.submit(a_job(), 4.0).created


def test_a_job_from_the_queue_is_also_reused(ledger):
    ledger.jobs.add([spec := a_job()], 1.0)

    assert ledger.submissions.submit(a_job(), 2.0).job == spec.id


def test_the_same_id_is_the_same_job_and_never_another_tenant_s(ledger):
    spec = a_job()
    assert ledger.submissions.submit(spec, 1.0).created
    assert not ledger.submissions.submit(spec, 2.0, fresh=True).created
    with pytest.raises(DuplicateError):
        ledger.submissions.submit(a_job("bob", job=spec.id), 3.0)


def test_jobs_are_listed_newest_first_in_pages(ledger):
    ids = [
        ledger.submissions.submit(a_job(seed=seed, dataset_id=f"d{seed % 2}"), float(seed // 2)).job
        for seed in range(7)
    ]
    others = ledger.submissions.submit(a_job("bob"), 9.0).job
    end(ledger, ids[3])

    pages, after = [], None
    while page := ledger.jobs.page("ann", after=after, limit=2):
        pages.append(page)
        after = page[-1].created, page[-1].id
    rows = [row for page in pages for row in page]

    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert sorted(row.id for row in rows) == sorted(ids)
    assert [row.created for row in rows] == sorted((row.created for row in rows), reverse=True)
    assert [row.id for row in ledger.jobs.page("ann", state=JobState.DONE)] == [ids[3]]
    assert {row.id for row in ledger.jobs.page("ann", dataset="d1")} == set(ids[1::2])
    assert ledger.jobs.page(None, limit=1)[0].id == others
    assert (ledger.jobs.get(ids[0], tenant="bob"), ledger.jobs.get(ids[0], tenant="ann").id) == (None, ids[0])


def test_requests_of_one_transaction_are_decided_in_order_as_if_each_had_its_own(ledger):
    ledger.quotas.set(QuotaRow("ann", queued=2))
    jobs = [a_job(seed=seed) for seed in (1, 1, 2, 3, 1)]
    requests = [
        SubmissionRequest(jobs[0], 1.0, key="k", body=BODY),
        SubmissionRequest(jobs[1], 1.0),  # equal work
        SubmissionRequest(a_job(seed=9), 1.0, key="k", body=OTHER_BODY),
        SubmissionRequest(jobs[2], 1.0, key="k2", body=BODY),
        SubmissionRequest(jobs[3], 1.0, key="k3", body=BODY),  # one too many
        SubmissionRequest(a_job("bob", seed=1), 1.0, key="k", body=OTHER_BODY),
        SubmissionRequest(a_job(seed=8), 1.0, key="k2", body=BODY),  # the same key and body
    ]

    first, equal, reused, second, refused, other, again = ledger.submissions.submit_many(requests)

    assert (first, equal) == (Submission(jobs[0].id, created=True), Submission(jobs[0].id, created=False))
    assert isinstance(reused, KeyReusedError)
    assert (second, again) == (Submission(jobs[2].id, created=True), Submission(jobs[2].id, created=False))
    assert isinstance(refused, QuotaError)
    assert other.created
    assert {row.id for row in ledger.jobs.page(None)} == {jobs[0].id, jobs[2].id, other.job}
    assert ledger.submissions.find_by_key("ann", "k3", BODY) is None
    repeated = ledger.submissions.submit_many(requests[:2])
    assert repeated == [Submission(jobs[0].id, created=False)] * 2


def test_a_job_that_has_ended_can_be_deleted_by_its_tenant(ledger):
    job = ledger.submissions.submit(a_job(), 1.0, key="k", body=BODY).job

    assert not ledger.jobs.delete("ann", job)
    end(ledger, job)
    assert [ledger.jobs.delete(tenant, job) for tenant in ("bob", "ann", "ann")] == [False, True, False]
    assert (ledger.jobs.get(job), ledger.artifacts()) == (None, set())
    assert ledger.submissions.submit(a_job(), 2.0, key="k", body=OTHER_BODY).created


def test_the_keys_of_a_purged_job_are_deleted(ledger):
    end(ledger, ledger.submissions.submit(a_job(), 1.0, key="k", body=BODY).job)
    ledger.jobs.purge(before=5000.0)

    assert ledger.submissions.submit(a_job(), 2.0, key="k", body=OTHER_BODY).created


def test_a_secret_is_returned_only_by_the_ledger(ledger):
    spec = a_job(callback={"url": "https://other.example/hook", "secret": "hush-hush"})
    row = ledger.jobs.get(ledger.submissions.submit(spec, 1.0).job, tenant="ann")

    assert row.spec.callback.secret == "hush-hush"
    assert "hush" not in repr(row) + row.spec.model_dump_json()


# Concurrent submissions.


@given(
    orders=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([None, "k1", "k2"]), st.integers(1, 2), st.booleans()),
        min_size=2,
        max_size=8,
    )
)
@settings(max_examples=8)
def test_concurrent_submissions_create_one_job_for_each_key_and_work(tmp_path_factory, orders):
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db"
    check_orders(url, orders)


def test_schedulers_and_servers_on_one_postgresql_submit_each_job_once(postgres_url):
    orders = [("a", "k1", 1, False), ("a", "k1", 2, False), ("a", None, 1, False), ("b", "k1", 1, False)] * 3
    check_orders(postgres_url, orders)


def check_orders(url, orders):
    def submit(tenant, key, seed, fresh):
        with opened(url) as own_ledger:
            spec = a_job(tenant, seed)
            try:
                return own_ledger.submissions.submit(spec, 1.0, key=key, body=str(seed) * 64, fresh=fresh)
            except KeyReusedError as error:
                return error

    Ledger(url).close()
    outcomes = call_concurrently(*[partial(submit, *order) for order in orders])

    with opened(url) as ledger:
        rows = {row.id: row for row in ledger.jobs.page(None)}
    created = [outcome.job for outcome in outcomes if not isinstance(outcome, KeyReusedError) and outcome.created]
    assert sorted(created) == sorted(rows)
    by_key = {}
    for (tenant, key, seed, _), outcome in zip(orders, outcomes, strict=True):
        if isinstance(outcome, KeyReusedError):
            assert key is not None
            assert rows[outcome.job].spec.settings.seed != seed
        else:
            row = rows[outcome.job]
            assert (row.spec.tenant, row.spec.settings.seed) == (tenant, seed)
            assert key is None or by_key.setdefault((tenant, key), outcome.job) == outcome.job
    if not any(fresh for *_, fresh in orders):
        assert max(Counter((row.spec.tenant, row.spec.work) for row in rows.values()).values()) == 1


# Fair shares.


def test_tenants_get_equal_shares_regardless_of_their_number_of_jobs(ledger):
    ledger.jobs.add([a_job("ann", seed) for seed in range(40)], 1.0)
    ledger.jobs.add([a_job("bob", seed) for seed in range(2)], 2.0)
    ledger.jobs.add([a_job("cid")], 3.0)

    first = tenants_of(ledger, ledger.leases.acquire("one", 10.0, seconds=10, limit=6))
    second = tenants_of(ledger, ledger.leases.acquire("two", 11.0, seconds=10, limit=3))

    assert first == Counter(ann=3, bob=2, cid=1)
    assert second == Counter(ann=3)


def test_the_tenant_with_fewest_jobs_running_is_served_first(ledger):
    ledger.jobs.add([a_job("ann", seed) for seed in range(9)], 1.0)
    ledger.leases.acquire("one", 10.0, seconds=10, limit=4)
    ledger.jobs.add([a_job("bob", seed, priority="low") for seed in range(9)], 2.0)

    assert tenants_of(ledger, ledger.leases.acquire("two", 11.0, seconds=10, limit=4)) == Counter(bob=4)
    assert tenants_of(ledger, ledger.leases.acquire("two", 11.0, seconds=10, limit=4)) == Counter(ann=2, bob=2)


def test_idle_tenants_are_those_without_a_held_job(ledger):
    ledger.jobs.add([a_job("ann", seed, priority="high") for seed in range(9)], 1.0)
    ledger.leases.acquire("one", 10.0, seconds=10, limit=4)
    for tenant in ("bob", "cid"):
        ledger.jobs.add([a_job(tenant, seed) for seed in range(9)], 2.0)

    taken = [
        tenants_of(ledger, ledger.leases.acquire("two", 11.0, seconds=10, limit=5, idle_tenants_only=True))
        for _ in range(2)
    ]

    assert taken == [Counter(bob=1, cid=1), Counter()]


def test_jobs_of_a_tenant_are_ordered_by_priority_and_age(ledger):
    for number, (tenant, priority) in enumerate([("ann", "low"), ("ann", "high"), ("bob", "low"), ("bob", "normal")]):
        ledger.jobs.add([a_job(tenant, job=f"{number:032x}", priority=priority)], float(number))

    taken = ledger.leases.acquire("one", 10.0, seconds=10, limit=4)

    assert [int(lease.job, 16) for lease in taken] == [1, 3, 0, 2]


def test_hundreds_of_tenants_are_served(ledger):
    ledger.jobs.add([a_job(f"tenant {number}") for number in range(300)], 1.0)

    assert set(tenants_of(ledger, ledger.leases.acquire("one", 10.0, seconds=10, limit=50)).values()) == {1}


def tenants_of(ledger, leases):
    return Counter(row.spec.tenant for row in ledger.jobs.get_many([lease.job for lease in leases]))
