"""`OutageLog`: notes that another service cannot be used: in the log, metrics, the records of jobs and the ledger."""

from contextlib import suppress

import redis

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError
from scheduler import metrics
from scheduler.core.obstacles import Obstacles, describe_outage
from scheduler.ledger.database import LedgerError
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.scheduler")

# Between two records of a continuing outage in the ledger.
RECORD_SECONDS = 10.0
_SERVICES = {LedgerError: "ledger", BrokerError: "broker", StoreError: "store", redis.RedisError: "redis"}


class OutageLog:
    """The outage of one scheduler, if there is one."""

    def __init__(self, resources: Resources, obstacles: Obstacles, holder: str) -> None:
        self._resources, self._obstacles, self._holder = resources, obstacles, holder
        self._reason, self._next_record = "", 0.0

    @property
    def any(self) -> bool:
        """True if there is an outage."""
        return bool(self._reason)

    def note(self, error: Exception) -> None:
        """Note an attempt that failed. A reason is logged when it is new."""
        service = next((name for kind, name in _SERVICES.items() if isinstance(error, kind)), "other")
        self._resources.metrics.count(metrics.OUTAGES, service)
        reason = f"{type(error).__name__}: {error}"
        if reason != self._reason:
            logger.warning("outage; trying again", reason=reason)
        self._reason = reason
        self._record(error)

    def end(self) -> None:
        """Note that everything can be used again."""
        logger.info("outage over")
        self._reason, self._obstacles.outage, self._next_record = "", None, 0.0
        with suppress(LedgerError):
            self._resources.ledger.outages.clear(self._holder)

    def _record(self, error: Exception) -> None:
        """Record the outage where API servers find it, from time to time; Redis may be what is missing."""
        now, before = self._resources.clock(), self._obstacles.outage
        since = now if before is None else before.since or now
        outage = describe_outage(error, since, separate_broker=self._resources.broker.is_separate)
        self._obstacles.outage = outage
        is_new = outage is not None and (before is None or before.remedy != outage.remedy)
        if outage is not None and (is_new or now >= self._next_record):
            self._next_record = now + RECORD_SECONDS
            with suppress(LedgerError):
                self._resources.ledger.outages.write(self._holder, outage, now)
