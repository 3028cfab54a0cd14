"""`Callbacks`: calls at the end of jobs."""

from collections.abc import Collection

from sqlalchemy import select, update

from scheduler.ledger.database import LedgerTopic
from scheduler.ledger.jobs import JOB_COLUMNS, JobRow, readable_jobs
from scheduler.ledger.schema import jobs

# Stored instead of the time of a callback that was given up.
GIVEN_UP = -1.0


class Callbacks(LedgerTopic):
    """Claims callbacks and records attempts."""

    def claim(self, now: float, seconds: float, limit: int = 100) -> list[JobRow]:
        """Return ended jobs whose callback is due. No other scheduler gets them for this many seconds."""
        due = (jobs.c.finished.is_not(None), jobs.c.called_back.is_(None), jobs.c.callback_due <= now)
        query = select(*JOB_COLUMNS).where(*due).order_by(jobs.c.callback_due).limit(limit)
        if not self._database.rows(query.limit(1)):
            return []
        with self._database.write() as connection:
            rows = connection.execute(query.with_for_update(skip_locked=True)).all()
            ids = [row.id for row in rows]
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(callback_due=now + seconds))
        return readable_jobs(rows)

    def record_success(self, ids: Collection[str], now: float) -> int:
        """Record that these callbacks were called; return how many were not recorded before."""
        return self._record_attempt(ids, called_back=now)

    def record_failure(self, ids: Collection[str], retry_at: float | None) -> None:
        """Record a failed attempt, with the time of the next one, or None to give up."""
        self._record_attempt(ids, **{"called_back": GIVEN_UP} if retry_at is None else {"callback_due": retry_at})

    def _record_attempt(self, ids: Collection[str], **values: float) -> int:
        pending = update(jobs).where(jobs.c.id.in_(list(ids)), jobs.c.called_back.is_(None))
        with self._database.write() as connection:
            attempts = jobs.c.callback_attempts + 1
            return connection.execute(pending.values(callback_attempts=attempts, **values)).rowcount
