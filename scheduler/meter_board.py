"""`MeterBoard`: a scheduler's meters in Redis, for whoever shows them."""

from collections.abc import Collection, Mapping, Sequence

from redis import RedisError

from maabo_dist.contract import names
from scheduler.active import HeldJob
from scheduler.meters import BATCHES_IN_FLIGHT, TASKS_IN_FLIGHT, TASKS_UNSENT, Meter
from scheduler.parts import Parts

SHOW_EVERY, REFRESH_EVERY = 1.0, 20.0
KEPT = 60
"""Seconds after which a scheduler of which nothing is heard is not shown any more."""


class MeterBoard:
    """Writes when something changed, and now and then so that what is shown does not expire."""

    def __init__(self, parts: Parts, owner: str) -> None:
        self._redis, self._meters = parts.redis, parts.meters
        self._key = parts.settings.key(f"{names.METERS}:{owner}")
        self._task_seconds = parts.settings.task_seconds
        self._shown = ""
        self._next = self._refresh = 0.0

    def show(self, jobs: Collection[HeldJob], now: float, *, at_once: bool = False) -> None:
        """Show the meters, if it is time, with what is under way for these jobs.

        Nothing that goes wrong here is worth an outage: the next attempt shows the same and more.
        """
        if now < self._next and not at_once:
            return
        self._next = now + SHOW_EVERY
        self._measure(jobs)
        text = self._meters.reading().model_dump_json()
        if text == self._shown and now < self._refresh:
            return
        try:
            self._redis.set(self._key, text, ex=KEPT)
        except RedisError:
            return
        self._shown, self._refresh = text, now + REFRESH_EVERY

    def _measure(self, jobs: Collection[HeldJob]) -> None:
        self._meters.show(BATCHES_IN_FLIGHT, sum(job.batches_under_way for job in jobs))
        self._show_tasks(TASKS_IN_FLIGHT, [job.tasks_under_way for job in jobs])
        self._show_tasks(TASKS_UNSENT, [job.tasks_to_come(self._task_seconds) for job in jobs])

    def _show_tasks(self, meter: Meter, of_jobs: Sequence[Mapping[str, int]]) -> None:
        for task in meter.values:
            self._meters.show(meter, sum(tasks.get(task, 0) for tasks in of_jobs), task)
