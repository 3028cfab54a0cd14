"""When a part that ended is started again: times in, decisions out. No process and no clock in here."""

from dataclasses import dataclass, replace
from typing import Self

FIRST_DELAY = 0.5
LONGEST_DELAY = 10.0
CALM_SECONDS = 30.0
"""A part that was healthy for so long starts anew with the shortest delay."""
MOST_FAILURES = 5
FAILURE_WINDOW = 30.0


@dataclass(frozen=True, slots=True)
class Restarts:
    """What is remembered of one part. Times are seconds of one clock."""

    delay: float = FIRST_DELAY
    """Before the next start."""
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
        delay = FIRST_DELAY if calm else self.delay
        failures = () if self.ever_healthy else (*self.failures, now)[-MOST_FAILURES:]
        after = replace(self, delay=min(2 * delay, LONGEST_DELAY), healthy_since=None, failures=failures)
        hopeless = len(failures) == MOST_FAILURES and now - failures[0] <= FAILURE_WINDOW
        return after, None if hopeless else delay
