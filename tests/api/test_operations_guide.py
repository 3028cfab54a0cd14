"""The commands of docs/operations.md, run in a shell."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for
from tests.cluster import ended
from tests.ledgers import opened

pytestmark = pytest.mark.xdist_group("shared-cluster")

DOCUMENT = (servers.ROOT / "docs" / "operations.md").read_text()


def blocks(marker):
    return re.findall(rf"<!-- {marker} -->\n```bash\n(.*?)```", DOCUMENT, re.DOTALL)


def run(script, directory, environment):
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def environment(shared_cluster, tmp_path):
    """The environment of an operator's shell."""
    missing = [program for program in ("bash", "curl") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the commands need {', '.join(missing)}, which is not installed")
    settings, address = shared_cluster
    with closing(Resources.connect(settings)) as resources:
        header = token_for(resources, "operator")["Authorization"]
    (tmp_path / ".curlrc").write_text(f'header = "Authorization: {header}"\n')
    return settings.environment() | {
        "MAABO_SERVER": address,
        "MAABO_TOKEN": header.removeprefix("Bearer "),
        "CURL_HOME": str(tmp_path),
        "PYTHONPATH": str(servers.ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@pytest.mark.slow
def test_the_commands_of_the_operations_guide_work(shared_cluster, environment, tmp_path):
    submitted = run("maabo submit --dataset diabetes --trees 30 --seed 3", tmp_path, environment)
    job = submitted.stdout.strip()
    with opened(shared_cluster[0].ledger_url) as ledger:
        digest = ended(ledger, job).digest
    other = {"MAABO_LEDGER": f"sqlite:///{tmp_path}/other.db", "MAABO_STORE": f"file://{tmp_path}/other"}

    backup = run("\n".join(blocks("run")), tmp_path, environment | {"JOB": job})
    restored = run("\n".join(blocks("run elsewhere")), tmp_path, environment | other)

    assert (backup.returncode, restored.returncode) == (0, 0), backup.stderr + restored.stderr
    assert "Wrote 1 job" in backup.stdout
    assert re.search(r"Token \w+ is revoked", backup.stdout)
    for url in (other["MAABO_LEDGER"], f"sqlite:///{tmp_path}/ledger-backup.db"):
        with opened(url) as ledger:
            assert ledger.jobs.get(job).digest == digest
