"""Jobs that are submitted in groups, one transaction each, are those that one request after another would make."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.job import JobSpec
from maabo_dist.errors import InputError
from scheduler.ledger.schema import keys
from scheduler.ledger.submissions import SubmissionRequest
from scheduler.ledger.tenants import QuotaRow
from tests.ledgers import TABLE, opened
from tests.reference.submissions import SlowSubmissions

pytestmark = pytest.mark.xdist_group("ledger")

# Tenant, idempotency key, body, seed, id and whether the job is to be fresh.
ORDERS = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from([None, None, "k1", "k2"]),
    st.sampled_from(["x" * 64, "y" * 64]),
    st.integers(1, 3),
    st.integers(0, 30),
    st.booleans(),
)


def requests_of(orders):
    for number, (tenant, key, body, seed, job, fresh) in enumerate(orders):
        document = {
            "id": f"{job:032x}",
            "tenant": tenant,
            "dataset": {"fingerprint": TABLE},
            "settings": {"seed": seed},
        }
        yield SubmissionRequest(JobSpec.parse(document), float(number), key, body if key else "", fresh)


def check(url, orders, cuts, queued):
    """Submit the orders in groups that are cut at some positions, and one after another in the twin."""
    numbered = list(requests_of(orders))
    bounds = [0, *sorted({cut % (len(orders) + 1) for cut in cuts}), len(orders)]
    twin = SlowSubmissions(queued)
    expected = [twin.submit(request) for request in numbered]
    with opened(url) as ledger:
        if queued is not None:
            for tenant in "ab":
                ledger.quotas.set(QuotaRow(tenant, queued=queued))
        outcomes = []
        for start, stop in pairwise(bounds):
            if start < stop:
                outcomes += ledger.submissions.submit_many(numbered[start:stop])
        found = [each.kind if isinstance(each, InputError) else (each.job, each.created) for each in outcomes]
        rows = {(row.spec.tenant, row.id) for row in ledger.jobs.page(None, limit=1000)}
        stored = {(row["tenant"], row["key"]): (row["body"], row["job"]) for row in ledger.database.rows(keys.select())}
    assert found == expected
    assert rows == {(tenant, job) for tenant, _, _, job in twin.jobs}
    assert stored == twin.keys


@given(
    st.lists(ORDERS, min_size=1, max_size=12), st.lists(st.integers(0, 12), max_size=4), st.none() | st.integers(1, 3)
)
@settings(max_examples=40)
def test_groups_are_like_requests_one_after_another(tmp_path_factory, orders, cuts, queued):
    check(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db", list(with_ids(orders)), cuts, queued)


def test_groups_are_like_requests_one_after_another_on_postgresql(postgres_url):
    orders = [
        ("ab"[n % 2], [None, "k1", "k2"][n % 3], "xy"[n % 5 == 0] * 64, n % 4, n % 11, n % 7 == 0) for n in range(60)
    ]
    check(postgres_url, list(with_ids(orders)), [7, 8, 20, 41], 9)


def with_ids(orders):
    """An id belongs to one tenant and one specification: the server draws ids at random."""
    for tenant, key, body, seed, job, fresh in orders:
        yield tenant, key, body, seed, 100 * job + 10 * seed + (tenant == "b"), fresh
