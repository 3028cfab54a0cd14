"""`create_app`: the application with its routes, error handlers and middleware."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, nullcontext
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from maabo_dist._version import __version__
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.problem import Problem
from scheduler.api import (
    audit,
    datasets,
    events,
    health,
    jobs,
    monitoring,
    new_data,
    plans,
    problems,
    results,
    tokens,
    ui,
)
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.dependencies import ApiState
from scheduler.api.middleware import BodyLimitMiddleware, CorrelationMiddleware
from scheduler.api.monitoring import ApiMetrics
from scheduler.api.rates import RateLimits, TokenUses
from scheduler.api.readers import ReaderProcesses, TableReader
from scheduler.api.scratch import ScratchSpace, remove_abandoned
from scheduler.api.settings import ApiSettings
from scheduler.api.tables import Tables
from scheduler.resources import Resources

logger = StructuredLogger("maabo.api")

# Requests try the routes in this order.
_MODULES = (jobs, datasets, plans, events, results, new_data, tokens, audit, health, monitoring, ui)
THREADS = 100  # requests handled at the same time, not counting open event streams
_DESCRIPTION = """Mines short lists of reliable, dissimilar if-then rules from tables.

Upload a table, submit a job, follow its events and read its rules. Every error is a problem document (RFC 9457) with a
stable `type`."""


def create_app(resources: Resources, settings: ApiSettings, readers: ReaderProcesses | None = None) -> FastAPI:
    """Return the application. The caller closes `resources` and, if it passes them, `readers`."""
    processes, scratch = readers or ReaderProcesses(), ScratchSpace()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        for path in remove_abandoned():
            logger.info("files of a killed process removed", path=path)
        with closing(scratch), nullcontext() if readers else closing(processes):
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
        resources,
        settings,
        Tables(resources, TableReader(settings, processes), scratch),
        api_metrics,
        RateLimits(settings.tenant_rate),
        TokenUses(),
    )
    for module in _MODULES:
        app.include_router(module.router)
    problems.install(app)
    app.add_middleware(BodyLimitMiddleware, seconds=settings.body_seconds)
    app.add_middleware(CorrelationMiddleware, observe=api_metrics.observe)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # as in FastAPI's documentation
    return app


def describe_api() -> dict[str, Any]:
    """Return the OpenAPI document, without the connections that an application needs."""
    app = FastAPI(title="maabo", version=__version__, description=_DESCRIPTION)
    for module in _MODULES:
        app.include_router(module.router)
    return _openapi(app)


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
