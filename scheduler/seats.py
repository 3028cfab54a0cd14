"""`Seats`: how many jobs a scheduler holds at once, and which free ones it takes."""

from functools import partial

from maabo_dist.contract.job import Priority
from scheduler.ledger import Lease
from scheduler.parts import Parts

MOST_JOBS = 50
"""Jobs that run side by side; others wait in the ledger."""
URGENT_SEATS, GUEST_SEATS = 10, 25
"""Beside those: for urgent jobs, and for one job each of tenants who have none running."""


class Seats:
    """Takes free jobs for one scheduler."""

    def __init__(self, parts: Parts, owner: str) -> None:
        self._ledger, self._settings, self._owner = parts.ledger, parts.settings, owner
        self._guests: set[str] = set()

    def fill(self, held: set[str], now: float) -> list[Lease]:
        """As many as there is room for; urgent ones and guests find a seat when all others are taken."""
        self._guests &= held
        room = MOST_JOBS - len(held - self._guests)
        take = partial(self._ledger.acquire, self._owner, now, self._settings.lease_seconds)
        if room > 0:
            return take(room)
        guests = take(GUEST_SEATS - len(self._guests), guests=True)
        self._guests |= {lease.job for lease in guests}
        return guests + take(room + URGENT_SEATS, Priority.HIGH)
