"""`/v1/about` and `/v1/load`: what a page has to know of its server, and how busy the cluster is."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from maabo_dist._version import __version__
from scheduler.api.callers import Reader
from scheduler.api.exposition import work_of
from scheduler.api.problems import documented
from scheduler.api.state import service_of

router = APIRouter(prefix="/v1", tags=["health"])


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


@router.get("/about", responses=documented())
def about(request: Request) -> About:
    """Whom one talks to. Needs no token."""
    service = service_of(request)
    return About(version=__version__, needs_token=service.needs_tokens(), flower=service.settings.flower_url)


@router.get("/load", responses=documented("unauthorized", "forbidden"))
def load(request: Request, _caller: Reader) -> Load:
    """How many tasks the workers have, how many wait for one of them, and how long they have worked."""
    parts = service_of(request).parts
    work = work_of(parts.redis, parts.broker, parts.settings)
    waiting = min(work.tasks, work.waiting)
    return Load(tasks=work.tasks, waiting=waiting, work_seconds=work.seconds, processes=work.processes)
