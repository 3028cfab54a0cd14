"""PostgreSQL with prepared and deferred statements: fewer round trips, the same results and errors."""

from contextlib import nullcontext, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg8000.core import Context, i_pack
from pg8000.legacy import Connection
from sqlalchemy import text

from scheduler.ledger import prepared
from scheduler.ledger.database import NETWORK_TIMEOUT, DuplicateError, LedgerError, deferred
from scheduler.ledger.prepared import PreparingConnection
from tests.ledgers import a_job, opened

pytestmark = pytest.mark.xdist_group("ledger")

INSERT = text("INSERT INTO maabo_meta (key, value) VALUES (:key, :value)")
SELECT = text("SELECT value FROM maabo_meta WHERE key = :key")
PREPARED = text("SELECT count(*) FROM pg_prepared_statements")


@pytest.fixture
def ledger(postgres_url):
    with opened(postgres_url) as ledger:
        yield ledger
        with ledger.database.write() as connection:
            connection.execute(text("DELETE FROM maabo_meta WHERE key LIKE 'test%'"))


def add(connection, *names):
    for name in names:
        connection.execute(INSERT, {"key": f"test {name}", "value": name})


def values(ledger):
    with ledger.database.read() as connection:
        return set(connection.execute(text("SELECT value FROM maabo_meta WHERE key LIKE 'test%'")).scalars())


def count_messages(monkeypatch):
    """Count how often a connection waits for responses."""
    waits, read = [], PreparingConnection.read_responses
    monkeypatch.setattr(PreparingConnection, "read_responses", lambda *args: waits.append(1) or read(*args))
    return waits


def test_a_statement_is_prepared_when_it_is_executed_again(ledger):
    with ledger.database.read() as connection:
        before = connection.execute(PREPARED).scalar()
        counts = []
        for _ in range(3):
            assert connection.execute(SELECT, {"key": "schema"}).scalar().isdigit()
            counts.append(connection.execute(PREPARED).scalar() - before)

    assert counts == [0, 1, 1]


def test_a_connection_keeps_a_limited_number_of_prepared_statements(ledger, monkeypatch):
    monkeypatch.setattr(prepared, "MAX_STATEMENTS", 3)
    with ledger.database.read() as connection:
        for number in range(20):
            for _ in range(2):
                query = text(f"SELECT {number} + CAST(:more AS INTEGER)")
                assert connection.execute(query, {"more": 5}).scalar() == number + 5

        assert connection.execute(PREPARED).scalar() <= 3


def test_a_read_and_a_group_of_submissions_take_few_round_trips(ledger, monkeypatch):
    for number in range(1, 4):  # until everything is prepared
        ledger.submissions.submit(a_job(number, settings={"seed": number}), 1.0)
        ledger.jobs.get(a_job(1).id)
    waits = count_messages(monkeypatch)

    ledger.jobs.get(a_job(1).id)
    reading = len(waits)
    ledger.submissions.submit(a_job(9, settings={"seed": 9}), 1.0)

    assert reading == 1
    assert len(waits) - reading == 2  # what the ledger has, and the commit


def test_the_error_of_a_deferred_statement_is_raised_by_the_commit(ledger):
    with ledger.database.write() as connection:
        add(connection, "a", "b")  # prepared from now on

    with pytest.raises(DuplicateError), ledger.database.write() as connection, deferred(connection):
        add(connection, "c", "a", "d")

    assert values(ledger) == {"a", "b"}


def test_deferred_executions_of_several_statements_are_all_done_in_order(ledger):
    rename = text("UPDATE maabo_meta SET value = value || :more WHERE key = :key")
    with ledger.database.write() as connection:
        add(connection, "a", "b")
        for _ in range(2):
            connection.execute(rename, {"key": "test a", "more": "1"})

    with ledger.database.write() as connection:
        with deferred(connection):
            add(connection, "c", "d")
            for number in "234":
                connection.execute(rename, {"key": "test a", "more": number})
            add(connection, "e")
            connection.execute(rename, {"key": "test e", "more": "!"})
        seen = connection.execute(SELECT, {"key": "test a"}).scalar()
        with deferred(connection):
            connection.execute(rename, {"key": "test a", "more": "5"})

    assert seen == "a11234"
    assert values(ledger) == {"a112345", "b", "c", "d", "e!"}


def test_the_error_of_a_deferred_statement_is_raised_by_the_next_statement(ledger):
    with ledger.database.write() as connection:
        add(connection, "a", "b")

    reached = []

    def write():
        with ledger.database.write() as connection:
            with deferred(connection):
                add(connection, "a")
            reached.append("a statement")
            connection.execute(SELECT, {"key": "schema"})
            reached.append("the commit")

    with pytest.raises(DuplicateError):
        write()

    assert reached == ["a statement"]
    assert values(ledger) == {"a", "b"}


def test_a_transaction_that_is_given_up_leaves_nothing_open(ledger):
    with ledger.database.write() as connection:
        add(connection, "a", "b")

    with suppress(ZeroDivisionError), ledger.database.write() as connection, deferred(connection):
        add(connection, "c", "a")
        raise ZeroDivisionError

    with ledger.database.write() as connection:
        add(connection, "d")
    assert values(ledger) == {"a", "b", "d"}
    idle = text("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
    with ledger.database.read() as connection:
        assert connection.execute(idle).scalar() == 0


def test_a_statement_that_the_server_has_dropped_is_prepared_again(ledger):
    with ledger.database.read() as connection:
        for _ in range(2):
            connection.execute(SELECT, {"key": "schema"})
        connection.execute(text("DEALLOCATE ALL"))

    with pytest.raises(LedgerError), ledger.database.read() as connection:
        connection.execute(SELECT, {"key": "schema"})

    with ledger.database.read() as connection:
        assert connection.execute(SELECT, {"key": "schema"}).scalar().isdigit()


def test_statements_of_a_transaction_that_the_server_has_dropped_are_prepared_again(ledger):
    for number in range(1, 4):
        ledger.submissions.submit(a_job(number, settings={"seed": number}), 1.0)
    with ledger.database.read() as connection:
        connection.execute(text("DEALLOCATE ALL"))

    with pytest.raises(LedgerError):
        ledger.submissions.submit(a_job(4, settings={"seed": 4}), 1.0)

    assert ledger.jobs.get(a_job(4).id) is None
    assert ledger.submissions.submit(a_job(4, settings={"seed": 4}), 1.0).created


def put_all(ledger, transactions):
    """Perform transactions, each of which puts keys, deferred or not, and then looks a key up if it is given."""
    outcomes = []
    for puts, looked_up in transactions:
        try:
            with ledger.database.write() as connection:
                for name, is_deferred in puts:
                    with deferred(connection) if is_deferred else nullcontext():
                        add(connection, name)
                seen = looked_up and connection.execute(SELECT, {"key": f"test {looked_up}"}).scalar()
            outcomes.append(seen)
        except DuplicateError:
            outcomes.append("duplicate")
    return outcomes


def slowly_put_all(transactions):
    """The same in plain Python: a transaction with a key that exists has no effect."""
    outcomes, stored = [], set()
    for puts, looked_up in transactions:
        names = [name for name, _ in puts]
        if len({*names}) < len(names) or stored & {*names}:
            outcomes.append("duplicate")
        else:
            stored |= {*names}
            outcomes.append(looked_up if looked_up in stored else None)
    return outcomes, stored


NAMES = st.sampled_from("abcdef")
PUTS = st.lists(st.tuples(NAMES, st.booleans()), max_size=4)


def test_deferred_statements_have_the_effects_of_others(ledger):
    with ledger.database.write() as connection:
        add(connection, "x", "y")  # prepared from now on

    @given(st.lists(st.tuples(PUTS, st.none() | NAMES), max_size=5))
    @settings(max_examples=60, deadline=None)
    def check(transactions):
        with ledger.database.write() as connection:
            connection.execute(text("DELETE FROM maabo_meta WHERE key LIKE 'test%'"))

        assert (put_all(ledger, transactions), values(ledger)) == slowly_put_all(transactions)

    check()


CELLS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6))
def test_rows_are_read_as_by_pg8000(rows):
    ours, theirs = (Context("SELECT", columns=[{}] * 3, input_funcs=readers) for readers in ((str, len, repr), None))
    theirs.input_funcs = [str, len, repr]
    connection = object.__new__(PreparingConnection)
    connection._client_encoding = "utf8"
    for row in rows * 2:
        cells = [None if cell is None else cell.encode() for cell in row]
        data = b"\0\3" + b"".join(i_pack(-1) if cell is None else i_pack(len(cell)) + cell for cell in cells)
        connection.handle_DATA_ROW(data, ours)
        Connection.handle_DATA_ROW(connection, data, theirs)

    assert [list(row) for row in ours.rows] == theirs.rows


def test_a_snapshot_does_not_see_later_commits(ledger):
    with ledger.database.snapshot() as connection:
        connection.execute(SELECT, {"key": "schema"})
        with ledger.database.write() as other:
            add(other, "later")

        assert connection.execute(SELECT, {"key": "test later"}).scalar() is None
    assert values(ledger) == {"later"}


def test_the_server_notices_in_seconds_that_the_host_of_a_session_is_gone(ledger):
    """Also in the middle of a statement, whose transaction keeps its locks. By default, that takes two hours."""
    with ledger.database.read() as connection:
        idle, interval, count, unsent = (
            int(connection.execute(text(f"SELECT setting FROM pg_settings WHERE name = '{name}'")).scalar())
            for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        )

    assert idle + interval * count == NETWORK_TIMEOUT
    assert unsent == 1000 * NETWORK_TIMEOUT
