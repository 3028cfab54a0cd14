"""Logs that tell decisions: an event in words, and its facts as fields. Lines for people, or JSON for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

_FIELDS = "maabo_fields"


class Journal:
    """Writes events with fields to a logger: `journal.tell("task lost", job=…, batch=…)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def tell(self, event: str, **fields: object) -> None:
        """Something was decided."""
        self._logger.info(event, extra=_said(fields))

    def detail(self, event: str, **fields: object) -> None:
        """Something that happens all the time."""
        self._logger.debug(event, extra=_said(fields))

    def warn(self, event: str, **fields: object) -> None:
        """Something went wrong and is being dealt with."""
        self._logger.warning(event, extra=_said(fields))


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:01 INFO maabo.scheduler: task lost job=7f3a batch=12`."""

    default_msec_format = None

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The message with its fields."""
        fields = getattr(record, _FIELDS, {})
        return " ".join([super().formatMessage(record), *(f"{name}={_shown(fields[name])}" for name in fields)])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `event` and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, default=str)
        # Some readers take more than \n for the end of a line.
        return text if text.isprintable() else json.dumps(line, default=str)


def log_handler(style: Literal["text", "json"], stream: TextIO) -> logging.Handler:
    """A handler that writes in the style asked for."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    return handler


def set_up_logging(style: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Log to stderr; what libraries say appears from warnings up."""
    root = logging.getLogger()
    root.handlers[:] = [log_handler(style, stream or sys.stderr)]
    root.setLevel(logging.WARNING)
    logging.getLogger("maabo").setLevel(logging.INFO)


def _said(fields: dict[str, object]) -> dict[str, object]:
    return {_FIELDS: {name: value for name, value in fields.items() if value is not None}}


def _shown(value: object) -> str:
    """Whatever a value holds cannot make it look like another line or field, or steer a terminal."""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text
