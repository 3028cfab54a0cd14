"""`RateLimits`: how often a tenant can call this process; `TokenUses`: which uses of tokens are worth recording."""

from collections import OrderedDict
from threading import Lock
from time import monotonic

from maabo_dist.errors import InputError

BURST_SECONDS = 2.0  # requests of this many seconds can come at once
MAX_TENANTS = 10_000  # that are remembered
# The audit log records a token again when it is used after this time, or from another address.
USE_SECONDS, MAX_USES = 3600.0, 10_000


class RateLimitError(InputError):
    """A tenant sends too many requests."""

    kind = "rate-limited"


class RateLimits:
    """Counts requests by tenant. `rate` is the number of requests a second; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._lock = Lock()
        # When each tenant will have used up its requests so far, at the permitted rate.
        self._used_until: OrderedDict[str, float] = OrderedDict()

    def check(self, tenant: str) -> None:
        """Count a request, or raise an error if there were too many."""
        if not self._rate:
            return
        now = monotonic()
        with self._lock:
            # As a duration: a time rounds, and the first request of a tenant could be one too many.
            used = max(0.0, self._used_until.get(tenant, now) - now) + 1 / self._rate
            if used > max(BURST_SECONDS, 1 / self._rate):
                raise RateLimitError(
                    f"The tenant sends more than {self._rate:g} requests a second.",
                    remedy="Send fewer requests, or follow jobs by their events instead of polling.",
                )
            self._used_until[tenant] = now + used
            self._used_until.move_to_end(tenant)
            while len(self._used_until) > MAX_TENANTS:
                self._used_until.popitem(last=False)


class TokenUses:
    """Remembers from where tokens were used."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._recorded: OrderedDict[tuple[str, str | None], float] = OrderedDict()

    def is_new(self, token: str, address: str | None) -> bool:
        """True if this process has not seen the token at this address for an hour."""
        key, now = (token, address), monotonic()
        with self._lock:
            if now - self._recorded.get(key, -USE_SECONDS) < USE_SECONDS:
                return False
            self._recorded[key] = now
            self._recorded.move_to_end(key)
            while len(self._recorded) > MAX_USES:
                self._recorded.popitem(last=False)
        return True
