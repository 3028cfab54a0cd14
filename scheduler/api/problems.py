"""Every response that is not a success is a problem document (RFC 9457)."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from redis import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.problem import KINDS, MEDIA_TYPE, Problem, document_error, problem_of
from maabo_dist.errors import InputError, MaaboError
from scheduler.resources import BrokerError

logger = StructuredLogger("maabo.api")

RETRY_SECONDS = 5
_ROUTER_KINDS = (
    *("unauthorized", "forbidden", "not-found", "method-not-allowed"),
    *("not-acceptable", "timeout", "too-large", "unsupported-media"),
)
_BY_STATUS = {KINDS[kind][0]: kind for kind in _ROUTER_KINDS}
_LOCATIONS = {"body", "query", "path", "header"}


class NotFoundError(InputError):
    """The object does not exist, or belongs to another tenant; the response is the same."""

    kind = "not-found"


class ConflictError(InputError):
    """The request is not possible in the current state."""

    kind = "conflict"


class NoRulesYetError(InputError):
    """The job has not selected any rules yet; the client should ask again."""

    kind = "no-rules-yet"


class NotAcceptableError(InputError):
    """None of the formats in `Accept` is available."""

    kind = "not-acceptable"


class BusyError(InputError):
    """This process has reached a limit; the client should try again later."""

    kind = "busy"


class UnauthorizedError(InputError):
    """The request has no token, or an invalid one."""

    kind = "unauthorized"


class ForbiddenError(InputError):
    """The token does not permit this request."""

    kind = "forbidden"


class UnavailableError(MaaboError):
    """A component of the cluster cannot be reached."""

    kind = "unavailable"


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE


def install(app: FastAPI) -> None:
    """Convert every exception to a problem document."""
    app.add_exception_handler(MaaboError, _handle_error)
    app.add_exception_handler(RedisError, _handle_outage)
    app.add_exception_handler(BrokerError, _handle_outage)
    # Starlette declares handlers for any exception, but calls each one with its own type only.
    app.add_exception_handler(RequestValidationError, _handle_invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _handle_http)  # type: ignore[arg-type]
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_exception_handler(Exception, _handle_error)


def documented(*kinds: str, public: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route for the OpenAPI document: these, and those that all routes have in common."""
    common = () if public else ("invalid-document", "unauthorized", "forbidden")
    by_status: dict[int, list[str]] = {}
    for kind in (*common, *kinds, "unavailable"):
        by_status.setdefault(KINDS[kind][0], []).append(kind)
    documents: dict[int | str, dict[str, Any]] = {}
    for status, group in sorted(by_status.items()):
        examples = {kind: {"value": Problem.of(kind, KINDS[kind][1] + ".").to_json()} for kind in group}
        schema = {"$ref": "#/components/schemas/Problem"}
        documents[status] = {
            "description": "; ".join(KINDS[kind][1] for kind in group),
            "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}},
            "headers": {"WWW-Authenticate": {"schema": {"type": "string"}}} if status == 401 else {},
        }
    return documents


def respond(problem: Problem) -> ProblemResponse:
    """Return the response for a problem."""
    headers: dict[str, str] = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status in {429, 503} or problem.type.endswith("/no-rules-yet"):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return ProblemResponse(problem.to_json(), problem.status, headers)


def correlation_of(request: Request) -> str | None:
    """Return the correlation ID that the middleware assigned."""
    correlation: str | None = getattr(request.state, "correlation", None)
    return correlation


async def _handle_error(request: Request, error: Exception) -> ProblemResponse:
    """The response reveals nothing about an unexpected error; the log has it under the correlation ID."""
    problem = problem_of(error, correlation_of(request))
    if not isinstance(error, MaaboError):
        logger.warning("internal error", correlation=problem.instance, reason=repr(error))
    elif problem.status >= 500:
        logger.warning("request failed", correlation=problem.instance, reason=error)
    return respond(problem)


async def _handle_disconnect(_request: Request, _error: Exception) -> Response:
    """The client is gone; the status is for the access log and the metrics, as nginx has it."""
    return Response(status_code=499)


async def _handle_outage(request: Request, error: Exception) -> ProblemResponse:
    component = "Redis" if isinstance(error, RedisError) else "The message broker"
    logger.warning(f"{component} cannot be reached", correlation=correlation_of(request), reason=error)
    detail = f"{component} cannot be reached."
    return respond(Problem.of("unavailable", detail, remedy="Try again soon.", instance=correlation_of(request)))


async def _handle_invalid(request: Request, error: RequestValidationError) -> ProblemResponse:
    """Use the same wording for FastAPI's validation errors as for documents received by other means."""
    problems = []
    for one in error.errors():
        path = one["loc"]
        # A leading `body` or the like is not part of the sender's document.
        problems.append({**one, "loc": path[1:] if len(path) > 1 and path[0] in _LOCATIONS else path})
    return respond(problem_of(document_error(problems), correlation_of(request)))


async def _handle_http(request: Request, error: HTTPException) -> ProblemResponse:
    """Handle errors of the router: unknown path, wrong method, a body that cannot be parsed."""
    kind = _BY_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "invalid-document")
    detail = str(error.detail)
    if error.status_code == 404:
        detail = f"There is nothing at {request.url.path[:200]}."
    elif error.status_code == 405:
        detail = f"{request.method} is not supported at {request.url.path[:200]}."
    response = respond(Problem.of(kind, detail, instance=correlation_of(request)))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        # The methods of all routes at this path; the router only reports those of the first match.
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
        response.headers["Allow"] = ", ".join(sorted(methods))
    return response
