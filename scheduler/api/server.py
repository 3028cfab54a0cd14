"""`serve`: one HTTP server in the foreground."""

import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from maabo_dist._util.hosts import is_loopback
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import SettingsError
from scheduler.api.app import create_app
from scheduler.api.settings import ApiSettings
from scheduler.resources import Resources

logger = StructuredLogger("maabo.api")

LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 5
"""Requests that are under way have that long to be answered."""
BACKLOG = 1024


def serve(resources: Resources, settings: ApiSettings, say: Callable[[str], None]) -> None:
    """Answer until SIGTERM or Ctrl-C. `say` hears what whoever started this should know."""
    made = resources.ledger.tokens.any_exist()
    host = safe_host(settings.host, tokens=made or settings.require_token)
    for line in _advice(host, settings, made=made):
        say(line)
    with _listening(host, settings.port) as sock:
        address = url_of(sock)
        say(f"listening on {address}")
        logger.info("serving", url=address)
        app = create_app(resources, settings)
        config = uvicorn.Config(
            app,
            access_log=False,  # ours has the correlation id
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn hears them first, and raises them again at its end: then all is done that they ask for.
            signal.signal(number, lambda *_: None)
        Server(config, app).run(sockets=[sock])


class Server(uvicorn.Server):
    """One that ends event streams before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let all that is under way come to its end."""
        self._app.state.broadcaster.stop()
        await super().shutdown(sockets)


def safe_host(host: str, *, tokens: bool) -> str:
    """Without tokens anyone who gets through may do anything: only this machine does."""
    return host if tokens or is_loopback(host) else LOOPBACK


def _advice(host: str, settings: ApiSettings, *, made: bool) -> Iterator[str]:
    """What is to be known where no token has been made."""
    make = "`python -m scheduler token create --tenant NAME --scopes read,submit,admin`"
    if not made and settings.require_token:
        yield f"No token has been made, and everyone needs one: nobody may call until you make one with {make}."
    elif host != settings.host:
        yield (
            f"No token has been made, so this listens on {host} only and not on {settings.host}. Make one with {make}, "
            "and start again."
        )
    elif not made:
        yield "No token has been made: anyone on this machine may call, and nobody else."


def url_of(sock: socket.socket) -> str:
    """Where a client finds the server."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: asyncio sends small answers at once only where it sees that this is TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # whoever calls from now on waits until the server runs, and is not refused
    except OSError as error:
        sock.close()
        raise SettingsError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}.", remedy="Give another --host or --port."
        ) from None
    return sock
