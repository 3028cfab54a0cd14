"""The blocking client is generated, and the committed version is up to date."""

from shutil import copytree

from tools.generate_client import CLIENT, generate


def test_the_blocking_client_is_up_to_date_with_its_source(tmp_path):
    copytree(CLIENT / "_async", tmp_path / "_async")

    generated = {path.name: path.read_text(encoding="utf-8") for path in generate(tmp_path)}

    committed = {path.name: path.read_text(encoding="utf-8") for path in (CLIENT / "_sync").glob("[a-z]*.py")}
    assert generated == committed, "run `make client`"


def test_nothing_asynchronous_is_left_in_the_blocking_client():
    text = "".join(path.read_text(encoding="utf-8") for path in (CLIENT / "_sync").glob("[a-z]*.py"))

    for word in ("await ", "async ", "anyio", "AsyncRemoteJob", "SyncClient", "SyncRemoteJob"):
        assert word not in text
