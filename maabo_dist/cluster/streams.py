"""The Redis connection, and the streams to the schedulers: answers of workers, and requests of clients.

A stream entry is a JSON header and, for trees, pairs and rules, a body of bytes. Answers have a checksum of both.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.decoding import decode_json
from maabo_dist.contract.messages import (
    CountAnswer,
    EvaluationAnswer,
    Request,
    RulesAnswer,
    ScreenAnswer,
    ShuffleAnswer,
)
from maabo_dist.contract.problem import Problem, redact_secrets
from maabo_dist.errors import FormatError

# Fields of a stream entry. `HEADER` holds an `EvaluationAnswer` or a `Request`; `BODY` holds the packed data.
HEADER, RULES_HEADER, SCREEN_HEADER, SHUFFLE_HEADER = b"header", b"mined", b"screened", b"shuffled"
COUNT_HEADER = b"counted"
BODY = b"body"
# Of an answer; those of workers of release 0.1.0 have none.
CHECKSUM = b"checksum"

Answer = EvaluationAnswer | RulesAnswer | ScreenAnswer | ShuffleAnswer | CountAnswer
_HEADERS: dict[type[Answer], bytes] = {
    EvaluationAnswer: HEADER,
    RulesAnswer: RULES_HEADER,
    ScreenAnswer: SCREEN_HEADER,
    ShuffleAnswer: SHUFFLE_HEADER,
    CountAnswer: COUNT_HEADER,
}

# Short, because a process has several connections and detects one after another that they are dead.
SOCKET_SECONDS = 5
# The lifetime of an unread stream. Lost answers are computed again.
STREAM_SECONDS = 3600
# Refused requests and messages that are kept, approximately, and the bytes that are kept of each.
MAX_REFUSED, MAX_REFUSED_BYTES = 1000, 65536


def open_redis(settings: ClusterSettings, timeout: float = SOCKET_SECONDS, retries: int = 1) -> redis.Redis:
    """Return a client with time-outs, so that a half-open connection is detected in seconds.

    A command that failed is sent again on a new connection, `retries` times; so it may be executed twice.
    """
    over_network: dict[str, Any] = {"socket_connect_timeout": timeout, "socket_keepalive": True}
    return redis.Redis.from_url(
        settings.redis_url,
        socket_timeout=timeout,
        health_check_interval=5,
        retry=Retry(NoBackoff(), retries),
        **({} if settings.redis_url.startswith("unix:") else over_network),
    )


def send_answer(client: Any, settings: ClusterSettings, answer: Answer, body: bytes = b"") -> None:
    """Add an answer to the job's stream: its header, and packed trees, pairs, searches or a result document."""
    send_answers(client, settings, [(answer, body)])


def send_answers(client: Any, settings: ClusterSettings, answers: Sequence[tuple[Answer, bytes]]) -> None:
    """Add answers to the stream of their job. They may be added twice; the scheduler drops the second."""
    stream = results_stream(settings, answers[0][0].job)
    with client.pipeline(transaction=False) as pipe:
        for answer, body in answers:
            pipe.xadd(stream, answer_entry(answer, body))
        pipe.expire(stream, STREAM_SECONDS)
        pipe.execute()


def answer_entry(answer: Answer, body: bytes = b"") -> dict[bytes, bytes]:
    """Return the fields of an answer in a stream."""
    field, header = _HEADERS[type(answer)], answer.model_dump_json().encode()
    return {field: header, BODY: body, CHECKSUM: _checksum(field, header, body)}


def read_entry(fields: Mapping[bytes, bytes]) -> tuple[Answer, bytes]:
    """Return an answer and its body. Raise FormatError if the header is invalid, or if either was damaged."""
    kind = next((kind for kind, field in _HEADERS.items() if field in fields), EvaluationAnswer)
    field = _HEADERS[kind]
    header, body = fields.get(field, b""), fields.get(BODY, b"")
    answer = kind.read(header)
    if CHECKSUM in fields and fields[CHECKSUM] != _checksum(field, header, body):
        raise FormatError(f"The answer is damaged: its checksum does not match its {len(body):,} bytes.")
    return answer, body


def _checksum(field: bytes, header: bytes, body: bytes) -> bytes:
    """Detect damage. A worker's user of Redis can forge answers, with or without a checksum."""
    return b"%08x" % zlib.crc32(body, zlib.crc32(header, zlib.crc32(field)))


def send_request(client: Any, settings: ClusterSettings, request: Request) -> None:
    """Add a request to the intake stream."""
    client.xadd(settings.key(names.INTAKE_STREAM), {HEADER: request.model_dump_json()})


def add_refused(client: Any, settings: ClusterSettings, source: str, data: bytes, problem: Problem) -> None:
    """Keep a refused request, answer or message with its source and reason, but without its secrets."""
    text = _redact(data)[:MAX_REFUSED_BYTES]
    entry = {"request": text, "source": source, "reason": problem.detail, "problem": json.dumps(problem.to_json())}
    client.xadd(settings.key(names.REFUSED_STREAM), entry, maxlen=MAX_REFUSED, approximate=True)


def _redact(data: bytes) -> bytes:
    try:
        document = decode_json(data)
    except FormatError:
        return data
    redacted = redact_secrets(document)
    return data if redacted == document else json.dumps(redacted).encode()


def find_write_problem(client: Any, settings: ClusterSettings) -> str | None:
    """Return why Redis refuses writes although it answers, or None. Every user of a cluster may write this key."""
    try:
        client.set(settings.key(f"{names.ARTIFACT}:probe"), b"", ex=1)
    except redis.ResponseError as error:
        full = "maxmemory" in str(error)
        reason = "its memory limit (maxmemory) is reached" if full else str(error)
        return f"Redis refuses writes: {reason}. Jobs stand still until it accepts them."
    return None


def results_stream(settings: ClusterSettings, job: str) -> str:
    """Return the stream of a job. Each job has its own, so that a scheduler that takes a job over misses no answer."""
    return settings.key(f"{names.RESULTS_STREAM}:{job}")
