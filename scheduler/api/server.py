"""`serve`: run the HTTP API in the foreground."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from maabo_dist._util.network import is_loopback
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import SettingsError
from scheduler.api.app import create_app
from scheduler.api.settings import ApiSettings
from scheduler.resources import Resources

logger = StructuredLogger("maabo.api")

LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 5  # time for running requests to finish when the server stops
BACKLOG = 1024
# A thread that returns from the database waits this long for the event loop, which rarely pauses under load, to let it
# run. Python's default of 5 ms would apply to each statement of a transaction.
SWITCH_SECONDS = 0.0001


def serve(resources: Resources, settings: ApiSettings, echo: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `echo` prints messages for the operator."""
    sys.setswitchinterval(SWITCH_SECONDS)
    tokens_exist = resources.ledger.tokens.any_exist()
    host = safe_host(settings.host, tokens=tokens_exist or settings.require_token)
    for line in _token_advice(host, settings, tokens_exist=tokens_exist):
        echo(line)
    with _listen(host, settings.port) as sock:
        url = url_of(sock)
        echo(f"listening on {url}")
        logger.info("serving", url=url)
        config = uvicorn.Config(
            create_app(resources, settings),
            access_log=False,  # the middleware's log has correlation IDs
            log_config=None,
            http=TimedProtocol,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signals it has caught again when it stops; there is nothing left to do then.
            signal.signal(number, lambda *_: None)
        Server(config).run(sockets=[sock])


class Server(uvicorn.Server):
    """A server that ends event streams before it waits for running requests."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop gracefully."""
        app: Any = self.config.app
        app.state.broadcaster.subscribers.close()
        await super().shutdown(sockets)


class JoiningTransport:
    """Sends two writes as one if the second follows at once, as the body of a response follows its head.

    Each system call of the event loop lets other threads run, for which it then has to wait; and each packet wakes the
    client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._held = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Send data, at the latest before the event loop waits."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Send everything, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            self.write(b"")

    def __getattr__(self, name: str) -> Any:
        """Return the other methods of the transport, which are not changed."""
        return getattr(self._transport, name)


class TimedProtocol(H11Protocol):
    """Closes connections whose next request does not arrive in time; uvicorn waits for it without a limit.

    `BodyLimitMiddleware` limits the time of bodies.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Wait for the first request."""
        super().connection_made(JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # has its methods
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the headers are complete. Between requests, uvicorn limits the time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        app: Any = self.config.app
        self._timer = self.loop.call_later(app.state.api.settings.header_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        problem = Problem.of("timeout", "The headers of the request did not arrive in time.")
        body = json.dumps(problem.to_json()).encode()
        head = f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.transport.write(b"HTTP/1.1 408 Request Timeout\r\n" + head.encode() + body)
        self.transport.close()


def safe_host(host: str, *, tokens: bool) -> str:
    """Return loopback unless tokens are required, because without tokens every client has all permissions."""
    return host if tokens or is_loopback(host) else LOOPBACK


def _token_advice(host: str, settings: ApiSettings, *, tokens_exist: bool) -> Iterator[str]:
    command = "`python -m scheduler token create --tenant NAME --scopes read,submit,admin`"
    if not tokens_exist and settings.require_token:
        yield f"No token has been created, and every request needs one. Create one with {command}."
    elif host != settings.host:
        yield (
            f"No token has been created, so this listens on {host} only and not on {settings.host}. Create one with "
            f"{command} and restart."
        )
    elif not tokens_exist:
        yield "No token has been created: everyone on this machine has access, and no other machine does."


def url_of(sock: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol: asyncio disables Nagle's algorithm only on sockets that it recognizes as TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # connections are accepted as soon as the server runs, instead of being refused until then
    except OSError as error:
        sock.close()
        raise SettingsError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.", remedy="Choose another --host or --port."
        ) from None
    return sock
