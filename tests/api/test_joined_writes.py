"""Writes to a connection that follow each other at once are sent together, and nothing is lost or changed."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.server import JoiningTransport

TURN = object()  # the event loop does something else


class PlainTransport:
    """Records what is sent, and in how many packets."""

    def __init__(self):
        self.packets, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.packets.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def send(steps):
    async def run():
        plain = PlainTransport()
        transport = JoiningTransport(plain, asyncio.get_running_loop())
        for step in steps:
            if step is TURN:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert b"".join(plain.packets) == b"".join(written)
            else:
                written.append(step)
                transport.write(step)
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)
        return plain.packets

    written = []
    return asyncio.run(run())


@given(st.lists(st.binary(max_size=3) | st.just(TURN), max_size=12))
def test_everything_is_sent_in_order_and_before_the_event_loop_waits(steps):
    assert b"".join(send(steps)) == b"".join(step for step in steps if step is not TURN)


def test_the_body_of_a_response_is_sent_with_its_head():
    assert send([b"head ", b"body", b"", TURN, b"head ", TURN, b"body"]) == [b"head body", b"head ", b"body"]
