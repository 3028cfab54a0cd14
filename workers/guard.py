"""Keeps malformed messages away from Celery. Each is refused once, with its reason, and the worker lives on.

    Redis list ─► decode ─► check_envelope ─┐
    RabbitMQ ───────────────────────────────┴─► GuardedConsumer ─► check_task ─► Celery

Celery and kombu expect the messages of well-behaved clients. Many others raise an error in the main loop, which ends
the worker. A message that was not acknowledged by then is restored, and ends the next worker.
"""

import json
from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

import redis
from amqp.exceptions import AMQPError  # type: ignore[import-untyped]  # ships no types
from celery import Celery
from celery.app.task import Context
from celery.worker.consumer import Consumer
from kombu.exceptions import OperationalError
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import add_refused, open_redis
from maabo_dist.contract import names
from maabo_dist.contract.decoding import check_nesting, decode_json
from maabo_dist.contract.problem import problem_of
from maabo_dist.errors import FormatError

logger = StructuredLogger("maabo.worker")

# The largest body: that of a task with as many subsets as possible is smaller. An envelope holds it in base64.
MAX_BODY = 16 << 20
MAX_ENVELOPE = 24 << 20
# Short: the guard runs in the worker's main loop, which must not wait for an unreachable Redis.
TIMEOUT_SECONDS = 0.5
# Seconds between attempts to connect to a broker that is gone.
RECONNECT = {"interval_start": 0.2, "interval_step": 0.2, "interval_max": 1.0}
Model = TypeVar("Model", bound=BaseModel)

# Errors of the connection to the broker, which Celery handles.
_OUTAGES = (redis.RedisError, AMQPError, OperationalError, OSError)


class RefusedMessages:
    """Keeps malformed messages, with their reasons, in the stream of refused requests."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._redis = open_redis(settings, timeout=TIMEOUT_SECONDS, retries=0)

    def add(self, queue: str, data: bytes, error: FormatError) -> None:
        """Keep a message. If Redis cannot be reached, only the log has it."""
        logger.warning("message refused", queue=queue, bytes=len(data), reason=error)
        try:
            add_refused(self._redis, self._settings, f"queue {queue}", data, problem_of(error))
        except (redis.RedisError, OSError) as failure:
            logger.warning("refused message not kept", queue=queue, start=repr(data[:200]), reason=failure)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """What is delivered in place of an item that is not JSON."""

    data: bytes
    error: FormatError


def guard_messages(application: Celery, settings: ClusterSettings) -> None:
    """Have all messages of an application's workers checked. Call this once, before a worker starts."""
    refused = RefusedMessages(settings)
    application.conf.worker_consumer = partial(GuardedConsumer, refused)
    ReleasingQoS.refused = refused
    patched: Any = kombu_redis
    patched.bytes_to_str, patched.loads = _bytes_to_str, _decode_item
    patched.Transport._deliver = lambda transport, item, queue: _deliver(refused, transport, item, queue)  # noqa: SLF001
    patched.Channel.QoS = ReleasingQoS


def _bytes_to_str(data: str | bytes) -> str:
    """Keep invalid UTF-8 for `_decode_item`, which refuses it."""
    return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data


def _decode_item(text: str) -> Any:
    """Decode an item of a list or a channel. kombu calls this outside of any error handler."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        return decode_json(data, max_bytes=MAX_ENVELOPE)
    except FormatError as error:
        return Undecodable(data, error)


def _deliver(refused: RefusedMessages, transport: Any, item: Any, queue: str) -> None:
    """Pass an item of a queue or a channel on to its consumer, if it is a message."""
    try:
        check_envelope(item)
        if queue.startswith(names.QUEUE_PREFIX):  # what the sender claims would decide where the message is restored
            item["properties"]["delivery_info"] |= {"exchange": "", "routing_key": queue}
        virtual.Transport._deliver(transport, item, queue)  # type: ignore[no-untyped-call]  # noqa: SLF001
    except _OUTAGES:
        raise
    except FormatError as error:
        _refuse_item(refused, queue, item, error)
    except Exception as error:  # noqa: BLE001 - a message must not end the worker
        _refuse_item(refused, queue, item, FormatError(f"The message cannot be handled: {error!r}."))


def _refuse_item(refused: RefusedMessages, queue: str, item: Any, error: FormatError) -> None:
    data = item.data if isinstance(item, Undecodable) else json.dumps(item).encode()
    if queue.startswith(names.QUEUE_PREFIX):
        refused.add(queue, data, error)
    else:  # every worker gets it; it is not kept
        logger.warning("control message refused", queue=queue, start=repr(data[:200]), reason=error)


class _DeliveryInfo(BaseModel):
    exchange: str
    routing_key: str


class _Properties(BaseModel):
    delivery_tag: Annotated[str, Field(min_length=1, max_length=300)]
    delivery_info: _DeliveryInfo
    body_encoding: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    priority: int | None = None


class _Envelope(BaseModel):
    model_config = ConfigDict(strict=True)

    body: str
    properties: _Properties
    headers: dict[str, Any] | None = None


def check_envelope(item: object) -> None:
    """Raise a FormatError unless kombu can make a message from an item of a Redis list or channel."""
    if isinstance(item, Undecodable):
        raise item.error
    if not isinstance(item, dict):
        raise FormatError(f"The message is not an object but {type(item).__name__}.")
    envelope = _validate(_Envelope, item)
    _check_compression(envelope.headers or {})
    if envelope.properties.body_encoding not in {None, "base64"}:
        raise FormatError(f"body_encoding {envelope.properties.body_encoding!r} is unknown; base64 is supported.")
    if envelope.properties.body_encoding == "base64":
        try:
            b64decode(envelope.body.encode())
        except ValueError as error:
            raise FormatError(f"The body is not base64: {error}.") from None


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _check_limits(limits: object) -> object:
    if isinstance(limits, list | tuple) and len(limits) != 2:
        raise ValueError("it must have two values")
    return list(limits) if isinstance(limits, tuple) else limits


Text = Annotated[str, Field(max_length=100_000)]
Identifier = Annotated[str, Field(min_length=1, max_length=300)]
Time = Annotated[Text, AfterValidator(_check_time)]
Seconds = Annotated[float, Field(gt=0, le=1e7)]


class _Headers(BaseModel):
    """The headers of Celery's protocol 2. Other headers may have any value."""

    model_config = ConfigDict(strict=True)

    task: Identifier
    id: Identifier
    retries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    timelimit: Annotated[list[Seconds | None] | None, BeforeValidator(_check_limits)] = None
    eta: Time | None = None
    expires: Time | None = None
    ignore_result: bool | None = None
    replaced_task_nesting: int | None = None
    group: Identifier | None = None
    group_index: int | None = None
    root_id: Identifier | None = None
    parent_id: Identifier | None = None
    shadow: Identifier | None = None
    origin: Text | None = None
    argsrepr: Text | None = None
    kwargsrepr: Text | None = None
    stamped_headers: list[str] | None = None
    stamps: dict[str, Any] | None = None


def _check_signature(signature: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(signature.get("task"), str):
        raise ValueError("it does not name a task")
    return signature


Signature = Annotated[dict[str, Any], AfterValidator(_check_signature)]


class _Embedded(BaseModel):
    """Tasks that Celery calls afterwards."""

    model_config = ConfigDict(strict=True)

    callbacks: list[Signature] | None = None
    errbacks: list[Signature] | None = None
    chain: list[Signature] | None = None
    chord: Signature | None = None


# Celery copies headers to attributes of its `Context`; others must not replace these.
_RESERVED = frozenset(dir(Context)) - _Headers.model_fields.keys()


def check_task(message: Any, tasks: Collection[str]) -> None:
    """Raise a FormatError unless a message is one that Celery can pass to one of these tasks."""
    headers = message.headers
    if not isinstance(headers, Mapping) or not headers:
        raise FormatError("The message has no headers of a task.")
    _check_compression(headers)
    task = _validate(_Headers, dict(headers)).task
    if reserved := sorted(_RESERVED.intersection(headers)):
        raise FormatError(f"The header {reserved[0]} is reserved.")
    if task not in tasks:
        raise FormatError(f"There is no task {task[:200]!r}. Upgrade this worker if it is a newer release's.")
    _check_body(message)


def _check_body(message: Any) -> None:
    if message.content_type != "application/json":
        raise FormatError(f"The content type {message.content_type!r} is not accepted; use application/json.")
    if str(message.content_encoding).lower() not in {"utf-8", "utf8"}:
        raise FormatError(f"The encoding {message.content_encoding!r} is not accepted; use utf-8.")
    if len(message.body or "") > MAX_BODY:
        raise FormatError(f"The body has {len(message.body):,} bytes; at most {MAX_BODY:,} are accepted.")
    try:
        body = message.decode()  # Celery uses this result again
    except Exception as error:  # noqa: BLE001 - kombu passes on what decoders raise
        raise FormatError(f"The body is not valid JSON: {error!r}."[:2000]) from None
    if not isinstance(body, list) or len(body) != 3:
        raise FormatError("The body is not a list of arguments, keyword arguments and options.")
    check_nesting(body)
    arguments, keywords, embedded = body
    if arguments != [] or not isinstance(keywords, dict):
        raise FormatError("The task takes keyword arguments only: the body must begin with [], {…}.")
    if "self" in keywords:
        raise FormatError("No keyword argument can be called self.")
    _validate(_Embedded, {} if embedded is None else embedded)


def _check_compression(headers: Mapping[str, Any]) -> None:
    if headers.get("compression") is not None:
        raise FormatError("Compressed messages are not accepted.")


def _validate(model: type[Model], value: object) -> Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"])) or "message"
        raise FormatError(f"The message is malformed: {field}: {problem['msg']}.") from None


class GuardedConsumer(Consumer):  # type: ignore[misc]  # Celery ships no types
    """Celery's consumer, which refuses what its tasks cannot be called with."""

    def __init__(self, refused: RefusedMessages, *arguments: Any, **options: Any) -> None:
        self._refused = refused
        super().__init__(*arguments, **options)

    def ensure_connected(self, connection: Any) -> Any:
        """Connect to the broker. By default, Celery waits 2 s, then 4 s, then 6 s … between attempts."""
        connection.ensure_connection = partial(connection.ensure_connection, **RECONNECT)
        return super().ensure_connected(connection)

    def create_task_handler(self, *arguments: Any, **options: Any) -> Any:
        """Return the function that is called with each message of a queue."""
        pass_on = super().create_task_handler(*arguments, **options)

        def handle(message: Any) -> None:
            try:
                check_task(message, self.strategies)
                pass_on(message)
            except _OUTAGES:
                raise
            except FormatError as error:
                self._refuse(message, error)
            except Exception as error:  # noqa: BLE001 - a message must not end the worker
                self._refuse(message, FormatError(f"The message cannot be handled: {error!r}."))

        return handle

    def on_decode_error(self, message: Any, error: Exception) -> None:
        """Refuse a message that kombu could not decode."""
        self._refuse(message, FormatError(f"The message cannot be decoded: {error!r}."))

    def _refuse(self, message: Any, error: FormatError) -> None:
        """Keep a message, then remove it from its queue."""
        body = message.body or b""
        queue = (message.delivery_info or {}).get("routing_key") or "unknown"
        self._refused.add(str(queue), body if isinstance(body, bytes) else str(body).encode(errors="replace"), error)
        if not message.acknowledged:
            message.reject_log_error(logger, self.connection_errors)


class ReleasingQoS(kombu_redis.QoS):
    """Releases messages even if Redis cannot be reached, and refuses damaged ones.

    Otherwise they count as in progress forever, and a worker that reaches its limit of such messages takes no others.
    Redis delivers them again after the visibility timeout; the scheduler drops the second answer.

    A channel that was closed in an outage has no connection at all. kombu then raises an AttributeError, which is not
    handled and ends the worker.
    """

    refused: RefusedMessages

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note a message that was taken; only here if Redis refuses writes. Schedulers send lost tasks again."""
        try:
            super().append(message, delivery_tag)  # type: ignore[no-untyped-call]  # kombu has some types
        except redis.ResponseError as error:
            logger.warning("Redis refuses writes", reason=error)
            virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except redis.ResponseError as error:  # it is out of memory, and an error here would end the worker
            logger.warning("Redis refuses writes", reason=error)
            self._quick_ack(delivery_tag)
        except Exception as error:
            self._quick_ack(delivery_tag)
            if isinstance(error, AttributeError):
                raise ConnectionError("The channel is closed.") from error
            raise

    def restore_unacked(self, client: Any = None) -> None:
        """Return unacknowledged messages to the queue."""
        try:
            super().restore_unacked(client)  # type: ignore[no-untyped-call]
        except AttributeError:
            self._delivered.clear()

    def restore_by_tag(self, tag: str | bytes, client: Any = None, leftmost: bool = False) -> None:
        """Return an unacknowledged message to its queue; one that is damaged would stop every later sweep."""
        try:
            super().restore_by_tag(tag, client, leftmost)  # type: ignore[no-untyped-call]
        except (TypeError, ValueError) as error:
            with self.channel.conn_or_acquire(client) as connection:
                data = connection.hget(self.unacked_key, tag) or b""
                reason = FormatError(f"The unacknowledged message is damaged: {error}.")
                self.refused.add(f"{names.QUEUE_PREFIX}unacked", data, reason)
                self._remove_from_indices(tag).execute()  # type: ignore[no-untyped-call]
