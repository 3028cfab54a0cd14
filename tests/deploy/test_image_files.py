"""Rules for the Dockerfile, the compose file and the build context, checked without a container engine."""

import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest
from jsonschema.validators import validator_for

from deploy.image.roles import ROLES
from deploy.image.secret_files import SECRETS
from maabo_dist.cluster.settings import ClusterSettings
from scheduler.api.settings import ApiSettings
from tests.rehearsal import compose
from tests.rehearsal.context import ignored, read_rules, sent_files
from tests.rehearsal.dockerfile import parse
from tests.servers import ROOT

STAGES = parse((ROOT / "deploy/image/Dockerfile").read_text())
IMAGE = STAGES[-1]
COMPOSE = ROOT / "docker-compose.yml"
OURS = ("scheduler", "api", "worker", "flower")
SECRET = re.compile(
    r"maabo_[0-9a-f]{12}_[\w-]{43}|AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_\w{36}|xox[bp]-\w{10}"
    r"|://[^\s:/@{}$<…]*:[^\s@/{}$<…]{8,}@"
)
# What stands in an explanation or a test of an address.
EXAMPLES = ("USER:PASSWORD", "user:password")


@pytest.fixture(scope="module")
def document():
    return compose.load(COMPOSE, {})


# The Dockerfile.


def test_both_stages_use_the_same_base_image_with_a_version():
    (base,) = {stage.base for stage in STAGES}

    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", base)
    assert IMAGE.last("LABEL").pairs["org.opencontainers.image.base.name"].endswith(base)


def test_the_image_has_no_compiler_and_installs_nothing_after_the_builder():
    assert not any(word in step.text for stage in STAGES for step in stage.steps for word in ("apt-get", "gcc", "curl"))
    assert not any("pip" in step.text for step in IMAGE.steps if step.word == "RUN")


def test_the_image_runs_as_a_fixed_user_who_is_not_root():
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", IMAGE.last("USER").text)


def test_entry_point_and_health_check_run_without_a_shell():
    assert IMAGE.last("ENTRYPOINT").exec_form == ["python", "-m", "deploy.image"]
    assert IMAGE.last("HEALTHCHECK").exec_form == ["python", "-m", "deploy.image", "health"]
    assert IMAGE.last("STOPSIGNAL").text == "SIGTERM"


def test_the_image_installs_only_pinned_versions():
    variables = next(step.pairs for step in STAGES[0].steps if step.word == "ENV")

    assert variables["PIP_CONSTRAINT"] == variables["PIP_BUILD_CONSTRAINT"] == "/build/constraints.txt"
    assert variables["PIP_ONLY_BINARY"] == ":all:"


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed; our own rules were checked")
def test_hadolint_finds_nothing():
    run = subprocess.run(["hadolint", ROOT / "deploy/image/Dockerfile"], capture_output=True, text=True, check=False)

    assert run.stdout == ""


# The build context.


def test_patterns_are_read_as_docker_reads_them():
    rules = read_rules("*\n!kept\n!deep/kept\n**/*.db\n**/secret\n# a comment\n")

    assert [ignored(path, rules) for path in ("kept/a.py", "kept/b/c.py", "deep/kept/a")] == [False] * 3
    assert [ignored(path, rules) for path in (".env", "other/a", "deep/a", "kept/x.db", "kept/secret/a")] == [True] * 5


@pytest.fixture(scope="module")
def sent():
    return sent_files(ROOT)


def test_everything_that_the_dockerfile_copies_is_sent(sent):
    for stage in STAGES:
        for step in stage.steps:
            if step.word == "COPY" and "--from" not in step.text:
                for source in step.text.split()[:-1]:
                    assert any(path == source or path.startswith(f"{source}/") for path in sent), source


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".maabo/ledger.db",
        ".maabo/secret",
        ".git/config",
        ".venv/bin/python",
        "deploy/local/.env",
        "deploy/secrets/redis-password",
        "maabo_dist/ledger.db",
        "scheduler/key.pem",
        "secrets/redis-password",
        "tests/servers.py",
        "docker-compose.yml",
        "tests/rehearsal/__main__.py",
    ],
)
def test_secrets_and_files_that_the_image_does_not_need_are_not_sent(path):
    assert ignored(path, read_rules((ROOT / ".dockerignore").read_text()))


def test_nothing_that_looks_like_a_secret_is_sent(sent):
    secrets = {}
    for path in sent:
        text = (ROOT / path).read_text(errors="replace")
        hits = [hit[0] for hit in SECRET.finditer(text) if not any(word in hit[0] for word in EXAMPLES)]
        secrets |= {path: hits} if hits else {}

    assert len(sent) > 150
    assert secrets == {}
    assert SECRET.search("redis://me:hunter2hunter2@host/0")
    assert SECRET.search(f"maabo_{'0' * 12}_{'x' * 43}")


# The compose file.


def test_the_compose_file_follows_the_specification(document):
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())

    assert list(validator_for(schema)(schema).iter_errors(document)) == []


def test_compose_starts_every_role_through_the_entry_point_of_the_image(document):
    assert {role: document["services"][role]["command"] for role in ROLES} == {role: [role] for role in ROLES}


def test_every_service_is_restricted(document):
    for name, service in document["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["logging"]["options"]["max-size"], name
        assert not service.get("privileged"), name
        assert name == "secrets" or service.get("user", "") != "0:0"
        if service.get("restart") != "no":
            assert service["deploy"]["resources"]["limits"]["memory"], name


def test_third_party_images_have_a_version(document):
    images = {service["image"] for service in document["services"].values()} - {"maabo-dist:latest"}

    assert len(images) == 4
    assert all(re.search(r":v?\d+\.\d+", image) for image in images)


def test_without_an_env_file_only_this_machine_has_access(document):
    ports = [port for service in document["services"].values() for port in service.get("ports", [])]

    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert all("ports" not in document["services"][name] for name in ("redis", "postgres"))
    assert document["networks"]["backend"]["internal"]


def test_the_compose_file_contains_no_password(document):
    text = COMPOSE.read_text()

    assert not SECRET.search(text)
    for name, service in document["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|CREDENTIALS", variable):
                assert variable.endswith("FILE"), (name, variable)
                assert str(value).startswith("/run/"), (name, variable)
    assert {secret["file"] for secret in document["secrets"].values()} == {"/dev/null"}


def test_the_compose_file_declares_every_password_file():
    named = compose.load(COMPOSE, {secret.variable: f"/etc/{secret.name}" for secret in SECRETS})["secrets"]

    assert {name: named[f"{name}-password"]["file"] for name in ("redis", "ledger", "flower", "grafana")} == {
        secret.name: f"/etc/{secret.name}" for secret in SECRETS
    }


def test_variables_of_our_services_are_settings_that_exist(document):
    known_variables = {*ClusterSettings().environment(), *ApiSettings().environment()}
    known_variables |= {"MAABO_FLOWER_PASSWORD_FILE", "MAABO_WORKER_PROCESSES"}
    for name in OURS:
        variables = document["services"][name]["environment"]
        assert {variable for variable in variables if variable.startswith("MAABO_")} <= known_variables, name
        ClusterSettings.from_environment({key: str(value) for key, value in variables.items() if "FILE" not in key})


def test_a_worker_has_longer_to_stop_than_a_task_may_take(document):
    worker = document["services"]["worker"]
    limit = float(worker["environment"]["MAABO_TASK_LIMIT"]) * 1.25

    assert int(worker["stop_grace_period"].removesuffix("s")) > limit


def test_services_start_after_those_that_they_need_are_healthy(document):
    services = document["services"]
    for name in OURS:
        assert services[name]["depends_on"]["redis"] == {"condition": "service_healthy"}, name
    for name in ("redis", "postgres"):
        assert services[name]["depends_on"]["secrets"] == {"condition": "service_completed_successfully"}
    assert {name for name in services if "monitoring" in services[name].get("profiles", [])} == {
        "metrics-token",
        "prometheus",
        "grafana",
    }


def test_the_readme_names_every_role_and_every_variable():
    page = (ROOT / "deploy/README.md").read_text()
    variables = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))

    assert [name for name in sorted(variables) if name not in page] == []
    assert [role for role in ROLES if f"| `{role}` |" not in page] == []


def test_redis_evicts_nothing(document):
    configuration = (ROOT / "deploy/compose/redis.conf").read_text()

    assert document["services"]["redis"]["command"][1] in str(document["services"]["redis"]["volumes"])
    assert {"appendonly yes", "maxmemory-policy noeviction"} <= set(configuration.splitlines())
