"""The responses of a running server conform to the OpenAPI document, and none is a 5xx."""

import subprocess
import sys
from contextlib import closing

import httpx
import pytest

from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests.api_data import stored_table, token_for
from tests.cluster import ended

pytestmark = pytest.mark.xdist_group("shared-cluster")

# Strings that match the schema can still be rejected, such as a cursor that no page returned.
EXCLUDED_CHECKS = "positive_data_acceptance"


@pytest.fixture(scope="module")
def finished_jobs(shared_cluster, tmp_path_factory):
    """The address of the server, a token with all scopes, and two finished jobs."""
    settings, address = shared_cluster
    frame, table = load_bundled("diabetes")
    with closing(Resources.connect(settings)) as resources:
        admin = token_for(resources, "fuzz", ("read", "submit", "admin"))
        data = stored_table(resources, tmp_path_factory.mktemp("fuzz"), frame, "fuzz")
        document = {"dataset": data.id, "table": table.model_dump(mode="json", exclude_unset=True)}
        jobs = [
            httpx.post(f"{address}/v1/jobs", json=document | {"settings": {"trees": 20, "seed": seed}}, headers=admin)
            for seed in (1, 2)
        ]
        ids = [job.json()["id"] for job in jobs]
        for job in ids:
            ended(resources.ledger, job)
    return address, admin["Authorization"], data.id, ids


def schemathesis(address, token, tmp_path, config, *options):
    (tmp_path / "schemathesis.toml").write_text(config)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml"), "run"]
    command += [f"{address}/v1/openapi.json", "-H", f"Authorization: {token}", "--seed", "1", "--no-color"]
    command += ["--request-timeout", "30", "--exclude-checks", EXCLUDED_CHECKS, *options]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize(
    "examples", [pytest.param(2, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.soak)]
)
def test_every_response_conforms_to_the_openapi_document(finished_jobs, tmp_path, examples):
    address, token, dataset, (job, other) = finished_jobs
    config = f'[parameters]\njob = "{job}"\nother = "{other}"\n"path.dataset" = "{dataset}"\n'

    # Deleting would leave the other routes without data.
    run = schemathesis(address, token, tmp_path, config, "--max-examples", str(examples), "--exclude-method", "DELETE")

    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]


@pytest.mark.slow
def test_responses_to_delete_conform_to_the_openapi_document(finished_jobs, tmp_path):
    address, token, _, _ = finished_jobs

    options = ("--include-method", "DELETE", "--max-examples", "5", "--phases", "examples,coverage,fuzzing")
    run = schemathesis(address, token, tmp_path, "", *options)

    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
