"""`Turns`: whose task is sent next. Tenants share the workers alike, the jobs of a tenant share by their priority.

tenant with least under way ──► its job with least under way for its share ──► next task
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entrant:
    """A job that may have something to send."""

    job: str
    tenant: str
    share: int
    under_way: float
    """Seconds of work."""


@dataclass(slots=True)
class _Tenant:
    under_way: float = 0.0
    jobs: list[tuple[float, str, int]] = field(default_factory=list)
    """A heap: seconds under way for the share, id, share."""


class Turns:
    """Says which job comes next, and is told what became of it."""

    def __init__(self, entrants: Iterable[Entrant]) -> None:
        self._tenants: dict[str, _Tenant] = {}
        for one in entrants:
            tenant = self._tenants.setdefault(one.tenant, _Tenant())
            tenant.under_way += one.under_way
            tenant.jobs.append((one.under_way / one.share, one.job, one.share))
        for tenant in self._tenants.values():
            heapq.heapify(tenant.jobs)
        self._order = [(tenant.under_way, name) for name, tenant in self._tenants.items()]
        heapq.heapify(self._order)

    def next(self) -> str | None:
        """The job whose turn it is; None when all have passed."""
        return self._tenants[self._order[0][1]].jobs[0][1] if self._order else None

    def sent(self, seconds: float) -> None:
        """The job whose turn it was sends so much more."""
        _, name = self._order[0]
        tenant = self._tenants[name]
        load, job, share = tenant.jobs[0]
        heapq.heapreplace(tenant.jobs, (load + seconds / share, job, share))
        tenant.under_way += seconds
        heapq.heapreplace(self._order, (tenant.under_way, name))

    def passed(self) -> None:
        """The job whose turn it was has nothing to send for now."""
        tenant = self._tenants[self._order[0][1]]
        heapq.heappop(tenant.jobs)
        if not tenant.jobs:
            heapq.heappop(self._order)
