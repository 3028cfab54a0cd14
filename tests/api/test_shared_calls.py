"""One call answers all requests that wait; each answer is newer than its request."""

import asyncio
import socket
from threading import Event, Lock

import pytest

from scheduler.api.lookups import MAX_CALLS, SharedCalls
from tests import servers


class Recorder:
    """Returns a value for each even number, and records its calls. It waits for `go`."""

    def __init__(self):
        self.go, self.calls, self.lock = Event(), [], Lock()

    def __call__(self, keys):
        with self.lock:
            self.calls.append(list(keys))
        assert self.go.wait(60)
        return {key: key * 10 if key else ValueError("zero") for key in keys if key % 2 == 0}


def test_requests_that_arrive_during_a_call_share_the_next_one():
    load = Recorder()

    async def run():
        shared = SharedCalls(load)
        first = asyncio.create_task(shared.get(2))
        await asyncio.to_thread(servers.wait_for, lambda: load.calls, what="the first call")
        others = [asyncio.create_task(shared.get(key)) for key in (4, 5, 4, 2)]
        await asyncio.sleep(0)
        load.go.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(run()) == [20, 40, None, 40, 20]
    assert load.calls == [[2], [4, 5, 2]]  # the later request for 2 got an answer of its own


def test_requests_that_the_event_loop_has_not_handled_yet_share_a_call():
    load = Recorder()
    load.go.set()

    async def run():
        shared, (near, far) = SharedCalls(load), socket.socketpair()
        loop = asyncio.get_running_loop()
        near.setblocking(False)
        with near, far:
            # As in uvicorn, what arrives on a connection is handled by a task of its own.
            later = loop.create_future()
            loop.add_reader(near, lambda: later.done() or later.set_result(asyncio.create_task(shared.get(4))))
            far.send(b"a request")
            first = asyncio.create_task(shared.get(2))
            values = [await first, await (await later)]
            loop.remove_reader(near)
        return values

    assert asyncio.run(run()) == [20, 40]
    assert load.calls == [[2, 4]]


def test_after_a_call_the_next_one_waits_for_more_requests():
    load = Recorder()
    load.go.set()

    async def run():
        shared = SharedCalls(load, rest=0.2)
        values = [await shared.get(2)]
        later = shared.start(4)
        await asyncio.sleep(0.02)
        return [*values, await shared.get(6), await later]

    assert asyncio.run(run()) == [20, 60, 40]
    assert load.calls == [[2], [4, 6]]


def test_an_error_is_raised_in_the_requests_that_it_concerns():
    load = Recorder()
    load.go.set()

    async def run():
        shared = SharedCalls(load)
        return await asyncio.gather(shared.get(0), shared.get(2), return_exceptions=True)

    error, value = asyncio.run(run())
    assert (type(error), value) == (ValueError, 20)


def test_a_call_that_fails_does_not_stop_later_ones():
    outcomes = [OSError("away"), {1: "found"}]

    def load(_keys):
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    async def run():
        shared = SharedCalls(load)
        with pytest.raises(OSError, match="away"):
            await shared.get(1)
        return await shared.get(1)

    assert asyncio.run(run()) == "found"


def test_slow_calls_do_not_block_later_requests_and_their_number_is_limited():
    load = Recorder()

    async def run():
        shared, tasks = SharedCalls(load), []
        for key in range(2, 2 + 2 * MAX_CALLS, 2):
            count = len(load.calls)
            tasks.append(asyncio.create_task(shared.get(key)))
            while len(load.calls) == count:  # a call that is not slow yet is not joined by another
                await asyncio.sleep(0.02)
                tasks.append(asyncio.create_task(shared.get(key)))
        tasks.append(asyncio.create_task(shared.get(100)))
        await asyncio.sleep(0.3)
        running = len(load.calls)
        load.go.set()
        await asyncio.gather(*tasks)
        return running

    assert asyncio.run(run()) == MAX_CALLS


def test_a_request_that_arrives_when_a_call_has_just_ended_is_answered():
    load = Recorder()
    load.go.set()

    async def run():
        shared, answers = SharedCalls(load), []
        first = shared.start(2)
        # Called before asyncio marks the task of the call as done.
        first.add_done_callback(lambda _: answers.append(shared.start(4)))
        await first
        async with asyncio.timeout(60):
            return await answers[0]

    assert asyncio.run(run()) == 40


@pytest.mark.parametrize(
    ("keys", "expected"), [((2, 4), [[2, 4], [6, 8]]), ((2, 2), [[2], [6, 8]]), ((2,), [[2], [6], [8]])]
)
def test_after_a_call_for_several_the_next_one_waits_for_further_requests(keys, expected):
    load = Recorder()
    load.go.set()

    async def run():
        shared = SharedCalls(load, turns=0, pause=0.5)
        await asyncio.gather(*(shared.get(key) for key in keys))
        third = asyncio.create_task(shared.get(6))
        await asyncio.sleep(0.1)
        await asyncio.gather(third, shared.get(8))

    asyncio.run(run())
    assert load.calls == expected
