"""The manifests are valid, complete and restrictive. They are built here, without a cluster."""

import copy
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from maabo_dist.cluster.settings import ClusterSettings
from scheduler.api.settings import ApiSettings
from tests.deploy import kustomized
from tests.queries import MONITORING, queries
from tests.servers import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("trial", "production")
OLDEST = "1.30"
"""The oldest supported version of Kubernetes, and newer ones."""
ROLES = {"scheduler", "api", "worker", "flower"}
OF_THE_IMAGE = {"MAABO_FLOWER_PASSWORD_FILE", "MAABO_WORKER_PROCESSES", "AWS_SHARED_CREDENTIALS_FILE"}
OF_POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE", "POSTGRES_INITDB_ARGS", "PGDATA"}
SECRETIVE = re.compile(r"://[^/\s]*:[^/\s]+@|kind: Secret|stringData|^\s*requirepass", re.MULTILINE)
CUSTOM = json.loads(Path(__file__).with_name("custom_resources.json").read_text())


@cache
def built(overlay):
    return kustomized.build(KUBERNETES / "overlays" / overlay)


def everything():
    return {(overlay, *key): one for overlay in OVERLAYS for key, one in built(overlay).items()}


def workloads(overlay):
    return {name: one for (kind, name), one in built(overlay).items() if kind in {"Deployment", "StatefulSet"}}


def containers():
    """Return every container with its pod, by location."""
    for overlay in OVERLAYS:
        for name, one in workloads(overlay).items():
            pod = one["spec"]["template"]["spec"]
            for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                yield f"{overlay} {name} {container['name']}", pod, container


def settings_of(overlay, container):
    """Return the variables of a container."""
    maps = [built(overlay)["ConfigMap", source["configMapRef"]["name"]] for source in container.get("envFrom", ())]
    variables = {name: value for one in maps for name, value in one["data"].items()}
    return variables | {one["name"]: one["value"] for one in container.get("env", ())}


def role(overlay, name):
    pod = built(overlay)["Deployment", f"maabo-{name}"]["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def bytes_of(quantity):
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)?", quantity).groups()
    return int(number) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30}[unit]


# Whether Kubernetes would take them.


@pytest.fixture
def read_once(monkeypatch):
    """Cache the schemas of a version, which would otherwise be read for each object."""
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))


def check(one, version):
    if one["kind"] in CUSTOM:
        Draft202012Validator(CUSTOM[one["kind"]]).validate(one)
    else:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.usefixtures("read_once")
def test_every_object_is_valid_for_the_oldest_kubernetes():
    for one in {json.dumps(one, sort_keys=True): one for one in everything().values()}.values():
        check(one, OLDEST)


@pytest.mark.soak
@pytest.mark.usefixtures("read_once")
def test_every_object_is_valid_for_the_newest_kubernetes():
    for one in everything().values():
        check(one, kubernetes_validate.latest_version())


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("Deployment", "maabo-api", "replica"),
        ("ScaledObject", "maabo-worker", "maxReplicas"),
        ("PodMonitor", "maabo-api", "endpoints"),
    ],
)
def test_an_unknown_field_is_detected(kind, name, wrong):
    one = copy.deepcopy(built("production")[kind, name])
    one["spec"][wrong] = 1

    with pytest.raises(ValidationError):
        check(one, OLDEST)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubectl_builds_the_same(overlay):
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl here")
    made = subprocess.run(
        [kubectl, "kustomize", KUBERNETES / "overlays" / overlay], capture_output=True, text=True, check=True
    ).stdout
    names = "|".join(name for kind, name in built(overlay) if kind == "ConfigMap")
    without_suffix = re.sub(rf"\b({names})-[a-z0-9]{{10}}\b", r"\1", made)

    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(without_suffix)}
    assert found == built(overlay)


# What may run how.


def test_no_container_runs_as_root_writes_to_its_image_or_can_gain_privileges():
    for where, pod, container in containers():
        own, shared = container["securityContext"], pod["securityContext"]
        assert shared["runAsNonRoot"], where
        assert shared["runAsUser"] > 0, where
        assert shared["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert own["readOnlyRootFilesystem"], where
        assert own["allowPrivilegeEscalation"] is False, where
        assert own["capabilities"] == {"drop": ["ALL"]}, where
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys(), where
        assert not any("hostPath" in volume for volume in pod["volumes"]), where


def test_no_pod_gets_a_kubernetes_token():
    for overlay in OVERLAYS:
        for name, one in workloads(overlay).items():
            pod = one["spec"]["template"]["spec"]
            account = built(overlay)["ServiceAccount", pod["serviceAccountName"]]
            assert pod["automountServiceAccountToken"] is account["automountServiceAccountToken"] is False, name


def test_every_container_has_limits_requests_and_all_probes():
    for where, _pod, container in containers():
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys(), where
        assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["requests"].keys(), where
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys(), where


def test_all_roles_run_the_same_image_which_is_pinned_in_production():
    for overlay in OVERLAYS:
        found = {name: one for name, one in workloads(overlay).items() if name.removeprefix("maabo-") in ROLES}
        images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in found.values()}
        commands = {tuple(one["spec"]["template"]["spec"]["containers"][0]["args"]) for one in found.values()}
        assert len(images) == 1
        assert commands == {(role,) for role in ROLES}
    pinned = [container["image"] for where, _, container in containers() if where.startswith("production")]
    assert not any(image.endswith(":latest") or ":" not in image for image in pinned)


def test_every_replicated_role_has_a_disruption_budget():
    for overlay in OVERLAYS:
        budgets = [one for (kind, _), one in built(overlay).items() if kind == "PodDisruptionBudget"]
        for name, one in workloads(overlay).items():
            if one["spec"].get("replicas", 2) > 1:
                assert any(_selects(budget["spec"]["selector"], one) for budget in budgets), (overlay, name)


# Whether it all fits together.


def _selects(selector, workload):
    labels = workload["spec"]["template"]["metadata"]["labels"]
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))


def test_everything_that_a_pod_refers_to_exists():
    for overlay in OVERLAYS:
        objects = built(overlay)
        for name, one in workloads(overlay).items():
            pod = one["spec"]["template"]["spec"]
            claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
            volumes = {volume["name"] for volume in pod["volumes"]} | claims
            for container in pod["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name
                for source in container.get("envFrom", ()):
                    assert ("ConfigMap", source["configMapRef"]["name"]) in objects, name
                ports = {port["name"] for port in container.get("ports", ())}
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    action = container[probe].get("httpGet") or container[probe].get("tcpSocket")
                    assert action is None or action["port"] in ports, (name, probe)
            for volume in pod["volumes"]:
                if "configMap" in volume:
                    assert ("ConfigMap", volume["configMap"]["name"]) in objects, name
            assert ("ServiceAccount", pod["serviceAccountName"]) in objects, name
            assert _selects(one["spec"]["selector"], one), name


def test_every_selector_selects_pods_and_every_named_port_is_theirs():
    selecting = {"Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"}
    for (overlay, kind, name), one in everything().items():
        if kind not in selecting:
            continue
        spec = one["spec"]
        selector = spec["podSelector"] if kind == "NetworkPolicy" else spec["selector"]
        selector = {"matchLabels": selector} if kind == "Service" else selector
        chosen = [workload for workload in workloads(overlay).values() if _selects(selector, workload)]
        assert chosen, (overlay, kind, name)
        for port in _ports(kind, spec):
            assert all(port in _port_names(workload) for workload in chosen), (overlay, kind, name, port)


def _ports(kind, spec):
    if kind == "Service":
        return {port["targetPort"] for port in spec["ports"]}
    if kind == "PodMonitor":
        return {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
    ingress = spec.get("ingress", ()) if kind == "NetworkPolicy" else ()
    return {port["port"] for rule in ingress for port in rule["ports"]}


def _port_names(workload):
    container = workload["spec"]["template"]["spec"]["containers"][0]
    return {port["name"] for port in container.get("ports", ())}


def test_the_ingress_uses_a_port_of_an_existing_service():
    ingress = built("production")["Ingress", "maabo-api"]
    for rule in ingress["spec"]["rules"]:
        for path in rule["http"]["paths"]:
            backend = path["backend"]["service"]
            service = built("production")["Service", backend["name"]]
            assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}


def test_every_role_can_reach_what_it_needs_and_no_other_can_reach_the_ledger():
    needs = {"redis": ROLES, "ledger": {"scheduler", "api"}}
    for overlay, ledger in (("trial", "postgres"), ("production", "ledger")):
        for what, roles in needs.items():
            policy = built(overlay)["NetworkPolicy", f"maabo-to-{ledger if what == 'ledger' else what}"]
            allowed = {
                name.removeprefix("maabo-")
                for name, one in workloads(overlay).items()
                if _selects(policy["spec"]["podSelector"], one)
            }
            assert allowed == roles, (overlay, what)
        for name in ROLES:
            _, container = role(overlay, name)
            assert ("MAABO_LEDGER" in settings_of(overlay, container)) == (name in needs["ledger"]), (overlay, name)


def test_a_policy_denies_what_no_other_allows():
    for overlay in OVERLAYS:
        spec = built(overlay)["NetworkPolicy", "maabo-deny"]["spec"]
        assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


# Secrets.


def _secret_keys(node):
    """Return the names and keys of all secrets that an object refers to."""
    if isinstance(node, list):
        for part in node:
            yield from _secret_keys(part)
    elif isinstance(node, dict):
        if isinstance(node.get("secret"), dict):
            yield from ((node["secret"]["name"], item["key"]) for item in node["secret"]["items"])
        for name in ("credentials", "username", "password"):
            if isinstance(node.get(name), dict) and "key" in node[name]:
                yield node[name]["name"], node[name]["key"]
        for part in node.values():
            yield from _secret_keys(part)


def test_the_commands_of_the_readme_create_every_secret():
    text = (KUBERNETES / "README.md").read_text().replace("\\\n", " ")
    made = {
        (name, key)
        for name, rest in re.findall(r"create secret generic ([\w-]+)(.*)", text)
        for key in re.findall(r"--from-(?:file|literal)=([\w-]+)=", rest)
    }
    needed = {pair for one in everything().values() for pair in _secret_keys(one)}

    assert needed == made


def test_the_repository_contains_no_secret():
    assert [where for where in everything() if where[1] == "Secret"] == []
    for path in [path for path in KUBERNETES.rglob("*") if path.suffix in {".yml", ".yaml", ".conf"}]:
        assert not SECRETIVE.search(path.read_text()), path


# Settings.


def test_every_variable_is_used():
    known_variables = OF_THE_IMAGE.union(ClusterSettings().environment(), ApiSettings().environment())
    for where, _pod, container in containers():
        variables = settings_of(where.split()[0], container).keys()
        assert variables <= (OF_POSTGRES if container["name"] == "postgres" else known_variables), where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_of_every_role_are_valid(overlay):
    for name in ROLES:
        variables = settings_of(overlay, role(overlay, name)[1])
        own = {key: value for key, value in variables.items() if not key.endswith("_FILE")}

        cluster = ClusterSettings.from_environment(own)
        assert cluster.redis_url == variables["MAABO_REDIS"]
        ApiSettings.from_environment(own)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_worker_has_time_to_finish_its_tasks_and_memory_for_its_processes_and_tables(overlay):
    pod, container = role(overlay, "worker")
    variables = settings_of(overlay, container)
    cluster = ClusterSettings.from_environment({k: v for k, v in variables.items() if not k.endswith("_FILE")})
    (cache_volume,) = [volume for volume in pod["volumes"] if volume["name"] == "cache"]

    assert pod["terminationGracePeriodSeconds"] > cluster.task_limit * 1.25
    processes = int(variables["MAABO_WORKER_PROCESSES"])
    assert processes * cluster.worker_memory < bytes_of(container["resources"]["limits"]["memory"])
    assert cluster.cache_bytes < bytes_of(cache_volume["emptyDir"]["sizeLimit"])


def test_an_api_server_has_memory_for_a_process_that_reads_a_table():
    for overlay in OVERLAYS:
        _, container = role(overlay, "api")
        variables = settings_of(overlay, container)
        assert int(variables["MAABO_READ_BYTES"]) < bytes_of(container["resources"]["limits"]["memory"])


# Autoscaling and monitoring.


def test_workers_are_scaled_by_wanted_tasks_per_process():
    scaled = built("production")["ScaledObject", "maabo-worker"]["spec"]
    target = built("production")["Deployment", scaled["scaleTargetRef"]["name"]]
    (trigger,) = scaled["triggers"]
    variables = settings_of("production", role("production", "worker")[1])

    assert "replicas" not in target["spec"]
    assert trigger["metadata"]["threshold"] == variables["MAABO_WORKER_PROCESSES"]
    assert trigger["metadata"]["query"] == queries()["autoscaling"]
    assert scaled["minReplicaCount"] <= scaled["fallback"]["replicas"] <= scaled["maxReplicaCount"]


def test_kubernetes_has_the_alerts_of_prometheus():
    rules = built("production")["PrometheusRule", "maabo"]["spec"]

    assert rules == yaml.safe_load((MONITORING / "alerts.yml").read_text())
