"""`/healthz`, `/readyz` and `/v1/about`: the state of this process and of the components of the cluster."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from redis import RedisError
from starlette.responses import Response

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import MaaboError
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of, documented
from scheduler.api.state import api_state
from scheduler.broker import BrokerError
from scheduler.resources import Resources

router = APIRouter(tags=["health"])

_ABSENT = "columns/" + "0" * 64


class Health(BaseModel):
    """The process is alive."""

    status: str = "ok"


class Readiness(BaseModel):
    """Each component of the cluster with `ok` or its problem."""

    ready: bool
    parts: dict[str, str]


class NotReady(Problem):
    """A problem document with the state of each component."""

    ready: bool = False
    parts: dict[str, str]


class About(BaseModel):
    """Public information about a server."""

    version: str
    needs_token: bool  # True if all other requests need a token
    flower: str | None  # address of Flower, if configured


def _not_ready() -> dict[str, Any]:
    schema = NotReady.model_json_schema()
    return {"description": "A component of the cluster is not available", "content": {MEDIA_TYPE: {"schema": schema}}}


@router.get("/healthz")
async def healthz() -> Health:
    """Check that this process is alive. Does not contact any other component."""
    return Health()


@router.get("/readyz", response_model=Readiness, responses={503: _not_ready()})
def readyz(request: Request) -> Readiness | Response:
    """Check that a new job would be processed; if not, name the components that are not available."""
    resources = api_state(request).resources
    states = {
        name: _check(check, resources) for name, check in _CHECKS.items() if name != "broker" or resources.broker.apart
    }
    missing = [f"{name}: {state}" for name, state in states.items() if state != "ok"]
    if not missing:
        return Readiness(ready=True, parts=states)
    problem = Problem.of("unavailable", "; ".join(missing), instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=states).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _check(check: Callable[[Resources], Any], resources: Resources) -> str:
    """Return `ok` or a problem; the response does not reveal addresses."""
    try:
        return check(resources) or "ok"
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"


def _check_ledger(resources: Resources) -> None:
    resources.ledger.tokens.any_exist()


def _check_redis(resources: Resources) -> None:
    resources.redis.ping()


def _check_scheduler(resources: Resources) -> str | None:
    return None if resources.redis.exists(resources.settings.key(names.CLUSTER)) else "none is running"


def _check_store(resources: Resources) -> None:
    resources.store.has(_ABSENT)


def _check_broker(resources: Resources) -> None:
    resources.broker.waiting([names.EVALUATE_QUEUE])


_CHECKS: dict[str, Callable[[Resources], str | None]] = {
    "ledger": _check_ledger,
    "redis": _check_redis,
    "scheduler": _check_scheduler,
    "store": _check_store,
    "broker": _check_broker,
}


@router.get("/v1/about", responses=documented(public=True))
def about(request: Request) -> About:
    """Return the version of the server and how to use it. Needs no token."""
    api = api_state(request)
    return About(version=__version__, needs_token=api.needs_tokens(), flower=api.settings.flower_url)
