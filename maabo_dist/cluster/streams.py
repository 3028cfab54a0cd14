"""Redis as the post office: answers from workers to the scheduler, job documents and controls to it.

A stream entry is a JSON header and, for trees and pairs, the packed bytes beside it.
"""

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.messages import EvaluationAnswer, Request, RulesAnswer, ScreenAnswer

HEADER, RULES_HEADER, SCREEN_HEADER, BODY = b"header", b"mined", b"screened", b"body"
"""Fields of a stream entry. `HEADER` holds an `EvaluationAnswer` or a `Request`; `BODY` holds the packed data."""

SOCKET_SECONDS = 5
"""A process has several connections, and finds out one after the other that they are dead."""
STREAM_SECONDS = 3600
"""What workers answer to a job that nobody asks about goes after so long; it can be had again."""


def open_redis(settings: ClusterSettings) -> redis.Redis:
    """A client with time-outs everywhere: a half-open connection is noticed in seconds.

    What failed on an old connection is tried on a new one, once; so a command may be done twice.
    """
    over_network: dict[str, Any] = {"socket_connect_timeout": SOCKET_SECONDS, "socket_keepalive": True}
    return redis.Redis.from_url(
        settings.redis_url,
        socket_timeout=SOCKET_SECONDS,
        health_check_interval=5,
        retry=Retry(NoBackoff(), 1),
        **({} if settings.redis_url.startswith("unix:") else over_network),
    )


def send_evaluation_answer(
    client: Any, settings: ClusterSettings, answer: EvaluationAnswer, trees: bytes = b""
) -> None:
    """Put an answer on the job's stream. A lost reply may put it there twice; the scheduler drops the second."""
    _add(client, results_stream(settings, answer.job), {HEADER: answer.model_dump_json(), BODY: trees})


def send_rules_answer(client: Any, settings: ClusterSettings, answer: RulesAnswer, document: bytes = b"") -> None:
    """Put the answer to a request for rules on the job's stream."""
    _add(client, results_stream(settings, answer.job), {RULES_HEADER: answer.model_dump_json(), BODY: document})


def send_screen_answer(client: Any, settings: ClusterSettings, answer: ScreenAnswer, pairs: bytes = b"") -> None:
    """Put the answer to a block of a screen on the job's stream."""
    _add(client, results_stream(settings, answer.job), {SCREEN_HEADER: answer.model_dump_json(), BODY: pairs})


def _add(client: Any, stream: str, fields: dict[bytes, Any]) -> None:
    with client.pipeline(transaction=False) as pipe:
        pipe.xadd(stream, fields)
        pipe.expire(stream, STREAM_SECONDS)
        pipe.execute()


def send_request(client: Any, settings: ClusterSettings, request: Request) -> None:
    """Put a request on the intake stream."""
    client.xadd(settings.key(names.INTAKE_STREAM), {HEADER: request.model_dump_json()})


def results_stream(settings: ClusterSettings, job: str) -> str:
    """Every job has a stream of its own: whoever holds the job reads it, so that a takeover misses nothing."""
    return settings.key(f"{names.RESULTS_STREAM}:{job}")
