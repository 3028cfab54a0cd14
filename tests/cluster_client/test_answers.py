"""Answers of workers as entries of a stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.cluster.streams import BODY, CHECKSUM, answer_entry, read_entry
from maabo_dist.contract.messages import CountAnswer, EvaluationAnswer, RulesAnswer, ScreenAnswer, ShuffleAnswer
from maabo_dist.errors import FormatError

ANSWER = {"kind": "done", "job": "0123456789abcdef" * 2, "attempt": 0, "worker": "here:1", "seconds": 0.25}
BLOCK = ANSWER | {"start": 1, "stop": 12}
ANSWERS = [
    EvaluationAnswer.read(BLOCK | {"batch": 1}),
    RulesAnswer.read(ANSWER | {"final": True, "digest": "1" * 64}),
    ScreenAnswer.read(BLOCK),
    ShuffleAnswer.read(BLOCK),
    CountAnswer.read(BLOCK | {"number": 1}),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
@given(st.binary())
def test_an_answer_is_read_as_it_was_sent(answer, body):
    assert read_entry(answer_entry(answer, body)) == (answer, body)


@given(st.sampled_from(ANSWERS), st.binary(min_size=1), st.data())
def test_a_changed_byte_anywhere_is_detected(answer, body, data):
    """Also where the entry is still valid: the digit of a number, the strength of a pair, a word of a document."""
    entry = answer_entry(answer, body)
    field = data.draw(st.sampled_from(sorted(entry)))
    position = data.draw(st.integers(0, len(entry[field]) - 1))
    changed = bytearray(entry[field])
    changed[position] ^= data.draw(st.integers(1, 255))

    with pytest.raises(FormatError):
        read_entry(entry | {field: bytes(changed)})


@given(st.sampled_from(ANSWERS), st.binary(min_size=1), st.data())
def test_a_truncated_body_is_detected(answer, body, data):
    shorter = body[: data.draw(st.integers(0, len(body) - 1))]

    with pytest.raises(FormatError, match="checksum"):
        read_entry(answer_entry(answer, body) | {BODY: shorter})


def test_an_answer_of_one_kind_is_not_read_as_another():
    """The headers of screens and shuffled searches have the same fields."""
    entry = answer_entry(ScreenAnswer.read(BLOCK), b"pairs")
    entry[b"shuffled"] = entry.pop(b"screened")

    with pytest.raises(FormatError, match="checksum"):
        read_entry(entry)


def test_an_answer_of_release_0_1_0_has_no_checksum():
    entry = answer_entry(ANSWERS[0], b"trees")
    del entry[CHECKSUM]

    assert read_entry(entry) == (ANSWERS[0], b"trees")
