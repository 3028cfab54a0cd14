"""Problems over HTTP: every answer that is not a success is a problem document, whoever noticed what is wrong."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from redis import RedisError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.problem import KINDS, MEDIA_TYPE, Problem, document_error, problem_of
from maabo_dist.errors import InputError, MaaboError
from scheduler.messaging.broker import BrokerError

logger = StructuredLogger("maabo.api")

RETRY_SECONDS = 5
_BY_STATUS = {
    400: "invalid-document",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media",
    422: "invalid-document",
}
_PLACES = {"body", "query", "path", "header"}


class NotFoundError(InputError):
    """There is no such thing, or it is another tenant's: nobody can tell the two apart."""

    kind = "not-found"


class ConflictError(InputError):
    """This cannot be done in the present state."""

    kind = "conflict"


class NoRulesYetError(InputError):
    """Nobody has looked for rules yet; it is worth asking again."""

    kind = "no-rules-yet"


class NotAcceptableError(InputError):
    """None of the formats that were asked for is there."""

    kind = "not-acceptable"


class BusyError(InputError):
    """This server does as much as it takes on; another one, or this one later, may do it."""

    kind = "busy"


class UnauthorizedError(InputError):
    """No token came, or one that is not valid."""

    kind = "unauthorized"


class ForbiddenError(InputError):
    """The token does not permit this."""

    kind = "forbidden"


class UnavailableError(MaaboError):
    """A part of the cluster cannot be reached."""

    kind = "unavailable"


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE


def install(app: FastAPI) -> None:
    """Turn everything that is raised into a problem document."""
    app.add_exception_handler(MaaboError, _ours)
    app.add_exception_handler(RedisError, _redis)
    app.add_exception_handler(BrokerError, _broker)
    # Starlette's types want handlers of every exception, and call each with its own kind only.
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _http)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _unexpected)


def documented(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for the OpenAPI document."""
    by_status: dict[int, list[str]] = {}
    for kind in (*kinds, "unavailable"):
        by_status.setdefault(KINDS[kind][0], []).append(kind)
    return {status: _documented(status, names) for status, names in sorted(by_status.items())}


def _documented(status: int, kinds: list[str]) -> dict[str, Any]:
    examples = {kind: {"value": Problem.of(kind, KINDS[kind][1] + ".").to_json()} for kind in kinds}
    content: dict[str, Any] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}}
    headers = {"WWW-Authenticate": {"schema": {"type": "string"}}} if status == 401 else {}
    return {"description": "; ".join(KINDS[kind][1] for kind in kinds), "content": content, "headers": headers}


def respond(problem: Problem) -> ProblemResponse:
    """The answer for a problem."""
    headers: dict[str, str] = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status in {429, 503} or problem.type.endswith("/no-rules-yet"):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return ProblemResponse(problem.to_json(), problem.status, headers)


def correlation_of(request: Request) -> str | None:
    """The id that the middleware gave the request."""
    found: str | None = getattr(request.state, "correlation", None)
    return found


async def _ours(request: Request, error: Exception) -> ProblemResponse:
    problem = problem_of(error, correlation_of(request))
    if problem.status >= 500:
        logger.warning("request failed", correlation=problem.instance, reason=error)
    return respond(problem)


async def _redis(request: Request, error: Exception) -> ProblemResponse:
    logger.warning("Redis cannot be reached", correlation=correlation_of(request), reason=error)
    said = "Redis, which the cluster works over, cannot be reached."
    return respond(Problem.of("unavailable", said, remedy="Try again soon.", instance=correlation_of(request)))


async def _broker(request: Request, error: Exception) -> ProblemResponse:
    logger.warning("the broker cannot be reached", correlation=correlation_of(request), reason=error)
    said = "The broker, by which tasks travel, cannot be reached."
    return respond(Problem.of("unavailable", said, remedy="Try again soon.", instance=correlation_of(request)))


async def _invalid(request: Request, error: RequestValidationError) -> ProblemResponse:
    """FastAPI's own finding, in the words of every other place that documents come in at."""
    found = [{**one, "loc": _place(one["loc"])} for one in error.errors()]
    return respond(problem_of(document_error(found), correlation_of(request)))


def _place(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Without `body` and its like: what is wrong is named as the sender calls it."""
    return place[1:] if len(place) > 1 and place[0] in _PLACES else place


async def _http(request: Request, error: HTTPException) -> ProblemResponse:
    """What routing found: no such path, no such method, a body that does not parse."""
    kind = _BY_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "invalid-document")
    detail = str(error.detail)
    if error.status_code == 404:
        detail = f"There is nothing at {request.url.path[:200]}."
    elif error.status_code == 405:
        detail = f"{request.method} cannot be done at {request.url.path[:200]}."
    response = respond(Problem.of(kind, detail, instance=correlation_of(request)))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """All that can be done at a path; the router names those of the first route that it finds there."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in routes for method in getattr(route, "methods", None) or ()}


async def _unexpected(request: Request, error: Exception) -> ProblemResponse:
    """Nothing of the error is told to the client; the log has it under the same id."""
    logger.warning("request failed by our fault", correlation=correlation_of(request), reason=repr(error))
    return respond(problem_of(error, correlation_of(request)))
