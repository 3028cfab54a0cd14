"""`/healthz`, `/readyz` and `/v1/about`: the state of this process and of the components of the cluster."""

from fastapi import APIRouter, Request
from pydantic import BaseModel
from redis import RedisError
from starlette.responses import Response

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import MaaboError
from scheduler.api.dependencies import api_state
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of, documented
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


_NOT_READY = {
    "description": "A component of the cluster is not available",
    "content": {MEDIA_TYPE: {"schema": NotReady.model_json_schema()}},
}


@router.get("/healthz")
async def healthz() -> Health:
    """Check that this process is alive. Does not contact any other component."""
    return Health()


@router.get("/readyz", response_model=Readiness, responses={503: _NOT_READY})
def readyz(request: Request) -> Readiness | Response:
    """Check that a new job would be processed; if not, name the components that are not available."""
    resources = api_state(request).resources
    components = ("ledger", "redis", "scheduler", "store", *(["broker"] if resources.broker.apart else []))
    states = {component: _check(component, resources) for component in components}
    missing = [f"{name}: {state}" for name, state in states.items() if state != "ok"]
    if not missing:
        return Readiness(ready=True, parts=states)
    problem = Problem.of("unavailable", "; ".join(missing), instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=states).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _check(component: str, resources: Resources) -> str:
    """Return `ok` or a problem; the response does not reveal addresses."""
    try:
        match component:
            case "ledger":
                resources.ledger.tokens.any_exist()
            case "redis":
                resources.redis.ping()
            case "scheduler":
                if not resources.redis.exists(resources.settings.key(names.CLUSTER)):
                    return "none is running"
            case "store":
                resources.store.has(_ABSENT)
            case "broker":
                resources.broker.waiting([names.EVALUATE_QUEUE])
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"
    return "ok"


@router.get("/v1/about", responses=documented(public=True))
def about(request: Request) -> About:
    """Return the version of the server and how to use it. Needs no token."""
    api = api_state(request)
    return About(version=__version__, needs_token=api.needs_tokens(), flower=api.settings.flower_url)
