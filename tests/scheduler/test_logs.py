"""Logs: an event and its facts, for people or for machines."""

import io
import json
import logging

import pytest

from maabo_dist.cluster.logs import StructuredLogger, log_handler


@pytest.fixture
def written():
    """Writes one event in a style, and gives the line."""
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


def test_people_read_an_event_and_its_facts(written):
    line = written("text", "task lost", job="7f3a", seconds=1.23456, reason="signal 9 (SIGKILL)")

    assert line.endswith('WARNING maabo.test: task lost job=7f3a seconds=1.235 reason="signal 9 (SIGKILL)"\n')


def test_machines_read_the_same_as_json(written):
    line = json.loads(written("json", "task lost", job="7f3a", reason="signal 9"))

    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "maabo.test",
        "event": "task lost",
        "job": "7f3a",
        "reason": "signal 9",
    }


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_came_from_outside_never_makes_a_line_of_its_own(written, style):
    line = written(style, "job refused", reason="x\n2026-01-01 INFO maabo: all is well")

    assert line.count("\n") == 1


FORGERIES = ["a\nb", "a\rb", "a\x1b[2Jb", "a\x85b", "a\u2028b", "a\u202eb", "a\x00b", "a\ud800b", 'a" job=b', "a job=b"]


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("value", FORGERIES)
def test_no_value_can_look_like_another_line_or_field(written, style, value):
    line = written(style, "job refused", correlation=value, job="7f3a")

    assert line.encode().decode().splitlines() == [line.removesuffix("\n")]
    assert line.removesuffix("\n").isprintable()
    assert line.count(" job=") - line.count("a job=b") - line.count('\\" job=b') == (style == "text")
