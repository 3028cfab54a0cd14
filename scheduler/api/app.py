"""`create_app`: routes, problems and layers put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from maabo_dist._version import __version__
from maabo_dist.contract.problem import Problem
from scheduler.api import datasets, events, health, jobs, metrics, plans, problems, results, tokens, ui
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.metrics import ApiMetrics
from scheduler.api.middleware import BodyLimit, Correlation
from scheduler.api.readers import ReaderProcesses, TableReader
from scheduler.api.settings import ApiSettings
from scheduler.api.state import ApiState
from scheduler.api.tables import Tables
from scheduler.resources import Resources

THREADS = 100
"""Requests under way beside those that only wait for events."""
_ABOUT = """Mines short lists of reliable, dissimilar if-then rules from tables.

Upload a table, queue a job on it, follow its events and read its rules. Whatever is refused is answered with a problem
document (RFC 9457) whose `type` is stable."""


def create_app(resources: Resources, settings: ApiSettings, reader_processes: ReaderProcesses | None = None) -> FastAPI:
    """The application over these parts, which whoever made them closes; so a reader_processes that is given."""
    own = reader_processes or ReaderProcesses()
    app = FastAPI(
        title="maabo",
        version=__version__,
        description=_ABOUT,
        lifespan=_lifespan if reader_processes else partial(_with_nursery, own),
        openapi_url="/v1/openapi.json",
        # The pages that FastAPI brings load their scripts from elsewhere, which a cluster may not reach.
        docs_url=None,
        redoc_url=None,
    )
    meters = ApiMetrics(resources)
    app.state.api = ApiState(resources, settings, Tables(resources.store, TableReader(settings, own)), meters)
    for module in (datasets, plans, jobs, events, results, tokens, health, metrics, ui):
        app.include_router(module.router)
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(Correlation, observe=meters.observe)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # as FastAPI's documentation has it
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = THREADS
    async with EventBroadcaster(app.state.api) as app.state.broadcaster:
        yield


@asynccontextmanager
async def _with_nursery(reader_processes: ReaderProcesses, app: FastAPI) -> AsyncIterator[None]:
    with closing(reader_processes):
        async with _lifespan(app):
            yield


def _openapi(app: FastAPI) -> dict[str, Any]:
    """With problems as they are answered, and the token; FastAPI's own form of a 422 is never sent."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in made["paths"].items():
            for operation in methods.values():
                if path.startswith("/v1/"):
                    operation["security"] = [{"token": []}, {}]
        app.openapi_schema = made
    return app.openapi_schema
