"""`create_app`: the application with its routes, error handlers and middleware; `serve` runs it in the foreground."""

import re
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, nullcontext
from math import inf
from secrets import token_hex
from time import perf_counter
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maabo_dist._util.network import is_loopback
from maabo_dist._version import __version__
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.problem import Problem
from maabo_dist.errors import SettingsError
from scheduler.api import datasets, events, jobs, monitoring, problems, results, tokens, ui
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.dependencies import ApiState
from scheduler.api.monitoring import ApiMetrics
from scheduler.api.settings import ApiSettings
from scheduler.api.tables import ReaderProcesses, TableReader, Tables
from scheduler.resources import Resources

logger = StructuredLogger("maabo.api")
access_log = StructuredLogger("maabo.api.access")

HEADER = "X-Request-ID"
PROBES = {"/healthz", "/readyz", "/metrics"}  # polled by monitoring; logged at debug level
MAX_BYTES = 8 << 20
UPLOADS = "/v1/datasets"  # limits the size of its bodies itself
_SAFE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")  # IDs that cannot forge a line of the log


class CorrelationMiddleware:
    """Gives every request an ID, its own or a new one, and writes the access log, which contains no headers.

    Calls `observe` with method, route, status and seconds. Durations are measured until the response starts, because
    event streams do not end.
    """

    def __init__(self, app: ASGIApp, observe: Callable[[str, str, int, float], None]) -> None:
        self._app, self._observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get(HEADER, "")
        correlation = header if _SAFE_ID.fullmatch(header) else token_hex(8)
        scope.setdefault("state", {})["correlation"] = correlation
        started, status, seconds = perf_counter(), 500, 0.0

        async def send_with_id(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], perf_counter() - started
                message["headers"] = [*message["headers"], (HEADER.lower().encode(), correlation.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            # The path with parameter names instead of values, which would create a metric for each ID.
            route = getattr(scope.get("route"), "path", "none")
            self._observe(scope["method"], route, status, seconds)
            log = access_log.debug if scope["path"] in PROBES and status < 500 else access_log.info
            request = f"{scope['method'][:20]} {scope['path'][:200]!r}"
            log(request, status=status, seconds=seconds, correlation=correlation)


class BodyLimitMiddleware:
    """Rejects bodies above `MAX_BYTES`, and closes the connection if the response starts before the body ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        remaining = inf if scope["path"].rstrip("/") == UPLOADS else MAX_BYTES
        headers = Headers(scope=scope)
        more_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_limited() -> Message:
            nonlocal remaining, more_body
            message = await receive()
            more_body = more_body and message.get("more_body", False)
            remaining -= len(message.get("body", b""))
            if remaining < 0:
                raise HTTPException(413, f"The body is larger than {MAX_BYTES:,} bytes.")
            return message

        async def send_and_close(message: Message) -> None:
            if more_body and message["type"] == "http.response.start":
                # Otherwise the server would read the rest of the body, whatever its size, to reuse the connection.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive_limited, send_and_close)


THREADS = 100  # requests handled at the same time, not counting open event streams
_DESCRIPTION = """Mines short lists of reliable, dissimilar if-then rules from tables.

Upload a table, submit a job, follow its events and read its rules. Every error is a problem document (RFC 9457) with a
stable `type`."""


def create_app(resources: Resources, settings: ApiSettings, readers: ReaderProcesses | None = None) -> FastAPI:
    """Return the application. The caller closes `resources` and, if it passes them, `readers`."""
    processes = readers or ReaderProcesses()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        with nullcontext() if readers else closing(processes):
            async with EventBroadcaster(app.state.api) as app.state.broadcaster:
                yield

    app = FastAPI(
        title="maabo",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        # FastAPI's documentation pages load scripts from the internet, which a cluster may not reach.
        docs_url=None,
        redoc_url=None,
    )
    api_metrics = ApiMetrics(resources)
    app.state.api = ApiState(
        resources, settings, Tables(resources.store, TableReader(settings, processes)), api_metrics
    )
    for module in (datasets, jobs, events, results, tokens, monitoring, ui):
        app.include_router(module.router)
    problems.install(app)
    app.add_middleware(BodyLimitMiddleware)
    app.add_middleware(CorrelationMiddleware, observe=api_metrics.observe)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # as in FastAPI's documentation
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Describe problem documents and tokens, and remove FastAPI's own error format, which is never sent."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            for operation in methods.values():
                if path.startswith("/v1/"):
                    operation["security"] = [{"token": []}, {}]
        app.openapi_schema = document
    return app.openapi_schema


LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 5  # time for running requests to finish when the server stops
BACKLOG = 1024


def serve(resources: Resources, settings: ApiSettings, echo: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `echo` prints messages for the operator."""
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
