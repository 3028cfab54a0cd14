"""The entry point of the image: commands, the init process, kernels, passwords."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image.roles import ROLES, role_command, worker_processes
from deploy.image.secret_files import prepare_secrets
from deploy.image.startup import install_kernels, numba_target
from maabo_dist.errors import SettingsError
from tests import servers

GIVEN = "a-password-of-the-operator"
WITH_FLOWER = {"MAABO_FLOWER_PASSWORD_FILE": "/run/maabo/flower/password"}


def run_entry_point(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "deploy.image", *arguments],
        cwd=servers.ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# Commands.


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_a_command_without_a_secret(role):
    command = role_command(role, ["--more"], WITH_FLOWER)

    assert command[:2] == ["python", "-m"]
    assert command[-1] == "--more"
    assert "password" not in " ".join(command)


def test_flower_is_not_started_without_a_password():
    with pytest.raises(SettingsError, match="MAABO_FLOWER_PASSWORD_FILE"):
        role_command("flower", [], {})


def test_an_unknown_role_is_refused_with_a_list_of_roles():
    refused = run_entry_point("conductor")

    assert refused.returncode == 2
    assert all(role in refused.stderr for role in ROLES)
    assert run_entry_point("--help").returncode == 0


def test_a_health_check_without_a_role_says_so(tmp_path):
    check = run_entry_point("health", MAABO_ROLE_FILE=str(tmp_path / "role"))

    assert (check.returncode, check.stderr) == (
        2,
        "maabo: No role has been started in this container. Name the role to check.\n",
    )


def test_a_health_check_names_the_address_that_does_not_answer(tmp_path):
    (tmp_path / "role").write_text("api")
    check = run_entry_point("health", MAABO_ROLE_FILE=str(tmp_path / "role"), MAABO_HTTP_PORT="1")

    assert check.returncode == 1
    assert "127.0.0.1:1/healthz does not answer" in check.stderr


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the image is Linux")
def test_a_worker_has_the_configured_number_of_processes_or_one_per_usable_cpu():
    cores = len(os.sched_getaffinity(0))

    assert worker_processes({"MAABO_WORKER_PROCESSES": "7"}, "100000 100000") == 7
    assert worker_processes({}, "50000 100000\n") == 1
    assert worker_processes({}, "max 100000\n") == worker_processes({}, "") == cores
    with pytest.raises(SettingsError, match="MAABO_WORKER_PROCESSES = 'many' must"):
        worker_processes({"MAABO_WORKER_PROCESSES": "many"}, "")


# The init process.


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        # In a container, an orphaned grandchild becomes a child of the init process.
        ("import os, time; os.fork() or os._exit(time.sleep(0.05) or 0); import sys; sys.exit(4)", 4),
    ],
)
def test_the_init_process_returns_the_exit_code_of_its_role(script, code):
    assert start_init(script).wait(20) == code


def test_the_init_process_forwards_signals():
    process = start_init(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print(flush=True); time.sleep(30)"
    )
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 5


def start_init(script):
    call = f"run_as_init({[sys.executable, '-c', script]!r}, os.environ)"
    run = f"import os, sys; from deploy.image.startup import run_as_init; sys.exit({call})"
    return subprocess.Popen([sys.executable, "-c", run], cwd=servers.ROOT, stdout=subprocess.PIPE)


# Kernels.


def test_kernels_are_of_a_level_that_a_family_of_processors_has():
    flags = "flags : abm avx avx2 bmi1 bmi2 f16c fma movbe popcnt sse4_1 sse4_2 ssse3"

    assert numba_target("x86_64", flags) == {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    assert numba_target("x86_64", flags.replace(" avx2", "")) == {}
    assert numba_target("aarch64", "")["NUMBA_CPU_NAME"] == "generic"


def test_kernels_that_cannot_be_copied_do_not_stop_the_role(tmp_path):
    messages = []
    install_kernels(
        {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "MAABO_KERNELS": str(tmp_path / "nowhere")}, messages.append
    )

    assert "they are compiled now" in "".join(messages)


# Passwords.


def prepare(tmp_path, given=(), **environment):
    (tmp_path / "given").mkdir(exist_ok=True)
    for name in ("redis", "ledger", "flower", "grafana"):
        (tmp_path / "given" / f"{name}-password").write_text(f"{GIVEN}\n" if name in given else "")
    messages = []
    prepare_secrets(environment, messages.append, tmp_path / "given", tmp_path / "output")
    passwords = {path.parent.name: path.read_text() for path in (tmp_path / "output").glob("*/password")}
    assert not any(secret in "".join(messages) for secret in passwords.values())
    return passwords


def test_passwords_are_generated_once_if_only_this_machine_has_access(tmp_path):
    passwords = prepare(tmp_path)

    assert sorted(passwords) == ["flower", "grafana", "ledger", "redis"]
    assert len(set(passwords.values())) == 4
    assert min(map(len, passwords.values())) >= 40
    assert prepare(tmp_path, MAABO_BIND="127.0.0.1") == passwords
    assert {oct(path.stat().st_mode)[-3:] for path in (tmp_path / "output").glob("*/password")} == {"440"}
    assert (tmp_path / "output/redis/auth.conf").read_text() == f'requirepass "{passwords["redis"]}"\n'


def test_the_passwords_of_the_operator_are_used(tmp_path):
    passwords = prepare(tmp_path)

    assert prepare(tmp_path, given=["redis"]) == passwords | {"redis": GIVEN}


def test_if_other_machines_have_access_each_missing_password_is_named(tmp_path):
    prepare(tmp_path)  # passwords generated earlier do not count
    with pytest.raises(SettingsError) as caught:
        prepare(tmp_path, given=["redis"], MAABO_BIND="0.0.0.0")

    messages = str(caught.value)
    assert "MAABO_BIND=0.0.0.0 is reachable from other machines" in messages
    assert ["MAABO_REDIS_PASSWORD_FILE" in messages, "MAABO_LEDGER_PASSWORD_FILE" in messages] == [False, True]
    assert ["MAABO_FLOWER_PASSWORD_FILE" in messages, "MAABO_GRAFANA_PASSWORD_FILE" in messages] == [True, False]
    prepare(tmp_path, given=["redis", "ledger", "flower"], MAABO_BIND="0.0.0.0")
    with pytest.raises(SettingsError, match="MAABO_GRAFANA_PASSWORD_FILE"):
        prepare(tmp_path, MAABO_MONITORING_BIND="10.0.0.7")


def test_a_password_that_is_too_short_is_refused_without_showing_it(tmp_path):
    (tmp_path / "redis-password").write_text("short!")
    with pytest.raises(
        SettingsError, match="MAABO_REDIS_PASSWORD_FILE: the file must have one line of 16 to 200"
    ) as caught:
        prepare_secrets({}, print, tmp_path, Path(tmp_path / "output"))

    assert "short!" not in str(caught.value)
