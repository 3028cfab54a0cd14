"""`SharedCalls`: one call for many requests.

Under load, most of the time of a short request goes into the change to a thread and back, and into the queries to the
database. So all requests that arrive while a call is running are answered by the next call, together. Each gets an
answer that is not older than the request, unless values are remembered.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

# Calls that run at the same time: another one begins only if the last one takes longer than this many seconds.
MAX_CALLS, SLOW_SECONDS = 4, 0.1
# Turns of the event loop before a short call begins: one reads the requests that have arrived meanwhile, and the next
# one handles them, so that they take part in this call instead of waiting for the next one.
TURNS = 2
PAUSE_SECONDS = 0.002
# The number of values that are remembered.
MAX_VALUES = 200
# Threads of their own: the change to a thread of Starlette's pool takes three times as long.
_threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="shared-calls")


@dataclass(slots=True)
class RecentValue(Generic[Value]):
    """A value, and the time before it was loaded."""

    value: Value
    loaded: float
    wanted: bool = False  # by a request, since it was loaded


class RecentValues(Generic[Key, Value]):
    """Values that were loaded within the last `seconds`. Times are those of a clock that is never set back."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._loaded = seconds, -inf
        self._values: dict[Key, RecentValue[Value]] = {}

    def find(self, key: Key, now: float) -> RecentValue[Value] | None:
        """Return a value, unless it was loaded too long ago."""
        known = self._values.get(key)
        if known is None or now - known.loaded >= self._seconds:
            return None
        known.wanted = True
        return known

    def is_aging(self, known: RecentValue[Value], now: float) -> bool:
        """True of a value that should be loaded again before it is too old, if requests still want it."""
        return known.wanted and now - known.loaded >= self._seconds / 2

    def find_aging(self, now: float) -> list[Key]:
        """Return the keys of all such values."""
        return [key for key, known in self._values.items() if self.is_aging(known, now)]

    def replace(self, keys: Iterable[Key], values: Mapping[Key, Value | Exception], loaded: float) -> None:
        """Remember the values of these keys. Exceptions and the absence of a value are not remembered."""
        if loaded < self._loaded:
            return  # a slow call: others that began later have ended before
        self._loaded = loaded
        kept = {key: known for key, known in self._values.items() if loaded - known.loaded < self._seconds}
        for key in keys:
            kept.pop(key, None)
            value = values.get(key)
            if value is not None and not isinstance(value, Exception):
                kept[key] = RecentValue(value, loaded)
        self._values = dict(list(kept.items())[-MAX_VALUES:])


class SharedCalls(Generic[Key, Value]):
    """Calls `load` in a thread, with the keys of all waiting requests. Used by one event loop.

    `load` returns a value or an exception for each key that it finds. A call waits `turns` of the event loop before it
    begins, and after it the next one waits `rest` seconds. It waits at least `pause` seconds if several requests shared
    the call: clients that got a response may send another request at once. Otherwise two groups of clients would take
    turns, each waiting for the other's call.

    With `keep`, values are remembered for so many seconds, from the time before they were loaded, if several requests
    came at the same time: the answer to a client that is alone is not older than its request. Remembered values that
    are wanted again are loaded again after half of the time, all in one call.
    """

    def __init__(
        self,
        load: Callable[[Sequence[Key]], Mapping[Key, Value | Exception]],
        *,
        turns: int = TURNS,
        rest: float = 0.0,
        pause: float = PAUSE_SECONDS,
        keep: float = 0.0,
    ) -> None:
        self._load, self._turns, self._rest, self._pause = load, turns, rest, pause
        self._keep, self._recent = keep, RecentValues[Key, Value](keep)
        self._waiting: dict[Key, asyncio.Future[Value | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # which asyncio does not keep alive
        self._running = 0  # tasks that will look at `_waiting` again
        self._started = 0.0
        self._requests = 0  # that wait

    async def get(self, key: Key) -> Value | None:
        """Return the value of a key; None if there is none."""
        if self._keep:
            now = asyncio.get_running_loop().time()
            known = self._recent.find(key, now)
            if known is not None:
                if not self._running and self._recent.is_aging(known, now):
                    self.start(key)  # so that later requests need not wait for it
                return known.value
        return await asyncio.shield(self.start(key))  # others may wait for it too

    def forget(self) -> None:
        """Answer no later request with a value whose loading has begun before."""
        self._recent = RecentValues(self._keep)  # a call that is running fills the former one

    def start(self, key: Key) -> asyncio.Future[Value | None]:
        """Have the value of a key loaded, and return without waiting for it."""
        loop = asyncio.get_running_loop()
        self._requests += 1
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = loop.create_future()
        slow = loop.time() - self._started > SLOW_SECONDS
        if not self._running or (slow and self._running < MAX_CALLS):
            self._running += 1
            self._started = loop.time()
            task = loop.create_task(self._answer_all(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _answer_all(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:
                for _ in range(self._turns):
                    await asyncio.sleep(0)
                waiting, self._waiting = self._waiting, {}
                requests, self._requests = self._requests, 0
                self._started = loop.time()
                await self._answer_some(waiting, requests, loop)
                if seconds := max(self._rest, self._pause if requests > 1 else 0.0):
                    await asyncio.sleep(seconds)
        finally:
            # At once: a request that arrives before the task counts as done would otherwise wait for ever.
            self._running -= 1

    async def _answer_some(
        self, waiting: Mapping[Key, asyncio.Future[Value | None]], requests: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        recent, now = self._recent, loop.time()
        aging = recent.find_aging(now)
        keys = list(dict.fromkeys([*waiting, *aging]))
        try:
            values = await loop.run_in_executor(_threads, self._load, keys)
        except Exception as error:  # noqa: BLE001 - raised in those who wait; later requests are served anyway
            values = dict.fromkeys(waiting, error)
        if self._keep and (aging or requests + self._requests > 1):
            recent.replace(keys, values, now)
        for key, future in waiting.items():
            _answer(future, values.get(key))


def _answer(future: asyncio.Future[Value | None], value: Value | Exception | None) -> None:
    if isinstance(value, Exception):
        future.set_exception(value)
        future.exception()  # mark it as retrieved: the client may be gone
    else:
        future.set_result(value)
