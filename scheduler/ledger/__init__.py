"""`Ledger`: the durable record of jobs, searches, leases and tenants, on SQLite (in WAL mode) or PostgreSQL."""

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, select

from maabo_dist.cluster.store import figures_name
from scheduler.ledger.audit import Audit
from scheduler.ledger.callbacks import Callbacks
from scheduler.ledger.database import Database
from scheduler.ledger.jobs import Jobs
from scheduler.ledger.leases import Leases
from scheduler.ledger.outages import Outages
from scheduler.ledger.passes import Passes, pass_artifacts
from scheduler.ledger.schema import datasets, jobs, prepared_columns
from scheduler.ledger.search import Screens, SearchState, Shuffles
from scheduler.ledger.submissions import Submissions
from scheduler.ledger.tenants import Datasets, Quotas, Tokens


class Ledger:
    """Access by topic; every method of a topic is one transaction."""

    def __init__(self, url: str) -> None:
        self.database = database = Database(url)
        self.jobs = Jobs(database)
        self.leases = Leases(database)
        self.search = SearchState(database)
        self.screens = Screens(database)
        self.shuffles = Shuffles(database)
        self.passes = Passes(database)
        self.callbacks = Callbacks(database)
        self.outages = Outages(database)
        self.submissions = Submissions(database)
        self.datasets = Datasets(database)
        self.tokens = Tokens(database)
        self.quotas = Quotas(database)
        self.audit = Audit(database)

    @property
    def now(self) -> ColumnElement[float]:
        """The time of the database's clock, for leases and commands."""
        return self.database.now

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def artifacts(self) -> set[str]:
        """The names of all objects in the store that a job or an uploaded table refers to."""
        with self.database.read() as connection:
            return find_artifacts(connection)


def find_artifacts(connection: Connection, ids: Sequence[str] | None = None) -> set[str]:
    """The names of the objects in the store that jobs and their tables refer to; by default, those of the ledger."""
    of_jobs = select(jobs.c.id, jobs.c.spec, jobs.c.segments, jobs.c.finished, jobs.c.dataset)
    of_tables = select(datasets.c.id, datasets.c.digest)
    if ids is not None:
        of_jobs = of_jobs.where(jobs.c.id.in_(ids))
        of_tables = of_tables.join(jobs, jobs.c.dataset == datasets.c.id).where(jobs.c.id.in_(ids))
    rows = connection.execute(of_jobs).all()
    tables = {row.id: row.digest for row in connection.execute(of_tables)}
    uploads = {f"tables/{digest}" for digest in tables.values()}
    # When an uploaded table has been deleted, its columns are needed until the jobs on it end.
    need_columns = [row for row in rows if row.finished is None or row.dataset is None or row.dataset in tables]
    columns = {f"columns/{json.loads(row.spec)['dataset']['fingerprint']}" for row in need_columns}
    if ids is None:
        prepared = connection.execute(select(prepared_columns.c.fingerprint)).scalars()
        columns |= {f"columns/{fingerprint}" for fingerprint in prepared}
    trees = {f"trees/{digest}" for row in rows for digest, _ in json.loads(row.segments)}
    of_passes = pass_artifacts(connection, ids)
    return uploads | columns | trees | of_passes | {figures_name(row.id) for row in rows}
