"""The scenario: what is done with the cluster, and what is checked."""

import json
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.rehearsal.cluster import Cluster, wait_for
from tests.rehearsal.container import Container

ROLES = ("scheduler", "api", "worker", "flower")
SETTINGS = {"trees": 200, "seed": 5}
_LOAD = "from maabo_dist.data.bundled import load_bundled; table, settings = load_bundled('diabetes'); "
_TABLE = _LOAD + "table.to_csv('/tmp/t.csv', index=False)"
_TARGET = _LOAD + "print(settings.model_dump_json(exclude_unset=True))"


def run_scenario(cluster: Cluster, report: Callable[[str], object]) -> None:
    """Run all steps; an AssertionError or a TimeoutError describes a failure."""
    _check_missing_passwords_are_refused(cluster)
    report("a public address without passwords is refused, each missing one named")
    assert cluster.start("secrets").wait(60) == 0
    cluster.start("redis")
    cluster.start("postgres")
    wait_for(lambda: "ready to accept connections" in cluster.running["postgres1"].log(), 60, "a ready PostgreSQL")
    for role in (*ROLES, "worker"):
        cluster.start(role)
    for name in ("scheduler1", "api1", "worker1", "worker2", "flower1"):
        wait_for(lambda name=name: cluster.healthy(name), 300, f"a healthy {name}")  # type: ignore[misc]
    report("all roles are healthy by the image's own check, on a read-only root, as user 10001 without capabilities")
    token = _create_first_token(cluster)
    report("the first token was created as in deploy/README.md; requests were refused before")
    digest, expected = _mine_over_http(cluster, token), _mine_in_one_process(cluster)
    assert digest == expected, f"The digest of the cluster is {digest}, that of `maabo mine` {expected}."
    report(f"the job's digest is that of `maabo mine`: {digest}")
    _check_flower_needs_a_password(cluster)
    _check_nothing_was_written(cluster)
    _check_no_secret_is_shown(cluster, token)
    report("Flower needs its password; no file was written outside volumes, no kernel compiled, no secret shown")
    _stop(cluster)
    report("every role stopped on SIGTERM")


def _check_missing_passwords_are_refused(cluster: Cluster) -> None:
    refused = cluster.start("secrets", {"MAABO_BIND": "0.0.0.0"})
    assert refused.wait(60) == 2, refused.log()
    for name in ("REDIS", "LEDGER", "FLOWER"):
        assert f"MAABO_{name}_PASSWORD_FILE" in refused.log(), refused.log()


def _create_first_token(cluster: Cluster) -> str:
    assert _request("GET", "/v1/jobs")[0] == 401
    made = cluster.running["api1"].call(
        "python", "-m", "scheduler", "token", "create", "--tenant", "me", "--scopes", "read,submit,admin"
    )
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    assert _request("GET", "/v1/jobs", token=token)[0] == 200
    return token


def _mine_over_http(cluster: Cluster, token: str) -> str:
    api = cluster.running["api1"]
    assert api.call("python", "-c", _TABLE).returncode == 0
    table, target = api.call("cat", "/tmp/t.csv").stdout, json.loads(api.call("python", "-c", _TARGET).stdout)
    status, dataset = _request("POST", "/v1/datasets?name=t.csv", table.encode(), "text/csv", token)
    assert status == 201, dataset
    document = {"dataset": dataset["id"], "table": target, "settings": SETTINGS}
    status, job = _request("POST", "/v1/jobs", json.dumps(document).encode(), "application/json", token)
    assert status == 202, job
    seen: dict[str, Any] = {}

    def ended() -> bool:
        seen.update(_request("GET", f"/v1/jobs/{job['id']}", token=token)[1])
        return seen["state"] in {"done", "failed"}

    wait_for(ended, 600, "the end of the job")
    assert seen["state"] == "done", seen
    return str(_request("GET", f"/v1/jobs/{job['id']}/rules", token=token)[1]["digest"])


def _mine_in_one_process(cluster: Cluster) -> str:
    options = [f"--{name}={value}" for name, value in SETTINGS.items()]
    command = ["maabo", "mine", "--dataset", "diabetes", "--format", "json", *options]
    done = cluster.running["api1"].call("python", "-m", "deploy.image", *command)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["digest"])


def _check_flower_needs_a_password(cluster: Cluster) -> None:
    password = (cluster.volume("flower-secret") / "password").read_text()
    allowed = {"Authorization": f"Basic {b64encode(f'maabo:{password}'.encode()).decode()}"}
    for path in ("/tasks", "/metrics", "/api/workers"):
        assert _status(5555, "GET", path) == 401, path
        assert _status(5555, "GET", path, allowed) == 200, path
    assert _status(5555, "POST", "/api/worker/shutdown/celery@worker1", allowed) in {403, 404, 405}


def _check_nothing_was_written(cluster: Cluster) -> None:
    """Check that roles cannot write to the image, and that numba compiled no kernel."""
    compiled = {}
    for name in ("scheduler1", "worker1", "worker2"):
        inside = cluster.running[name]
        assert inside.call("touch", "/opt/maabo/app/x").returncode != 0
        listing = [inside.call("find", place, "-name", "*.nb?", "-printf", "%P\n").stdout for place in _KERNELS]
        before, after = (set(text.splitlines()) for text in listing)
        assert before, "The image has no kernels."
        compiled[name] = sorted(after - before)
    assert not any(compiled.values()), f"Compiled although `warm` should have: {compiled}."


_KERNELS = ("/opt/maabo/kernels", "/tmp/maabo-kernels")


def _check_no_secret_is_shown(cluster: Cluster, token: str) -> None:
    """Check command lines, environments and logs of all processes."""
    secrets = {path.name + path.parent.name: path.read_text() for path in _secret_files(cluster)} | {"token": token}
    for container in cluster.running.values():
        if container.process.poll() is None:
            for process in container.processes():
                texts = b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("cmdline", "environ"))
                _check_hidden(texts.decode(errors="replace"), secrets, f"process {process} of {container.name}")
        _check_hidden(container.log(), secrets, f"the log of {container.name}")


def _secret_files(cluster: Cluster) -> list[Path]:
    return [cluster.volume(f"{name}-secret") / "password" for name in ("redis", "ledger", "flower", "grafana")]


def _check_hidden(text: str, secrets: Mapping[str, str], where: str) -> None:
    for name, secret in secrets.items():
        assert secret not in text, f"{name} is shown by {where}."


def _stop(cluster: Cluster) -> None:
    for name in ("flower1", "api1", "worker1", "worker2", "scheduler1"):
        container: Container = cluster.running[name]
        container.signal(signal.SIGTERM)
        try:
            code = container.wait(120)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} does not stop on SIGTERM.") from None
        assert code in {0, 128 + signal.SIGTERM}, f"{name} ended with {code}.\n{container.log()[-2000:]}"


def _request(
    method: str, path: str, body: bytes | None = None, kind: str = "", token: str | None = None
) -> tuple[int, dict[str, Any]]:
    headers = ({"Content-Type": kind} if kind else {}) | ({"Authorization": f"Bearer {token}"} if token else {})
    connection = HTTPConnection("127.0.0.1", 8080, timeout=60)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def _status(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        return connection.getresponse().status
    finally:
        connection.close()
