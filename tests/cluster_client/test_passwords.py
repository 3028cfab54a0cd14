"""Passwords in files: they become part of the addresses, and never of error messages."""

import pytest

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import SettingsError

SECRET = "p@ss/w:rd#%"
ESCAPED = "p%40ss%2Fw%3Ard%23%25"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize(
    ("field", "variable", "address", "whole"),
    [
        ("redis_url", "MAABO_REDIS", "redis://host:6379/0", f"redis://default:{ESCAPED}@host:6379/0"),
        ("redis_url", "MAABO_REDIS", "rediss://me@host/1?x=y", f"rediss://me:{ESCAPED}@host/1?x=y"),
        ("redis_url", "MAABO_REDIS", "unix:///run/redis.sock", f"unix://default:{ESCAPED}@/run/redis.sock"),
        ("ledger_url", "MAABO_LEDGER", "postgresql+pg8000://me@db/x", f"postgresql+pg8000://me:{ESCAPED}@db/x"),
    ],
)
def test_a_password_in_a_file_becomes_part_of_the_address(field, variable, address, whole, file):
    settings = ClusterSettings.from_environment({variable: address, f"{variable}_PASSWORD_FILE": str(file)})

    assert getattr(settings, field) == whole


def test_the_default_address_gets_the_password_too(file):
    settings = ClusterSettings.from_environment({"MAABO_REDIS_PASSWORD_FILE": str(file)})

    assert settings.redis_url == f"redis://default:{ESCAPED}@127.0.0.1:6379/0"


def test_an_address_from_another_source_is_used_unchanged(file):
    overridden = ClusterSettings.from_environment({"MAABO_REDIS_PASSWORD_FILE": str(file)}, redis_url="redis://other/0")

    assert overridden.redis_url == "redis://other/0"


def test_the_environment_gives_another_process_the_same_settings(file):
    outside = {"MAABO_REDIS_PASSWORD_FILE": str(file)}
    settings = ClusterSettings.from_environment(outside)

    assert ClusterSettings.from_environment(outside | settings.environment()) == settings


@pytest.mark.parametrize(
    ("address", "content", "message"),
    [
        (
            "redis://me:other@host/0",
            SECRET,
            "MAABO_REDIS contains a password, and MAABO_REDIS_PASSWORD_FILE is also set",
        ),
        ("redis://host/0", "", "the file must contain one line of 1 to 1,000 characters"),
        ("redis://host/0", "two\nlines", "the file must contain one line"),
        ("redis://host/0", SECRET * 200, "the file must contain one line"),
        ("redis://host/0", b"\xff" + SECRET.encode(), "cannot be read: it is not text"),
        ("redis://host/0", None, "cannot be read: No such file or directory"),
        ("host/0", SECRET, "has no user name"),
    ],
)
def test_error_messages_do_not_contain_the_password(address, content, message, tmp_path):
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(SettingsError) as caught:
        ClusterSettings.from_environment({"MAABO_REDIS": address, "MAABO_REDIS_PASSWORD_FILE": str(path)})

    assert message in str(caught.value)
    assert not any(word in str(caught.value) for word in (SECRET, ESCAPED, "other@", "two"))


def test_a_ledger_in_a_file_has_no_password(file):
    with pytest.raises(SettingsError, match="MAABO_LEDGER has no user name"):
        ClusterSettings.from_environment({"MAABO_LEDGER_PASSWORD_FILE": str(file)})
