"""A scheduler that is killed at each step, and succeeded by another."""

import signal
import sqlite3

import pytest

from tests import servers

pytestmark = pytest.mark.xdist_group("faults")

STEPS = ["before publish", "after publish", "after commit", "after ack"]
OTHER_STEPS = ["before write", "after write", "before commit", "before ack"]


@pytest.mark.parametrize(
    "steps",
    [pytest.param(STEPS, marks=pytest.mark.slow), pytest.param(OTHER_STEPS, marks=pytest.mark.soak)],
    ids=", ".join,
)
def test_a_scheduler_killed_at_any_step_writes_no_subset_twice(world, steps):
    world.first_scheduler.signal(signal.SIGTERM)
    world.first_scheduler.exit_code(15)
    dying = world.scheduler("tests.faults.dying_scheduler", *steps, lease_seconds=1.0)
    job = world.submit()
    for step in steps:
        servers.wait_for(lambda step=step: f"died: {step}, by signal 9" in dying.log, 30, what=f"a death {step}")
        assert overlapping_rows(world, job) == []

    world.check_done(job)
    assert dying.alive


def overlapping_rows(world, job):
    """Return pairs of result rows that contain the same subset."""
    path = world.settings.ledger_url.removeprefix("sqlite:///")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as ledger:
        return ledger.execute(
            "SELECT a.batch, a.start, b.start FROM maabo_results a JOIN maabo_results b"
            " ON a.job = b.job AND a.batch = b.batch AND a.start < b.start AND b.start < a.stop WHERE a.job = ?",
            [job],
        ).fetchall()
