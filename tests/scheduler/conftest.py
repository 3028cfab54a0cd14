"""Where ledgers are: a file of SQLite, and a real PostgreSQL that all tests of this directory share."""

import os
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import text

from tests import servers
from tests.ledgers import connected


@pytest.fixture(scope="session")
def postgres():
    if servers.postgres_programs() is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_POSTGRES") == "1" else pytest.skip
        complain("PostgreSQL is not installed; `apt-get install postgresql` brings it.")
    # Not below pytest's own directories: those are closed to the user that PostgreSQL runs as.
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield url


@pytest.fixture
def postgres_url(postgres):
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
