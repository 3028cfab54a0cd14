"""Logs: events with their fields, as text or JSON."""

import io
import json
import logging

import pytest

from maabo_dist.cluster.logs import StructuredLogger, log_handler


@pytest.fixture
def log_line():
    """Logs one event in a style, and returns the line."""
    logger = logging.getLogger("maabo.test")
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def write(style, event, **fields):
        stream = io.StringIO()
        logger.handlers[:] = [log_handler(style, stream)]
        StructuredLogger("maabo.test").warning(event, **fields)
        return stream.getvalue()

    yield write
    logger.handlers.clear()


def test_text_lines_contain_the_event_and_its_fields(log_line):
    line = log_line("text", "task lost", job="7f3a", seconds=1.23456, reason="signal 9 (SIGKILL)")

    assert line.endswith('WARNING maabo.test: task lost job=7f3a seconds=1.235 reason="signal 9 (SIGKILL)"\n')


def test_json_lines_contain_the_event_and_its_fields(log_line):
    line = json.loads(log_line("json", "task lost", job="7f3a", reason="signal 9"))

    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "maabo.test",
        "event": "task lost",
        "job": "7f3a",
        "reason": "signal 9",
    }


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_line_break_in_a_value_does_not_start_a_new_line(log_line, style):
    line = log_line(style, "job refused", reason="x\n2026-01-01 INFO maabo: all is well")

    assert line.count("\n") == 1


FORGERIES = ["a\nb", "a\rb", "a\x1b[2Jb", "a\x85b", "a\u2028b", "a\u202eb", "a\x00b", "a\ud800b", 'a" job=b', "a job=b"]


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("value", FORGERIES)
def test_no_value_can_look_like_another_line_or_field(log_line, style, value):
    line = log_line(style, "job refused", correlation=value, job="7f3a")

    assert line.encode().decode().splitlines() == [line.removesuffix("\n")]
    assert line.removesuffix("\n").isprintable()
    assert line.count(" job=") - line.count("a job=b") - line.count('\\" job=b') == (style == "text")
