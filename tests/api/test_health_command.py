"""`python -m scheduler health`, the health check of containers and services."""

import os
import socket
import sys

import pytest

from maabo_dist.console import run_command
from scheduler.cli import scheduler
from tests.cluster import a_scheduler
from tests.servers import wait_for


@pytest.fixture
def health(monkeypatch, capsys):
    def call(settings):
        for variable, value in settings.environment().items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(sys, "argv", ["scheduler", "health"])
        return run_command(scheduler, "python -m scheduler"), capsys.readouterr().err

    return call


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_health_checks_schedulers_of_this_host_only(health, settings):
    code, message = health(settings)
    assert (code, "has run its loop" in message) == (1, True)

    with a_scheduler(settings, owner="elsewhere:1"):
        assert health(settings)[0] == 1
    owner = f"{socket.gethostname()}:{os.getpid()}"
    with a_scheduler(settings, owner=owner):
        wait_for(lambda: health(settings) == (0, f"{owner} is healthy.\n"), 20, what="a turn")


def test_health_fails_without_redis_and_hides_its_password(health, settings):
    code, message = health(settings.model_copy(update={"redis_url": "redis://:secret@127.0.0.1:1/0"}))

    assert code != 0
    assert "127.0.0.1:1" in message
    assert "secret" not in message
