"""The entry of the image: commands, the first process, kernels, passwords."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image.kernels import target, unpack
from deploy.image.roles import ROLES, command_of, processes
from deploy.image.secret_files import prepare_secrets
from maabo_dist.errors import SettingsError
from tests import servers

GIVEN = "a-password-of-the-operator"
WITH_FLOWER = {"MAABO_FLOWER_PASSWORD_FILE": "/run/maabo/flower/password"}


def entry(*arguments, **environment):
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
    command = command_of(role, ["--more"], WITH_FLOWER)

    assert command[:2] == ["python", "-m"]
    assert command[-1] == "--more"
    assert "password" not in " ".join(command)


def test_flower_is_not_started_without_a_password():
    with pytest.raises(SettingsError, match="MAABO_FLOWER_PASSWORD_FILE"):
        command_of("flower", [], {})


def test_a_role_that_is_unknown_is_refused_with_those_that_are():
    refused = entry("conductor")

    assert refused.returncode == 2
    assert all(role in refused.stderr for role in ROLES)
    assert entry("--help").returncode == 0


def test_a_probe_of_nothing_says_so(tmp_path):
    probed = entry("health", MAABO_ROLE_FILE=str(tmp_path / "role"))

    assert (probed.returncode, probed.stderr) == (2, "maabo: No role has been started here. Name the one to probe.\n")


def test_a_probe_of_a_server_that_is_not_there_says_where(tmp_path):
    (tmp_path / "role").write_text("api")
    probed = entry("health", MAABO_ROLE_FILE=str(tmp_path / "role"), MAABO_HTTP_PORT="1")

    assert probed.returncode == 1
    assert "127.0.0.1:1/healthz does not answer" in probed.stderr


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the image is Linux")
def test_a_worker_has_the_processes_that_it_is_told_or_may_keep_busy():
    cores = len(os.sched_getaffinity(0))

    assert processes({"MAABO_WORKER_PROCESSES": "7"}, "100000 100000") == 7
    assert processes({}, "50000 100000\n") == 1
    assert processes({}, "max 100000\n") == processes({}, "") == cores
    with pytest.raises(SettingsError, match="MAABO_WORKER_PROCESSES = 'many'"):
        processes({"MAABO_WORKER_PROCESSES": "many"}, "")


# The first process.


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        # A grandchild that is left behind comes to the first process, where that is the first of a container.
        ("import os, time; os.fork() or os._exit(time.sleep(0.05) or 0); import sys; sys.exit(4)", 4),
    ],
)
def test_the_first_process_ends_as_its_role_does(script, code):
    assert first(script).wait(20) == code


def test_the_first_process_passes_signals_on():
    process = first(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print(flush=True); time.sleep(30)"
    )
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 5


def first(script):
    call = f"run_as_first({[sys.executable, '-c', script]!r}, os.environ)"
    run = f"import os, sys; from deploy.image.first import run_as_first; sys.exit({call})"
    return subprocess.Popen([sys.executable, "-c", run], cwd=servers.ROOT, stdout=subprocess.PIPE)


# Kernels.


def test_kernels_are_of_a_level_that_a_family_of_processors_has():
    flags = "flags : abm avx avx2 bmi1 bmi2 f16c fma movbe popcnt sse4_1 sse4_2 ssse3"

    assert target("x86_64", flags) == {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    assert target("x86_64", flags.replace(" avx2", "")) == {}
    assert target("aarch64", "")["NUMBA_CPU_NAME"] == "generic"


def test_kernels_that_cannot_be_unpacked_are_no_reason_to_stop(tmp_path):
    said = []
    unpack({"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "MAABO_KERNELS": str(tmp_path / "nowhere")}, said.append)

    assert "are compiled now" in "".join(said)


# Passwords.


def prepared(tmp_path, given=(), **environment):
    (tmp_path / "given").mkdir(exist_ok=True)
    for name in ("redis", "ledger", "flower", "grafana"):
        (tmp_path / "given" / f"{name}-password").write_text(f"{GIVEN}\n" if name in given else "")
    said = []
    prepare_secrets(environment, said.append, tmp_path / "given", tmp_path / "kept")
    kept = {path.parent.name: path.read_text() for path in (tmp_path / "kept").glob("*/password")}
    assert not any(secret in "".join(said) for secret in kept.values())
    return kept


def test_on_this_machine_alone_passwords_are_made_once(tmp_path):
    made = prepared(tmp_path)

    assert sorted(made) == ["flower", "grafana", "ledger", "redis"]
    assert len(set(made.values())) == 4
    assert min(map(len, made.values())) >= 40
    assert prepared(tmp_path, MAABO_BIND="127.0.0.1") == made
    assert {oct(path.stat().st_mode)[-3:] for path in (tmp_path / "kept").glob("*/password")} == {"440"}
    assert (tmp_path / "kept/redis/auth.conf").read_text() == f'requirepass "{made["redis"]}"\n'


def test_what_the_operator_gives_is_taken(tmp_path):
    made = prepared(tmp_path)

    assert prepared(tmp_path, given=["redis"]) == made | {"redis": GIVEN}


def test_where_other_machines_come_in_each_missing_password_is_named(tmp_path):
    prepared(tmp_path)  # a trial before: what it made does not count
    with pytest.raises(SettingsError) as caught:
        prepared(tmp_path, given=["redis"], MAABO_BIND="0.0.0.0")

    said = str(caught.value)
    assert "MAABO_BIND=0.0.0.0 lets other machines in" in said
    assert ["MAABO_REDIS_PASSWORD_FILE" in said, "MAABO_LEDGER_PASSWORD_FILE" in said] == [False, True]
    assert ["MAABO_FLOWER_PASSWORD_FILE" in said, "MAABO_GRAFANA_PASSWORD_FILE" in said] == [True, False]
    prepared(tmp_path, given=["redis", "ledger", "flower"], MAABO_BIND="0.0.0.0")
    with pytest.raises(SettingsError, match="MAABO_GRAFANA_PASSWORD_FILE"):
        prepared(tmp_path, MAABO_MONITORING_BIND="10.0.0.7")


def test_a_password_that_is_too_short_is_refused_without_showing_it(tmp_path):
    (tmp_path / "redis-password").write_text("short!")
    with pytest.raises(SettingsError, match="MAABO_REDIS_PASSWORD_FILE: one line of 16 to 200") as caught:
        prepare_secrets({}, print, tmp_path, Path(tmp_path / "kept"))

    assert "short!" not in str(caught.value)
