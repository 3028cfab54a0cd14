"""`python -m scheduler health`: whether a scheduler of this host takes its turns; for container managers."""

import socket
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from maabo_dist.cluster.address import reaching
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.errors import MaaboError

PATIENCE = 5.0
_PROCESSES = Path("/proc")


class UnwellError(MaaboError):
    """No scheduler takes its turns here."""

    kind = "unavailable"


def check_scheduler(settings: ClusterSettings) -> str:
    """Who is well, in a line.

    Every scheduler writes its meters to Redis as it turns, and they expire when it does not. Looked for are those of
    the processes that can be seen from here: in a container, its own.
    """
    # Without retries: a Redis that is not there is an answer, too.
    with (
        reaching(settings.redis_url),
        redis.Redis.from_url(settings.redis_url, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)) as client,
    ):
        found = _turning(client, settings)
    if not found:
        raise UnwellError(f"No scheduler process of {socket.gethostname()} has taken a turn in the last minute.")
    return f"{', '.join(found)} is well."


def _turning(client: Any, settings: ClusterSettings) -> list[str]:
    host = socket.gethostname()
    owners = [f"{host}:{path.name}" for path in _PROCESSES.iterdir() if path.name.isdecimal()]
    kept = client.mget([settings.key(f"{names.METERS}:{owner}") for owner in owners])
    return [owner for owner, meters in zip(owners, kept, strict=True) if meters is not None]
