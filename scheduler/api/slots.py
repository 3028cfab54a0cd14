"""`FairSlots`: lets few requests work at the same time, and shares the slots among tenants."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.api.problems import BusyError


class FairSlots:
    """A tenant can use all slots but one, so that there is one for others; a free slot goes to who uses the fewest.

    Used by one event loop.
    """

    def __init__(self, slots: int, max_waiting: int) -> None:
        self._free, self._share, self._max_waiting = slots, max(1, slots - 1), max_waiting
        self._used: Counter[str] = Counter()
        # Requests that wait, by tenant; in the order in which the tenants came.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, tenant: str, seconds: float) -> AsyncIterator[None]:
        """Wait up to this many seconds for a slot, and hold it during the block."""
        await self._acquire(tenant, seconds)
        try:
            yield
        finally:
            self._release(tenant)

    async def _acquire(self, tenant: str, seconds: float) -> None:
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= self._max_waiting:
            raise BusyError(
                f"{len(queue)} requests of this tenant are waiting for their tables to be read already.",
                remedy="Send fewer requests at the same time.",
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._grant()
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # granted in the meantime
                self._release(tenant)
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError):
                raise BusyError("Too many tables are being read at the moment.", remedy="Try again soon.") from None
            raise

    def _release(self, tenant: str) -> None:
        self._free += 1
        self._used[tenant] -= 1
        if not self._used[tenant]:
            del self._used[tenant]
        self._grant()

    def _grant(self) -> None:
        while self._free and (able := [each for each in self._waiting if self._used[each] < self._share]):
            tenant = min(able, key=self._used.__getitem__)
            turn = self._waiting[tenant][0]
            self._leave(tenant, turn)
            if not turn.cancelled():
                self._free -= 1
                self._used[tenant] += 1
                turn.set_result(None)

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.pop(tenant, deque())
        if turn in queue:
            queue.remove(turn)
        if queue:
            self._waiting[tenant] = queue  # behind the other tenants
