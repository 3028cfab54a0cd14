"""Where ledgers are: a file of SQLite, and a real PostgreSQL that all tests of this directory share."""

import os
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

from scheduler.ledger import Ledger
from tests import servers
from tests.ledgers import TABLES, connected, opened

TABLES_OF_ROWS = [name for name in TABLES if name != "maabo_meta"]


@pytest.fixture(scope="session")
def postgres():
    if servers.postgres_programs() is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_POSTGRES") == "1" else pytest.skip
        complain("PostgreSQL is not installed; `apt-get install postgresql` brings it.")
    # Not below pytest's own directories: those are closed to the user that PostgreSQL runs as.
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield url


@pytest.fixture(scope="session")
def _made(postgres):
    """A database in which the tables of a ledger are; to make them takes longer than most tests do."""
    with create_engine(postgres, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
        connection.execute(text("CREATE DATABASE made"))
    url = make_url(postgres).set(database="made").render_as_string(hide_password=False)
    Ledger(url).close()
    return url


@pytest.fixture
def postgres_url(_made):
    """Of a ledger in which there is nothing."""
    emptied = " ".join(f"IF EXISTS (SELECT FROM {name}) THEN TRUNCATE {name}; END IF;" for name in TABLES_OF_ROWS)
    with connected(_made) as connection:
        connection.execute(text(f"DO $$ BEGIN {emptied} END $$"))
    return _made


@pytest.fixture
def empty_postgres_url(postgres):
    """Of a database in which not even tables are."""
    with connected(postgres) as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return postgres


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture
def ledger(url):
    with opened(url) as ledger:
        yield ledger
