"""Ledgers that are damaged, full, locked or unavailable."""

import socket
from contextlib import ExitStack, suppress
from functools import partial
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import NullPool, create_engine, event, text
from sqlalchemy.engine import make_url

from maabo_dist.errors import FormatError, SettingsError
from scheduler.ledger import Ledger
from scheduler.ledger.database import NETWORK_TIMEOUT, LedgerError
from scheduler.ledger.leases import fenced
from scheduler.ledger.search import ResultRow
from tests import servers
from tests.ledgers import a_job, call_concurrently, connected, contents, held, numbers, opened, write_search

pytestmark = pytest.mark.xdist_group("ledger")


def test_a_file_that_is_not_a_database_has_a_clear_error(tmp_path):
    (tmp_path / "x.db").write_bytes(b"this is not a database, not at all" * 100)

    with pytest.raises(LedgerError, match=r"^The ledger failed: file is not a database\. "):
        Ledger(f"sqlite:///{tmp_path}/x.db")


@pytest.mark.parametrize("remaining", [0.9, 0.5, 0.1])
def test_a_truncated_file_has_a_clear_error(sqlite_url, tmp_path, remaining):
    with opened(sqlite_url) as ledger:
        ledger.jobs.add([a_job(number) for number in range(100)], 1.0)
    path = tmp_path / "ledger.db"
    path.write_bytes(path.read_bytes()[: int(remaining * path.stat().st_size)])

    with pytest.raises(LedgerError, match=r"^The ledger failed: database disk image is malformed\. "):
        Ledger(sqlite_url)


def test_a_missing_directory_has_a_clear_error(tmp_path):
    with pytest.raises(LedgerError, match="unable to open database file"):
        Ledger(f"sqlite:///{tmp_path}/nowhere/x.db")


def test_a_write_that_fails_on_a_full_disk_leaves_nothing_behind(sqlite_url):
    limit = {"pages": 2**30}
    with opened(sqlite_url) as ledger:
        engine = ledger.database.engine
        event.listen(engine, "checkout", lambda raw, *_: raw.execute(f"PRAGMA max_page_count={limit['pages']}"))
        lease = held(ledger)
        write_search(ledger, lease)
        before, limit["pages"] = contents(sqlite_url), 1  # it cannot grow any more

        with pytest.raises(LedgerError, match="full"):
            ledger.search.write(lease, 105.0, {"trees": 9}, new_results=[ResultRow(0, 5, 9, b"x" * 1_000_000)])

        assert contents(sqlite_url) == before
        limit["pages"] = 2**30
        ledger.search.write(lease, 106.0, new_results=[ResultRow(0, 5, 9, b"x" * 1_000_000)])


@pytest.mark.parametrize("url", ["mysql://me:geheim@host/x", "nonsense://me:geheim@host/x", "oracle://me:geheim@h/x"])
def test_a_database_of_another_kind_is_refused_without_its_password(url):
    with pytest.raises(SettingsError, match="cannot be used") as caught:
        Ledger(url)

    assert "geheim" not in str(caught.value)


def test_a_job_locked_by_another_transaction_is_skipped(postgres_url):
    with opened(postgres_url) as ledger:
        ledger.jobs.add([a_job(1), a_job(2)], 1.0)
        with connected(postgres_url) as frozen:
            frozen.execute(text(f"SELECT id FROM maabo_jobs WHERE id = '{a_job(1).id}' FOR UPDATE"))

            assert numbers(ledger.leases.acquire("one", 100.0, seconds=10, limit=5)) == [2]


def test_a_broken_socket_is_a_ledger_error(ledger):
    with pytest.raises(LedgerError, match="reset by peer"), ledger.database.write():
        raise ConnectionResetError(104, "Connection reset by peer")


def test_client_and_server_time_out_when_the_other_host_is_silent(postgres_url):
    with opened(postgres_url) as ledger, ledger.database.read() as connection:
        sock = connection.connection.dbapi_connection._usock  # noqa: SLF001 - pg8000 has no public access to its socket
        waits = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar()

        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == NETWORK_TIMEOUT * 1000
        assert sock.gettimeout() is None  # slow servers are allowed
        assert waits == f"{NETWORK_TIMEOUT}s"


def test_a_database_of_another_encoding_is_refused_with_the_remedy(postgres_url):
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS odd"))
        connection.execute(
            text("CREATE DATABASE odd ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        )

    with pytest.raises(
        SettingsError, match=r"has the encoding SQL_ASCII; UTF8 is needed\. Make it with CREATE DATABASE"
    ):
        Ledger(make_url(postgres_url).set(database="odd").render_as_string(hide_password=False))


def test_a_ledger_recovers_from_the_loss_of_its_connections(postgres_url):
    with opened(postgres_url) as ledger:
        lease = held(ledger)
        cut_off(postgres_url)
        assert retry(ledger.jobs.count_by_state) == {"queued": 1}

        with pytest.raises(LedgerError), fenced(ledger.database, lease, 101.0, trees=9):
            cut_off(postgres_url)

        assert retry(lambda: ledger.jobs.get(lease.job)).trees == 0
        ledger.search.write(lease, 102.0, {"trees": 9})


def retry(call):
    """Call until it succeeds, at most six times, as the scheduler's loop does in an outage."""
    for _ in range(5):
        with suppress(LedgerError):
            return call()
    return call()


def cut_off(url):
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connected(url) as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}"))


@pytest.mark.parametrize("processes", [1, 3, 8])
def test_processes_share_the_connections_of_a_server(small_postgres, processes):
    """17 connections are for ordinary users."""
    with ExitStack() as stack:
        ledgers = [stack.enter_context(opened(small_postgres)) for _ in range(processes)]

        def submit(number):
            ledger = ledgers[number % processes]
            job = ledger.submissions.submit(a_job(number, settings={"seed": number}), 1.0, fresh=True).job
            return ledger.jobs.get(job).id

        calls = [partial(submit, 1000 * processes + number) for number in range(60)]
        assert len(set(call_concurrently(*calls))) == len(calls)
        with ledgers[0].database.read() as connection:
            used = connection.execute(text("SELECT count(*) FROM pg_stat_activity WHERE usename = 'ordinary'")).scalar()
        assert used <= 17


@pytest.fixture(scope="module")
def small_postgres(postgres):
    with (
        TemporaryDirectory(prefix="maabo-postgres-") as directory,
        servers.postgres_server(directory, max_connections=20) as url,
    ):
        with connected(url) as connection:
            connection.execute(text("CREATE ROLE ordinary LOGIN PASSWORD 'only-for-tests' IN ROLE pg_read_all_stats"))
            connection.execute(text("GRANT ALL ON SCHEMA public TO ordinary"))
        yield make_url(url).set(username="ordinary").render_as_string(hide_password=False)


def test_a_missing_or_refusing_server_has_a_clear_error_without_the_password(postgres):
    valid = make_url(postgres)
    messages = {}
    for name, wrong in {"port": servers.free_port(), "password": "geheim", "database": "nowhere"}.items():
        with pytest.raises(LedgerError) as caught:
            Ledger(valid.set(**{name: wrong}).render_as_string(hide_password=False))
        messages[name] = str(caught.value)

    assert "Can't create a connection to host 127.0.0.1" in messages["port"]
    assert 'The ledger failed: password authentication failed for user "maabo".' in messages["password"]
    assert 'The ledger failed: database "nowhere" does not exist.' in messages["database"]
    assert not any(secret in text for text in messages.values() for secret in (valid.password, "geheim"))


def test_a_job_of_another_version_is_reported_and_does_not_affect_others(ledger):
    ledger.jobs.add([a_job(1), a_job(2)], 1.0)
    with ledger.database.write() as connection:
        connection.execute(text(f"UPDATE maabo_jobs SET spec = '{{}}' WHERE id = '{a_job(1).id}'"))

    assert [row.id for row in ledger.jobs.get_many([a_job(1).id, a_job(2).id])] == [a_job(2).id]
    with pytest.raises(FormatError, match="another version"):
        ledger.jobs.get(a_job(1).id)
