"""`Snapshots`: jobs as they are now, for many that ask at once, with one thread and a query for all of them."""

import asyncio

from scheduler.api.jobs import details
from scheduler.api.shapes import JobDetails
from scheduler.api.state import Service


class Snapshots:
    """Who asks gets what was looked up after asking, never before; those who ask meanwhile are served together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asked: dict[str, asyncio.Future[JobDetails | None]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def of(self, job: str) -> JobDetails | None:
        """One job; None if it is gone."""
        if job not in self._asked:
            self._asked[job] = asyncio.get_running_loop().create_future()
        answer = self._asked[job]
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await asyncio.shield(answer)  # others wait for it too

    async def _serve(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            try:
                found = await asyncio.to_thread(self._look, list(asked))
            except Exception as error:  # noqa: BLE001 - it is for those who asked, and the next are served anyway
                _fail(asked, error)
                continue
            for job, answer in asked.items():
                answer.set_result(found.get(job))

    def _look(self, jobs: list[str]) -> dict[str, JobDetails]:
        return {row.id: details(self._service, row) for row in self._service.parts.ledger.jobs(jobs)}


def _fail(asked: dict[str, "asyncio.Future[JobDetails | None]"], error: Exception) -> None:
    for answer in asked.values():
        answer.set_exception(error)
        answer.exception()  # whoever asked may have left
