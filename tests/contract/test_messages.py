"""Messages between processes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.messages import Answer, Evaluate, TableSplit, pack_subsets, unpack_subsets
from maabo_dist.errors import FormatError, SettingsError

JOB, TABLE = "0123456789abcdef" * 2, "0123456789abcdef" * 4


def an_evaluation(**changes):
    split = {"test_size": 0.3, "holdout": 0.0, "seed": 1, "stratify": False, "class_weight": "balanced"}
    message = {
        "job": JOB,
        "batch": 12,
        "start": 0,
        "stop": 256,
        "attempt": 0,
        "columns": TABLE,
        "split": split | {"min_samples_leaf": 1},
        "max_depth": 5,
        "subset_size": 3,
        "subsets": "",
    }
    return message | changes


def test_a_message_comes_back_from_json_as_it_was():
    message = Evaluate.read(an_evaluation())

    again = Evaluate.read(message.model_dump_json())

    assert again == message
    assert isinstance(again.split, TableSplit)


def test_a_task_reads_well_to_a_person():
    assert Evaluate.read(an_evaluation()).argsrepr == "job 0123 · batch 12 · 256 subsets of 3"


def test_another_version_is_refused_by_its_number():
    with pytest.raises(FormatError, match="contract version 2 came; this program speaks version 1"):
        Evaluate.read(an_evaluation(version=2, something_new=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"job": "../../etc/passwd"},
        {"columns": "x"},
        {"max_depth": 99},
        {"batch": -1},
        {"subset_size": 0},
        {"unknown": 1},
        {"split": None},
    ],
)
def test_a_malformed_message_is_refused(changes):
    with pytest.raises(FormatError, match="does not read"):
        Evaluate.read(an_evaluation(**changes))


@given(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.lists(st.integers())))
def test_whatever_comes_is_refused_without_a_crash(data):
    with pytest.raises(FormatError):
        Answer.read(data)


@given(st.integers(1, 6), st.integers(0, 50), st.sampled_from([10, 65_535, 65_536, 2_000_000]))
def test_subsets_come_back_as_they_were(size, count, features):
    subsets = np.random.default_rng(0).integers(0, features + 1, (count, size)).astype(np.int32)

    assert np.array_equal(unpack_subsets(pack_subsets(subsets), count, size), subsets)


@pytest.mark.parametrize("text", ["", "!!!", "AAAA", pack_subsets(np.zeros((2, 3), np.int32))])
def test_subsets_of_another_shape_are_refused(text):
    with pytest.raises(FormatError):
        unpack_subsets(text, 3, 3)


def test_a_job_document_comes_back_from_json_as_it_was():
    spec = JobSpec.parse({"id": JOB, "dataset": {"fingerprint": TABLE}, "settings": {"trees": "50%", "seed": 7}})

    assert JobSpec.parse(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_refused_document_names_the_field_and_the_value():
    document = {"id": JOB, "dataset": {"fingerprint": TABLE}, "settings": {"alpha": 3}}

    with pytest.raises(SettingsError, match=r"settings\.alpha: .*less than 1 \(got 3\)"):
        JobSpec.parse(document)


def test_ended_states_are_those_in_which_nothing_more_happens():
    assert {state.value for state in JobState if state.ended} == {"done", "failed", "cancelled"}
