"""The systemd units, checked with systemd-analyze."""

import configparser
import re
import shutil
import subprocess
import sys

import pytest

from maabo_dist.cluster.settings import ClusterSettings
from scheduler.api.settings import ApiSettings
from tests.servers import ROOT

FOLDER = ROOT / "deploy/systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
PYTHON, APPLICATION = "/opt/maabo/venv/bin/python", "/opt/maabo/app"


class Repeated(dict):
    """Collect all values of a name, because systemd has lists."""

    def __setitem__(self, name, value):
        if isinstance(value, list) and isinstance(self.get(name), list):
            value = self[name] + value
        super().__setitem__(name, value)


def read(name):
    parser = configparser.RawConfigParser(strict=False, dict_type=Repeated, comment_prefixes="#", delimiters="=")
    parser.optionxform = str
    parser.read(FOLDER / name)
    return parser


def environment_file():
    lines = (FOLDER / "maabo.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)
def test_systemd_accepts_the_units_and_rates_them_as_restricted(tmp_path):
    # On a machine where they are not installed, these commands and directories stand for theirs.
    for path in [*FOLDER.glob("*.service"), *FOLDER.glob("*.target")]:
        text = path.read_text().replace(PYTHON, sys.executable).replace(APPLICATION, str(ROOT))
        (tmp_path / path.name.replace("@.", "@1.")).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    services = [unit for unit in units if unit.endswith(".service")]
    judge = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager"]
    judged = subprocess.run([*judge, *services], capture_output=True, text=True, check=False)
    assert judged.returncode == 0, [line for line in judged.stdout.splitlines() if "exposure level" in line]


def test_there_is_a_unit_for_every_role():
    assert SERVICES == ["maabo-api.service", "maabo-flower.service", "maabo-scheduler.service", "maabo-worker@.service"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_stops_gracefully_and_has_its_passwords_as_credentials(name):
    unit = read(name)
    service = unit["Service"]

    assert (service["KillMode"], service["KillSignal"], service["User"]) == ("mixed", "SIGTERM", "maabo")
    assert unit["Install"]["WantedBy"] == "maabo.target"
    credentials = set(re.findall(r"([\w-]+-password):/etc/maabo/\1", service["LoadCredential"]))
    assert credentials == set(re.findall(r"_PASSWORD_FILE=%d/([\w-]+)", service["Environment"]))
    assert "redis-password" in credentials
    assert "password" not in service["ExecStart"]


def test_a_worker_has_longer_to_stop_than_a_task_may_take():
    longest = ClusterSettings().task_limit * 1.25

    assert float(read("maabo-worker@.service")["Service"]["TimeoutStopSec"]) > longest


def test_the_environment_file_names_settings_that_exist():
    variables = environment_file()

    models = (ClusterSettings(), ApiSettings())
    known_variables = {settings.variable(name) for settings in models for name in type(settings).model_fields}
    assert set(variables) <= known_variables | {"MAABO_WORKER_PROCESSES"}
    ClusterSettings.from_environment(variables)
    ApiSettings.from_environment(variables)
