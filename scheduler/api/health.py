"""`/healthz` and `/readyz`: whether the process lives, and whether the cluster behind it can take a job."""

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
from scheduler.api.auth import Reader
from scheduler.api.metrics import work_of
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of, documented
from scheduler.api.state import api_state
from scheduler.messaging.broker import BrokerError
from scheduler.resources import Resources

router = APIRouter(tags=["health"])

_NOWHERE = "columns/" + "0" * 64


class Health(BaseModel):
    """The process answers."""

    status: str = "ok"


class Readiness(BaseModel):
    """The parts of the cluster, each with `ok` or what is wrong."""

    ready: bool
    parts: dict[str, str]


class NotReady(Problem):
    """Which parts are missing."""

    ready: bool = False
    parts: dict[str, str]


def _not_ready() -> dict[str, Any]:
    schema = NotReady.model_json_schema()
    return {"description": "A part of the cluster is missing", "content": {MEDIA_TYPE: {"schema": schema}}}


@router.get("/healthz")
async def healthz() -> Health:
    """Whether this process lives. It asks nobody else."""
    return Health()


@router.get("/readyz", response_model=Readiness, responses={503: _not_ready()})
def readyz(request: Request) -> Readiness | Response:
    """Whether a job that comes now would be worked on; says which part is missing."""
    resources = api_state(request).resources
    looks = _LOOKS | ({"broker": _broker} if resources.broker.apart else {})
    found = {name: _state(look, resources) for name, look in looks.items()}
    missing = [name for name, state in found.items() if state != "ok"]
    if not missing:
        return Readiness(ready=True, parts=found)
    detail = "; ".join(f"{name}: {found[name]}" for name in missing)
    problem = Problem.of("unavailable", detail, instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=found).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _state(look: Callable[[Resources], str], resources: Resources) -> str:
    """Addresses stay in the log of whoever runs this."""
    try:
        return look(resources)
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"


def _ledger(resources: Resources) -> str:
    resources.ledger.tokens.any_exist()
    return "ok"


def _redis(resources: Resources) -> str:
    resources.redis.ping()
    return "ok"


def _broker(resources: Resources) -> str:
    resources.broker.waiting([names.EVALUATE_QUEUE])
    return "ok"


def _scheduler(resources: Resources) -> str:
    return "ok" if resources.redis.exists(resources.settings.key(names.CLUSTER)) else "none is running"


def _store(resources: Resources) -> str:
    resources.store.has(_NOWHERE)
    return "ok"


_LOOKS: dict[str, Callable[[Resources], str]] = {
    "ledger": _ledger,
    "redis": _redis,
    "scheduler": _scheduler,
    "store": _store,
}


class About(BaseModel):
    """What anyone may know of a server."""

    version: str
    needs_token: bool
    """Whether every other request has to bring a token."""
    flower: str | None
    """Where Flower is, if the operator said so."""


class Load(BaseModel):
    """How busy the cluster is: all tenants' jobs together."""

    tasks: int
    """Sent to workers and not answered."""
    waiting: int
    """Of these, those that no worker has taken."""
    work_seconds: float
    """That workers have spent on tasks so far. Its rise in a second is how many processes are busy."""
    processes: int
    """Tasks that the workers can do at a time."""


@router.get("/v1/about", responses=documented())
def about(request: Request) -> About:
    """Whom one talks to. Needs no token."""
    api = api_state(request)
    return About(version=__version__, needs_token=api.needs_tokens(), flower=api.settings.flower_url)


@router.get("/v1/load", responses=documented("unauthorized", "forbidden"))
def load(request: Request, _caller: Reader) -> Load:
    """How many tasks the workers have, how many wait for one of them, and how long they have worked."""
    resources = api_state(request).resources
    work = work_of(resources.redis, resources.broker, resources.settings)
    waiting = min(work.tasks, work.waiting)
    return Load(tasks=work.tasks, waiting=waiting, work_seconds=work.seconds, processes=work.processes)
