"""`python -m scheduler token` on a ledger, without a server or Redis."""

import json
import sys

import pytest

from maabo_dist.console import run_command
from scheduler.cli import scheduler


@pytest.fixture
def token(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MAABO_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.setenv("MAABO_REDIS", "redis://127.0.0.1:1/0")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["scheduler", "token", *arguments])
        code = run_command(scheduler, "python -m scheduler")
        return code, *capsys.readouterr()

    return call


def test_the_first_token_is_created_listed_and_revoked(token):
    assert token("list") == (
        0, "There are no tokens: only processes on the server's machine have access.\n", ""
    )  # fmt: skip
    code, out, err = token("create", "--tenant", "ops", "--scopes", "read,submit,admin", "--expires", "30d")
    number = out.split("_")[1]

    assert (code, len(out.splitlines())) == (0, 1)
    assert err.startswith(f"maabo: token {number} for tenant ops with scopes read, submit, admin, valid until ")
    assert out.strip() not in err
    (listed,) = json.loads(token("list", "--json")[1])
    assert (listed["id"], listed["scopes"]) == (number, ["read", "submit", "admin"])
    assert "hash" not in listed
    assert listed["expires"] - listed["created"] == pytest.approx(30 * 86400)
    assert token("revoke", number) == (0, f"Token {number} is revoked.\n", "")
    assert token("list", "--json", "--tenant", "them")[1] == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["create", "--scopes", "root"], "Unknown scope 'root'."),
        (["create", "--scopes", ","], "is empty"),
        (["create", "--expires", "tomorrow"], "not a duration"),
        (["create", "--tenant", "x" * 201], "--tenant has 201 characters"),
        (["revoke", "0" * 12], "There is no token 000000000000 that is valid"),
    ],
)
def test_a_mistake_is_a_line_with_exit_code_2(arguments, word, token):
    code, out, err = token(*arguments)

    assert (code, out) == (2, "")
    assert word in err
