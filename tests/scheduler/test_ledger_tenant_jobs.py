"""The jobs of tenants, on SQLite and on a real PostgreSQL: idempotent, concurrent, listed and deleted."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.job import JobState
from maabo_dist.contract.problem import problem_of
from scheduler.ledger import Ledger
from scheduler.ledger.database import DuplicateError
from scheduler.ledger.submissions import KeyReusedError, Submission, SubmissionRequest
from scheduler.ledger.tenants import QuotaError, QuotaRow
from tests.ledgers import call_concurrently, opened
from tests.scheduler.tenant_rows import BODY, OTHER_BODY, a_job, end

pytestmark = pytest.mark.xdist_group("ledger")


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
