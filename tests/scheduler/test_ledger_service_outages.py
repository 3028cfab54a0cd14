"""What schedulers write to the ledger about services that they cannot use, on SQLite and on a real PostgreSQL."""

import pytest

from maabo_dist.contract.job import Obstacle
from scheduler.ledger.outages import EXPIRE_SECONDS

pytestmark = pytest.mark.xdist_group("ledger")

OUTAGE = Obstacle(kind="redis", text="Redis cannot be used", remedy="Start Redis.", since=1.0)
POD = "maabo-scheduler-7d9f8b6c5d-x2x4z.maabo.svc.cluster.local:17"


@pytest.fixture
def now(ledger):
    return ledger.database.steady_clock()()


def test_each_scheduler_has_its_own_outage_whatever_the_length_of_its_name(ledger, now):
    ledger.outages.write(POD, OUTAGE, now)
    ledger.outages.write("here:1", OUTAGE.model_copy(update={"kind": "store"}), now)

    assert {owner: outage.kind for owner, outage in ledger.outages.by_owner().items()} == {
        POD: "redis",
        "here:1": "store",
    }

    ledger.outages.clear(POD)
    assert list(ledger.outages.by_owner()) == ["here:1"]
    ledger.outages.clear("here:1")
    assert ledger.outages.current() == []


def test_an_outage_that_is_not_written_again_expires(ledger, now):
    ledger.outages.write(POD, OUTAGE, now - EXPIRE_SECONDS - 1)

    assert ledger.outages.current() == []
