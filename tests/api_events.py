"""Helpers for tests of event streams: a server in a thread, and clients that read events as they arrive."""

import asyncio
import json
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import httpx
import uvicorn

from scheduler.api.app import create_app
from scheduler.api.server import Server
from scheduler.api.settings import ApiSettings
from tests import servers


@dataclass(frozen=True)
class ReceivedEvent:
    """One event."""

    id: str | None
    kind: str
    data: dict


@contextmanager
def a_server(resources, **settings):
    """Run a server in a thread; yield its URL and the application."""
    app = create_app(resources, ApiSettings(**settings))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        server = Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            servers.wait_for(lambda: server.started, what="a server")
            yield f"http://127.0.0.1:{sock.getsockname()[1]}", app
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server does not stop"


@contextmanager
def following(url, job, headers=None, **params):
    """Yield an iterator over the events of a job as they arrive, until the stream ends."""
    timeout = httpx.Timeout(30)
    with httpx.stream(
        "GET", f"{url}/v1/jobs/{job}/events", headers=headers, params=params, timeout=timeout
    ) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield read_events(response.iter_lines())


def read_events(lines):
    """Events from the lines of a stream."""
    fields = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "event" in fields:
                yield ReceivedEvent(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}


async def read_event_stream(reader):
    """The next event of a raw connection; None at its end."""
    fields = {}
    while line := await reader.readline():
        text = line.decode().strip()
        name, sign, value = text.partition(": ")
        if sign:
            fields[name] = value
        if "data" in fields and "event" in fields:
            return ReceivedEvent(fields.get("id"), fields["event"], json.loads(fields["data"]))
    return None


async def open_stream(port, job):
    """A raw connection that follows a job, with little overhead for the test."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    await writer.drain()
    return reader, writer
