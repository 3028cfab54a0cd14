"""`/healthz` and `/readyz`: whether the process lives, and whether the cluster behind it can take a job."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from redis import RedisError
from starlette.responses import Response

from maabo_dist.contract import names
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import MaaboError
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of
from scheduler.api.state import service_of
from scheduler.messaging.broker import BrokerError
from scheduler.resources import Parts

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
    parts = service_of(request).parts
    looks = _LOOKS | ({"broker": _broker} if parts.broker.apart else {})
    found = {name: _state(look, parts) for name, look in looks.items()}
    missing = [name for name, state in found.items() if state != "ok"]
    if not missing:
        return Readiness(ready=True, parts=found)
    detail = "; ".join(f"{name}: {found[name]}" for name in missing)
    problem = Problem.of("unavailable", detail, instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=found).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _state(look: Callable[[Parts], str], parts: Parts) -> str:
    """Addresses stay in the log of whoever runs this."""
    try:
        return look(parts)
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"


def _ledger(parts: Parts) -> str:
    parts.ledger.registry.any_token()
    return "ok"


def _redis(parts: Parts) -> str:
    parts.redis.ping()
    return "ok"


def _broker(parts: Parts) -> str:
    parts.broker.waiting([names.EVALUATE_QUEUE])
    return "ok"


def _scheduler(parts: Parts) -> str:
    return "ok" if parts.redis.exists(parts.settings.key(names.CLUSTER)) else "none is running"


def _store(parts: Parts) -> str:
    parts.store.has(_NOWHERE)
    return "ok"


_LOOKS: dict[str, Callable[[Parts], str]] = {
    "ledger": _ledger,
    "redis": _redis,
    "scheduler": _scheduler,
    "store": _store,
}
