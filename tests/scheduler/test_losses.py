"""A job fails if its tasks end too many worker processes, and names the cause."""

import pytest

from scheduler.core.losses import MAX_IN_A_ROW, MAX_LOSSES, Cause, Losses, cause_of

KILLED = "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 3.')"


@pytest.mark.parametrize(
    ("kind", "reason", "cause"),
    [
        ("lost", KILLED, Cause.MEMORY),
        ("failed", "The worker ran out of memory.", Cause.MEMORY),
        ("lost", "TimeLimitExceeded(150.0)", Cause.TIME),
        ("lost", "WorkerLostError('Worker exited prematurely: signal 11 (SIGSEGV) Job: 3.')", Cause.CRASH),
        ("failed", "ValueError('a bad subset')", None),
    ],
)
def test_the_cause_follows_from_the_answer_of_the_worker(kind, reason, cause):
    assert cause_of(kind, reason) is cause


def test_too_many_losses_in_a_row_are_too_many():
    losses = Losses()
    for _ in range(MAX_IN_A_ROW - 1):
        losses.note_failure("lost", KILLED)
    assert not losses.too_many

    losses.note_failure("lost", KILLED)
    assert losses.too_many
    assert losses.explain("'t' (3 rows)").startswith(f"{MAX_IN_A_ROW} tasks on the table 't' (3 rows) ended early")
    assert "memory" in losses.explain("'t'")


def test_losses_among_tasks_that_are_done_are_tolerated_up_to_a_share():
    """Machines that are switched off must not fail a long job; a table that crashes every other task must."""
    healthy, sick = Losses(), Losses()
    for _ in range(MAX_LOSSES):
        for losses, done in ((healthy, 10), (sick, 1)):
            losses.note_failure("lost", KILLED)
            for _ in range(done):
                losses.note_done()
    assert not healthy.too_many
    assert sick.too_many


def test_ordinary_failures_are_not_losses():
    losses = Losses()
    for _ in range(1000):
        losses.note_failure("failed", "ValueError('a bad subset')")
    assert not losses.too_many
