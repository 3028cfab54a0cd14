"""`Children`: tables from outside are read by processes of their own, few at a time, each within its limits."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from anyio import CapacityLimiter

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import DatasetError, InputError, SettingsError
from scheduler.api.nursery import Nursery
from scheduler.api.problems import UnavailableError
from scheduler.api.reading import ANSWER, ANSWER_BYTES, NO_MEMORY, REQUEST, UNEXPECTED
from scheduler.api.settings import ServiceSettings

logger = StructuredLogger("maabo.service.children")

AT_A_TIME = max(2, os.cpu_count() or 2)
_ERRORS: dict[str, type[InputError]] = {"invalid-settings": SettingsError}


class Children:
    """Each lives for one table."""

    def __init__(self, settings: ServiceSettings, nursery: Nursery) -> None:
        self._settings, self._nursery = settings, nursery
        self._places = BoundedSemaphore(AT_A_TIME)
        self.limiter = CapacityLimiter(AT_A_TIME)
        """Of threads that wait for a child on behalf of what runs in the event loop."""

    def run(self, act: str, file: Path, name: str, **more: object) -> dict[str, Any]:
        """What a child found out about the table in `file`, which lies in a folder of its own.

        The table is called `name` in whatever is wrong with it.
        """
        asked = {"act": act, "file": file.name, **more, **self._limits()}
        (file.parent / REQUEST).write_text(json.dumps(asked))
        with self._a_place():
            in_time = self._nursery.run(file.parent, self._settings.read_seconds)
        answer = _answer(file.parent) if in_time else None
        if answer is None:
            raise self._killed(name, in_time=in_time)
        if "refused" in answer:
            raise self._refused(answer["refused"], file.name, name)
        found: dict[str, Any] = answer["found"]
        return found

    def _limits(self) -> dict[str, float]:
        settings = self._settings
        return {"columns": settings.upload_columns, "bytes": settings.read_bytes, "seconds": settings.read_seconds}

    @contextmanager
    def _a_place(self) -> Iterator[None]:
        if not self._places.acquire(timeout=self._settings.read_seconds):
            raise UnavailableError("Too many tables are being read at the moment. Try again soon.")
        try:
            yield
        finally:
            self._places.release()

    def _refused(self, refusal: dict[str, Any], file: str, name: str) -> InputError:
        if refusal["kind"] == NO_MEMORY:
            return self._too_much(name, f"{self._settings.read_bytes:,} bytes of memory")
        if refusal["kind"] == UNEXPECTED:
            logger.warning("a table was strange to its reader", table=name, reason=refusal["detail"])
            return DatasetError(f"{name} does not read as a table.", remedy="Write the file again.")
        kind = _ERRORS.get(refusal["kind"], DatasetError)
        detail = refusal["detail"].replace(file, name)
        return kind(detail, field=refusal["field"], remedy=refusal["remedy"])

    def _killed(self, name: str, *, in_time: bool) -> InputError:
        logger.warning("a table was too much for its reader", table=name, in_time=in_time)
        seconds = f"{self._settings.read_seconds:g} seconds"
        if not in_time:
            return self._too_much(name, seconds)
        limits = f"{self._settings.read_bytes:,} bytes of memory and {seconds}"
        return self._too_much(name, limits, " It is too large, or damaged.")

    def _too_much(self, name: str, limit: str, why: str = "") -> InputError:
        return DatasetError(
            f"{name} could not be read within {limit}.{why}",
            remedy="Leave out columns or rows, or write the file again.",
        )


def _answer(folder: Path) -> dict[str, Any] | None:
    path = folder / ANSWER
    try:
        if path.stat().st_size > ANSWER_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
