"""`BackgroundThread`: runs calls one after the other, next to the loop."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class BackgroundThread(Generic[Result]):
    """A thread that starts with the first call. It is a daemon: a process that ends does not wait for it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Result], Future[Result]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Queue a call and return its future. A call that is cancelled before its turn is skipped."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="background", daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End the thread after the queued calls."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _run(self) -> None:
        while (entry := self._calls.get()) is not None:
            call, future = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                future.set_exception(error)
