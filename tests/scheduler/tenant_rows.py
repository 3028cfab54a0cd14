"""Rows of tenants, for tests of ledgers."""

from dataclasses import replace
from uuid import uuid4

from maabo_dist.contract.job import JobSpec, JobState
from scheduler.ledger.tenants import DatasetRow, TokenRow
from tests.ledgers import TABLE

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
