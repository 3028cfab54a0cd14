"""`Fleet`: how many workers there are, by their heartbeats in Redis."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic

from pydantic import ValidationError
from redis.exceptions import NoPermissionError

from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from scheduler.resources import Resources

# Between two counts.
COUNT_SECONDS = 5.0
# Records read in one command.
MAX_RECORDS = 1000


class Fleet:
    """Counts the workers when asked, but not more often than every few seconds."""

    def __init__(self, resources: Resources, clock: Callable[[], float] = monotonic) -> None:
        self._redis, self._prefix = resources.redis, resources.settings.key(names.WORKERS)
        self._clock = clock
        self._workers, self._processes, self._next = 0, 0, 0.0

    @property
    def workers(self) -> int:
        """The number of workers with a heartbeat."""
        self._count_if_due()
        return self._workers

    @property
    def processes(self) -> int:
        """The number of tasks that they can run at the same time."""
        self._count_if_due()
        return self._processes

    def _count_if_due(self) -> None:
        if self._clock() < self._next:
            return
        keys = list(self._redis.scan_iter(match=f"{self._prefix}:*", count=MAX_RECORDS))
        self._workers = self._processes = len(keys)
        with suppress(NoPermissionError):  # users of Redis of an earlier release: each worker counts as one process
            self._processes = sum(self._read_processes(keys))
        self._next = self._clock() + COUNT_SECONDS

    def _read_processes(self, keys: Sequence[bytes]) -> Iterator[int]:
        for start in range(0, len(keys), MAX_RECORDS):
            for text in self._redis.mget(keys[start : start + MAX_RECORDS]):
                with suppress(ValidationError):  # of another version
                    yield 0 if text is None else WorkerRecord.model_validate_json(text).processes
