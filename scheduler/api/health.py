"""`/healthz`, `/readyz` and `/v1/about`: the state of this process and of the cluster, for anyone."""

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel
from redis import RedisError, ResponseError
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from starlette.responses import Response

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import MaaboError
from scheduler.api.dependencies import api_state
from scheduler.api.monitoring import check_writable, read_records
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of, documented
from scheduler.api.routing import Router
from scheduler.ledger.jobs import OPEN
from scheduler.resources import BrokerError, Resources

router = Router(tags=["health"])

OK = "ok"
COMPONENTS = ("ledger", "redis", "scheduler", "store", "workers")
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


_READINESS: dict[int | str, dict[str, Any]] = {**documented("invalid-document", public=True), 503: _NOT_READY}
Components = Annotated[
    str | None,
    Query(max_length=200, description="Check these components only, separated by commas."),
]


@router.get("/readyz", response_model=Readiness, responses=_READINESS)
def readyz(request: Request, parts: Components = None) -> Readiness | Response:
    """Check that a new job would be processed; if not, name the components that are not available.

    That no worker runs is a problem if jobs wait for one.
    """
    resources = api_state(request).resources
    components = [*COMPONENTS, *(["broker"] if resources.broker.is_separate else [])]
    if parts is not None:
        components = [component for component in components if component in parts.split(",")]
    states = {component: _check(component, resources) for component in components}
    missing = [f"{name}: {state}" for name, state in states.items() if not state.startswith(OK)]
    if not missing:
        return Readiness(ready=True, parts=states)
    problem = Problem.of("unavailable", "; ".join(missing), instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=states).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _check(component: str, resources: Resources) -> str:
    """Return a text that begins with `ok`, or a problem; the response does not reveal addresses."""
    try:
        match component:
            case "ledger":
                resources.ledger.tokens.any_exist()
            case "redis":
                check_writable(resources)
            case "scheduler":
                return _check_schedulers(resources)
            case "workers":
                return _check_workers(resources)
            case "store":
                resources.store.has(_ABSENT)
            case "broker":
                resources.broker.waiting([names.EVALUATE_QUEUE])
    except ResponseError as error:
        return _describe_refusal(error)
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"
    return OK


def _check_schedulers(resources: Resources) -> str:
    """Schedulers write to the ledger what they cannot use; this process may reach it nevertheless."""
    outages = resources.ledger.outages.current()
    parts = " and ".join(sorted({outage.kind for outage in outages}))
    if not resources.redis.exists(resources.settings.key(names.CLUSTER)):
        return f"none can use {parts}" if outages else "none is running"
    running = len(read_records(resources)[0])
    if outages and len(outages) >= running:
        return f"none can use {parts}"
    return f"{OK}, but {len(outages)} of {running} cannot use {parts}" if outages else OK


def _check_workers(resources: Resources) -> str:
    if read_records(resources)[1]:
        return OK
    counts = resources.ledger.jobs.count_by_state()
    jobs = sum(counts.get(state.value, 0) for state in OPEN)
    return f"none is running; waiting jobs: {jobs}" if jobs else f"{OK}, but none is running; no job waits"


def _describe_refusal(error: ResponseError) -> str:
    """Describe why Redis refuses writes, by the code of its error."""
    if isinstance(error, OutOfMemoryError):
        return "refuses writes: its memory is full (maxmemory)"
    if isinstance(error, ReadOnlyError):
        return "refuses writes: it is a replica"
    return f"refuses writes: {str(error).partition(' ')[0]}"


@router.get("/v1/about", responses=documented(public=True))
async def about(request: Request) -> About:
    """Return the version of the server and how to use it. Needs no token."""
    api = api_state(request)
    return About(version=__version__, needs_token=await api.needs_tokens(), flower=api.settings.flower_url)
