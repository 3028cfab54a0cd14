"""`make soak`: MAABO_SOAK_SECONDS (600) of chaos from MAABO_SOAK_SEED (drawn and printed)."""

import os
import secrets

import pytest

from tests.soak.chaos import Chaos


@pytest.mark.soak
def test_no_fault_at_any_moment_changes_a_rule(tmp_path, capsys):
    seed = int(os.environ.get("MAABO_SOAK_SEED", secrets.randbelow(1_000_000)))
    seconds = float(os.environ.get("MAABO_SOAK_SECONDS", "600"))
    with capsys.disabled():
        print(f"\nMAABO_SOAK_SEED={seed} MAABO_SOAK_SECONDS={seconds:.0f}", flush=True)
        summary = Chaos(tmp_path, seed, seconds).run(settle_seconds=180)
        print(summary, flush=True)

    assert not summary.wrong
    assert summary.given_up == 0
