"""A Redis server for a module, and ledgers: a SQLite file, and a real PostgreSQL that all tests here share."""

import os
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

from maabo_dist.mining import run as mining_run
from scheduler.ledger import Ledger
from tests import servers
from tests.ledgers import TABLES, connected, opened
from tests.scheduler.machine_world import RecordingProposer

TABLES_OF_ROWS = [name for name in TABLES if name != "maabo_meta"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The URL of a Redis server."""
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def recorded_scores():
    """Record scores in all searches of a module, including those restored from the ledger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining_run, "SubsetProposer", RecordingProposer)
        yield


@pytest.fixture(scope="session")
def postgres():
    if servers.postgres_programs() is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_POSTGRES") == "1" else pytest.skip
        complain("PostgreSQL is not installed; `apt-get install postgresql` installs it.")
    # Not below pytest's own directories, which the user of PostgreSQL cannot access.
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, servers.postgres_server(directory) as url:
        yield url


@pytest.fixture(scope="session")
def _created_ledger_url(postgres):
    """URL of a database with the tables of a ledger; creating them takes longer than most tests."""
    with create_engine(postgres, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
        connection.execute(text("CREATE DATABASE created"))
    url = make_url(postgres).set(database="created").render_as_string(hide_password=False)
    Ledger(url).close()
    return url


@pytest.fixture
def postgres_url(_created_ledger_url):
    """URL of an empty ledger."""
    truncate = " ".join(f"IF EXISTS (SELECT FROM {name}) THEN TRUNCATE {name}; END IF;" for name in TABLES_OF_ROWS)
    with connected(_created_ledger_url) as connection:
        connection.execute(text(f"DO $$ BEGIN {truncate} END $$"))
    return _created_ledger_url


@pytest.fixture
def empty_postgres_url(postgres):
    """URL of a database without tables."""
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
