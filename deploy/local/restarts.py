"""When a part that ended is started again: times in, decisions out. No process and no clock in here."""

from dataclasses import dataclass, replace
from typing import Self

from maabo_dist._util.backoff import backoff_delay

FIRST_DELAY = 0.5
LONGEST_DELAY = 10.0
CALM_SECONDS = 30.0
"""A part that was healthy for so long starts anew with the shortest delay."""
MOST_FAILURES = 5
FAILURE_WINDOW = 30.0


@dataclass(frozen=True, slots=True)
class Restarts:
    """What is remembered of one part. Times are seconds of one clock."""

    quick_ends: int = 0
    """Times that it ended without having been healthy for `CALM_SECONDS` before."""
    healthy_since: float | None = None
    """None from its end until it is healthy again."""
    ever_healthy: bool = False
    failures: tuple[float, ...] = ()
    """When it ended, as long as it was never healthy."""

    def healthy(self, now: float) -> Self:
        """The part is healthy."""
        return replace(self, healthy_since=now, ever_healthy=True, failures=())

    def ended(self, now: float) -> tuple[Self, float | None]:
        """The part ended: in how many seconds it is to be started again, or None to give it up."""
        calm = self.healthy_since is not None and now - self.healthy_since >= CALM_SECONDS
        quick_ends = 0 if calm else self.quick_ends
        failures = () if self.ever_healthy else (*self.failures, now)[-MOST_FAILURES:]
        after = replace(self, quick_ends=quick_ends + 1, healthy_since=None, failures=failures)
        hopeless = len(failures) == MOST_FAILURES and now - failures[0] <= FAILURE_WINDOW
        return after, None if hopeless else backoff_delay(FIRST_DELAY, quick_ends, LONGEST_DELAY)
