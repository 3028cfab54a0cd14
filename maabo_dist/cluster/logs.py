"""Structured logging: messages with fields, formatted as text lines or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

_FIELDS = "maabo_fields"


class StructuredLogger:
    """A logger whose messages carry fields: `logger.info("task lost", job=…, batch=…)`; None is omitted."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, /, **fields: object) -> None:
        """Log a routine event."""
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Log a decision or a change of state."""
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        """Log a problem that is being handled."""
        self._log(logging.WARNING, message, fields)

    def _log(self, level: int, message: str, fields: dict[str, object]) -> None:
        present = {name: value for name, value in fields.items() if value is not None}
        self._logger.log(level, message, extra={_FIELDS: present})


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:01 INFO maabo.scheduler: task lost job=7f3a batch=12`."""

    default_msec_format = None

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the message followed by its fields."""
        return _append_fields(super().formatMessage(record), record)


class AppendingFormatter(logging.Formatter):
    """Adds the fields to the lines of another formatter."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """Return the other formatter's line, followed by the fields."""
        return _append_fields(self._formatter.format(record), record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `event` and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
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
        # Some readers split lines at more characters than \n.
        return text if text.isprintable() else json.dumps(line, default=str)


def log_handler(style: Literal["text", "json"], stream: TextIO) -> logging.Handler:
    """Return a handler that writes in this style."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    return handler


def set_up_logging(style: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Log to stderr: our own messages from INFO, those of libraries from WARNING."""
    root = logging.getLogger()
    root.handlers[:] = [log_handler(style, stream or sys.stderr)]
    root.setLevel(logging.WARNING)
    logging.getLogger("maabo").setLevel(logging.INFO)


def _append_fields(line: str, record: logging.LogRecord) -> str:
    fields = getattr(record, _FIELDS, {})
    return " ".join([line, *(f"{name}={_format_value(fields[name])}" for name in fields)])


def _format_value(value: object) -> str:
    """Quote values that could be mistaken for another field or line, or that contain terminal control codes."""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text
