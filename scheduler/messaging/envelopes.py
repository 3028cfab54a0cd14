"""`Envelopes`: the messages that `Celery.send_task` puts into Redis, at a fifth of its cost.

Celery makes the first message of each task, in memory. Others are copies of it with their own fields, so that the
format is always that of the installed Celery and kombu.
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu.connection import Connection

# The hard and the soft time limit, in seconds; None for the worker's own.
TimeLimits = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class _Template:
    fields: dict[str, Any]
    headers: dict[str, Any]
    properties: dict[str, Any]
    # The third part of a body: callbacks and the like, which our tasks do not have.
    embedded: str


class Envelopes:
    """Makes messages for queues that are lists in Redis."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._templates: dict[str, _Template] = {}

    def make(self, task: str, queue: str, keywords: str, summary: str, limits: TimeLimits = (None, None)) -> str:
        """Return a message. `keywords` is a JSON object."""
        template = self._templates.get(task) or self._make_template(task, queue)
        name = str(uuid4())
        headers = {"id": name, "root_id": name, "argsrepr": summary, "timelimit": limits}
        properties = {"correlation_id": name, "delivery_tag": str(uuid4()), "argsrepr": summary}
        body = f"[[], {keywords}, {template.embedded}]"
        return json.dumps(
            template.fields
            | {
                "body": b64encode(body.encode()).decode(),
                "headers": template.headers | headers,
                "properties": template.properties | properties,
            }
        )

    def _make_template(self, task: str, queue: str) -> _Template:
        with Connection("memory://") as connection:  # type: ignore[no-untyped-call]  # kombu has types for some parts
            self._celery.send_task(
                task, queue=queue, connection=connection, argsrepr="", kwargsrepr="", delivery_mode="transient"
            )
            message = connection.SimpleQueue(queue).get_nowait()
            message.ack()
        fields = {"content-type": message.content_type, "content-encoding": message.content_encoding}
        embedded = json.dumps(json.loads(message.body)[2])
        template = _Template(fields, message.headers, message.properties, embedded)
        self._templates[task] = template
        return template
