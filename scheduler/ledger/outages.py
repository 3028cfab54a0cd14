"""`Outages`: what schedulers cannot use at the moment. API servers show it, even if Redis is what is missing."""

import json

from pydantic import ValidationError
from sqlalchemy import delete, select

from maabo_dist.contract.job import Obstacle
from scheduler.ledger.database import LedgerTopic, owner_key, upsert
from scheduler.ledger.schema import meta

_PREFIX = "outage:"
_UPSERT = upsert(meta, "value")
# An outage that was not written again for this long is over, or its scheduler is.
EXPIRE_SECONDS = 60.0


class Outages(LedgerTopic):
    """One row for each scheduler that has an outage."""

    def write(self, owner: str, outage: Obstacle, now: float) -> None:
        """Record an outage of a scheduler, or that it continues; `now` is the time of the database."""
        value = {"owner": owner, "written": now, "outage": outage.model_dump(mode="json")}
        row = {"key": owner_key(_PREFIX, owner), "value": json.dumps(value)}
        with self._database.write() as connection:
            connection.execute(_UPSERT[connection.dialect.name], [row])

    def clear(self, owner: str) -> None:
        """Record that the outage of a scheduler is over."""
        with self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.key == owner_key(_PREFIX, owner)))

    def current(self) -> list[Obstacle]:
        """The outages of all schedulers."""
        return list(self.by_owner().values())

    def by_owner(self) -> dict[str, Obstacle]:
        """The outage of each scheduler that has one."""
        query = select(meta.c.value, self._database.now.label("now")).where(meta.c.key.startswith(_PREFIX))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return dict(outage for row in rows if (outage := _read(row.value, row.now)) is not None)


def _read(text: str, now: float) -> tuple[str, Obstacle] | None:
    """The scheduler and its outage; None if it is over."""
    try:
        value = json.loads(text)
        current = now - value["written"] < EXPIRE_SECONDS
        return (value["owner"], Obstacle.model_validate(value["outage"])) if current else None
    except (ValueError, LookupError, TypeError, ValidationError):  # written by another version
        return None
