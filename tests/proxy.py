"""A TCP proxy in front of Redis that simulates network faults.

    client ──► proxy ──► redis-server        with proxy(port) as between: … between.port …

Time: `delay`, `freeze` and `thaw`. Connections: `cut`, `strand`, `refuse` and `accept`. It parses commands and
replies, so that it can also deliver a command twice (`duplicate_commands`) or lose the reply to it (`lose_reply`).
"""

import asyncio
import random
import socket
import struct
from collections import Counter, deque
from contextlib import contextmanager, suppress
from threading import Thread

PASS, SWALLOW, CUT = "pass", "swallow", "cut"
_PIECE = 1 << 16
_SUBSCRIBING = (b"SUBSCRIBE", b"PSUBSCRIBE", b"MONITOR")
_OF_LENGTH, _OF_ITEMS, _OF_PAIRS = b"$!=", b"*~>", b"%|"


@contextmanager
def proxy(target_port):
    """Yield a `Proxy` that listens on a free port."""
    server = Proxy(target_port)
    server.open()
    try:
        yield server
    finally:
        server.close()


class Proxy:
    """A proxy whose faults take effect before the call returns."""

    def __init__(self, target_port):
        self.port = 0
        self.seen = Counter()
        """Commands by name that were duplicated or whose reply was lost."""
        self.target, self._server, self._links = target_port, None, set()
        self._delay, self._chance = (0.0, 0.0), random.Random(0)
        self._doubled, self._lost = set(), Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    def open(self):
        self._thread.start()
        self._do(self._listen)
        self.flowing = asyncio.Event()
        self._do(self.flowing.set)

    def close(self):
        self._do(self._shut_down)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def delay(self, seconds, at_most=None):
        """Delay every piece of data; with `at_most`, by a random time, so that connections overtake each other."""
        self._delay = (seconds, at_most or seconds)

    def cut(self):
        """Reset all connections."""
        self._do(self._cut_all)

    def refuse(self):
        """Refuse new connections and reset existing ones."""
        self._do(self._stop_listening)
        self.cut()

    def accept(self):
        """Accept connections again."""
        self._do(self._listen)

    def freeze(self):
        """Keep all connections and accept new ones, but forward nothing."""
        self._do(self.flowing.clear)

    def thaw(self):
        """Forward again, starting with the data that has waited."""
        self._do(self.flowing.set)

    def strand(self):
        """Keep existing connections open without forwarding anything (half-open for the client); new ones work."""
        self._do(lambda: [link.strand() for link in self._links])

    def duplicate_commands(self, *names):
        """Deliver these commands twice from now on, and forward one reply; without names, stop doing so."""
        self._doubled = {name.upper() for name in names}

    def lose_reply(self, name, times=1):
        """Let the server execute the next `times` commands of this name, and reset the client's connection before the
        reply.
        """
        self._lost[name.upper()] += times

    # The following methods run in the loop's thread.

    def _do(self, action):
        async def acting():
            result = action()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(10)

    async def _listen(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop_listening(self):
        self._server.close()

    def _cut_all(self):
        for link in list(self._links):
            link.cut()

    async def _shut_down(self):
        self._server.close()
        self._cut_all()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer):
        link = _Link(self, reader, writer)
        self._links.add(link)
        with suppress(asyncio.CancelledError):  # by `_shut_down`
            await link.run()
        self._links.discard(link)
        link.cut()

    async def hold_back(self):
        if self._delay[1]:
            await asyncio.sleep(self._chance.uniform(*self._delay))
        await self.flowing.wait()

    def fate(self, name):
        """Return how to handle the replies to a command, one for each time it is delivered."""
        if self._lost[name] > 0:
            self._lost[name] -= 1
            self.seen[name] += 1
            return [CUT]
        if name in self._doubled:
            self.seen[name] += 1
            return [PASS, SWALLOW]
        return [PASS]


class _Link:
    """A client's connection and the corresponding one to the server."""

    def __init__(self, owner, reader, writer):
        self._owner, self._reader, self._writer = owner, reader, writer
        self._server_writer = None
        self._awaited = deque()
        self._in_transaction = self._raw = False
        self._stranded = asyncio.Event()

    async def run(self):
        await self._owner.flowing.wait()
        with suppress(OSError, asyncio.IncompleteReadError):
            server_reader, self._server_writer = await asyncio.open_connection("127.0.0.1", self._owner.target)
            directions = [
                asyncio.create_task(self._forward(self._reader, self._server_writer, self._commands)),
                asyncio.create_task(self._forward(server_reader, self._writer, self._replies)),
            ]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)

    def strand(self):
        self._stranded.set()

    def cut(self):
        for writer in (self._writer, self._server_writer):
            if writer is not None:
                sock = writer.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    async def _forward(self, reader, writer, split):
        rest = b""
        while piece := await reader.read(_PIECE):
            await self._owner.hold_back()
            if self._stranded.is_set():
                await asyncio.Event().wait()  # for ever
            passed, rest = split(rest + piece)
            writer.write(passed)
            await writer.drain()
            if not passed and self._awaited and self._awaited[0] == CUT and split == self._replies:
                return

    def _commands(self, data):
        """Return the complete commands, each as often as it must be delivered, and the remaining data."""
        if self._raw:
            return data, b""
        passed, start = [], 0
        while (end := end_of(data, start)) is not None:
            command, start = data[start:end], end
            name = _name(command)
            fate = [PASS] if self._in_transaction else self._owner.fate(name)
            self._in_transaction = name == b"MULTI" or (self._in_transaction and name not in (b"EXEC", b"DISCARD"))
            self._awaited.extend(fate)
            passed.append(command * len(fate))
            if name in _SUBSCRIBING:  # from here on replies do not match commands
                self._raw = True
                return b"".join(passed) + data[start:], b""
        return b"".join(passed), data[start:]

    def _replies(self, data):
        """Return the complete replies that are forwarded to the client, and the remaining data."""
        if self._raw:
            return data, b""
        passed, start = [], 0
        while (end := end_of(data, start)) is not None:
            reply, start = data[start:end], end
            fate = PASS if reply[:1] == b">" or not self._awaited else self._awaited[0]
            if fate == CUT:
                return b"", b""
            if reply[:1] != b">" and self._awaited:
                self._awaited.popleft()
            if fate == PASS:
                passed.append(reply)
        return b"".join(passed), data[start:]


def _name(command):
    """Return the name of a command in the form that clients send, an array of strings."""
    lines = command.split(b"\r\n", 3)
    return lines[2].upper() if len(lines) > 3 else command.split()[0].upper()


def end_of(data, start):
    """Return the end of the value that begins at `start`, in RESP 2 or 3; None if it is incomplete."""
    line = data.find(b"\r\n", start)
    if line < 0:
        return None
    kind, end = data[start : start + 1], line + 2
    if kind in _OF_LENGTH:
        length = int(data[start + 1 : line])
        end += length + 2 if length >= 0 else 0
        return end if end <= len(data) else None
    if kind in _OF_ITEMS or kind in _OF_PAIRS:
        items = int(data[start + 1 : line]) * (2 if kind in _OF_PAIRS else 1) + (1 if kind == b"|" else 0)
        for _ in range(items):
            if (end := end_of(data, end)) is None:
                return None
    return end
