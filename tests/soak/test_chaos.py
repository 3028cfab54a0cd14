"""`make soak`: chaos on each kind of ledger, 250 faults over at least 25 jobs each.

MAABO_SOAK_FAULTS and MAABO_SOAK_JOBS select another size, MAABO_SOAK_SECONDS (3600) limits the time, MAABO_SOAK_SEED
repeats the choices of a run (it is drawn and printed), and `-k sqlite` or `-k postgresql` selects one ledger.
"""

import os
import secrets
from tempfile import TemporaryDirectory

import pytest

from tests import servers
from tests.faults.test_tables import small_disk
from tests.soak.chaos import Chaos

FAULTS, JOBS, SECONDS = 250, 25, 3600.0


@pytest.fixture
def sqlite(tmp_path):
    """A ledger on a disk that can be filled."""
    with small_disk(tmp_path / "disk", "512m") as disk:
        yield f"sqlite:///{disk}/ledger.db", disk


@pytest.fixture
def postgresql():
    if servers.postgres_programs() is None:
        pytest.skip("PostgreSQL is not installed; `apt-get install postgresql` installs it.")
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield url, None


@pytest.mark.soak
@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"])
def test_no_fault_at_any_moment_changes_a_rule(tmp_path, capsys, request, ledger):
    url, disk = request.getfixturevalue(ledger)
    seed = int(os.environ.get("MAABO_SOAK_SEED", secrets.randbelow(1_000_000)))
    faults = int(os.environ.get("MAABO_SOAK_FAULTS", FAULTS))
    jobs = int(os.environ.get("MAABO_SOAK_JOBS", JOBS))
    seconds = float(os.environ.get("MAABO_SOAK_SECONDS", SECONDS))
    with capsys.disabled():
        print(f"\nMAABO_SOAK_SEED={seed} MAABO_SOAK_FAULTS={faults} MAABO_SOAK_JOBS={jobs} -k {ledger}", flush=True)
        summary = Chaos(tmp_path, seed, url, disk).run(faults, jobs, seconds, settle_seconds=300)
        print(summary, flush=True)

    assert not summary.wrong
    assert summary.given_up == 0
