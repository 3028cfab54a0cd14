"""Tokens, quotas and fair shares of tenants, on SQLite and on a real PostgreSQL."""

from collections import Counter

import pytest

from maabo_dist.contract.job import JobState
from maabo_dist.contract.problem import problem_of
from scheduler.ledger.database import DuplicateError
from scheduler.ledger.tenants import QuotaError, QuotaRow, make_token
from tests.scheduler.tenant_rows import BODY, a_job, a_token, end

pytestmark = pytest.mark.xdist_group("ledger")


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
