"""`Outages`: what schedulers cannot use at the moment. API servers show it, even if Redis is what is missing."""

from pydantic import ValidationError
from sqlalchemy import delete, select

from maabo_dist.contract.job import Obstacle
from scheduler.ledger.database import LedgerTopic, upsert
from scheduler.ledger.schema import meta

_PREFIX = "outage:"
_UPSERT = upsert(meta, "value")
# An outage that was not written again for this long is over, or its scheduler is.
EXPIRE_SECONDS = 60.0


class Outages(LedgerTopic):
    """One row for each scheduler that has an outage."""

    def write(self, owner: str, outage: Obstacle, now: float) -> None:
        """Record an outage of a scheduler, or that it continues; `now` is the time of the database."""
        row = {"key": f"{_PREFIX}{owner}", "value": f"{now:.3f} {outage.model_dump_json()}"}
        with self._database.write() as connection:
            connection.execute(_UPSERT[connection.dialect.name], [row])

    def clear(self, owner: str) -> None:
        """Record that the outage of a scheduler is over."""
        with self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.key == f"{_PREFIX}{owner}"))

    def current(self) -> list[Obstacle]:
        """The outages of all schedulers."""
        return list(self.by_owner().values())

    def by_owner(self) -> dict[str, Obstacle]:
        """The outage of each scheduler that has one."""
        query = select(meta.c.key, meta.c.value, self._database.now.label("now")).where(meta.c.key.startswith(_PREFIX))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        outages = {row.key.removeprefix(_PREFIX): _read(row.value, row.now) for row in rows}
        return {owner: outage for owner, outage in outages.items() if outage is not None}


def _read(text: str, now: float) -> Obstacle | None:
    written, _, value = text.partition(" ")
    try:
        return Obstacle.model_validate_json(value) if now - float(written) < EXPIRE_SECONDS else None
    except (ValueError, ValidationError):  # written by another version
        return None
