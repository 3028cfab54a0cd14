"""Messages between processes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.contract import messages
from maabo_dist.contract.job import JobRecord, JobSpec, JobState
from maabo_dist.contract.messages import (
    EvaluateMessage,
    EvaluationAnswer,
    Request,
    RulesAnswer,
    RulesMessage,
    ScreenAnswer,
    ScreenMessage,
    TableSplit,
    pack_subsets,
    unpack_subsets,
)
from maabo_dist.errors import FormatError, SettingsError
from maabo_dist.settings import MiningSettings

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


def test_a_message_survives_json():
    message = EvaluateMessage.read(an_evaluation())

    again = EvaluateMessage.read(message.model_dump_json())

    assert again == message
    assert isinstance(again.split, TableSplit)


def test_a_task_has_a_readable_summary():
    assert EvaluateMessage.read(an_evaluation()).argsrepr == "job 0123 · batch 12 · 256 subsets of 3"
    assert EvaluateMessage.read(an_evaluation(smallest_size=3)).argsrepr == "job 0123 · batch 12 · 256 subsets of 3"
    assert EvaluateMessage.read(an_evaluation(smallest_size=2)).argsrepr == "job 0123 · batch 12 · 256 subsets of 2–3"


def test_a_task_shows_the_correlation_of_its_job_at_the_end():
    spec = JobSpec.parse({"id": JOB, "dataset": {"fingerprint": TABLE}, "correlation": "order 7"})
    mine = RulesMessage(spec=spec, attempt=1, final=True, segments=(), seconds=0.0, stopped="budget")

    assert EvaluateMessage.read(an_evaluation(correlation="order 7")).argsrepr.endswith(" subsets of 3 · order 7")
    assert mine.argsrepr == "job 0123 · rules · order 7"


def test_a_task_omits_correlation_and_trace_if_there_are_none():
    assert not {"correlation", "trace"} & set(EvaluateMessage.read(an_evaluation()).model_dump(mode="json"))


@pytest.mark.parametrize("correlation", ["", "x" * 201, "a\nb", "a\x1b[2Jb", "a\u2028b", "a\x00b"])
def test_an_unprintable_or_too_long_correlation_is_rejected(correlation):
    with pytest.raises(SettingsError, match="correlation: "):
        JobSpec.parse({"id": JOB, "dataset": {"fingerprint": TABLE}, "correlation": correlation})


@pytest.mark.parametrize("trace", ["", "00-x", f"00-{'A' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-01\n"])
def test_an_invalid_trace_is_rejected(trace):
    with pytest.raises(SettingsError, match="trace: "):
        JobSpec.parse({"id": JOB, "dataset": {"fingerprint": TABLE}, "trace": trace})


def test_fields_for_the_summary_are_not_sent():
    assert "smallest_size" not in EvaluateMessage.read(an_evaluation(smallest_size=2)).model_dump(mode="json")


def test_another_version_is_rejected_by_its_number():
    with pytest.raises(FormatError, match="contract version 3; this program supports version 2"):
        EvaluateMessage.read(an_evaluation(version=3, something_new=True))


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
def test_a_malformed_message_is_rejected(changes):
    with pytest.raises(FormatError, match="is invalid"):
        EvaluateMessage.read(an_evaluation(**changes))


@given(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.lists(st.integers())))
def test_arbitrary_data_is_rejected_without_a_crash(data):
    with pytest.raises(FormatError):
        EvaluationAnswer.read(data)


@given(st.integers(1, 6), st.integers(0, 50), st.sampled_from([10, 65_535, 65_536, 2_000_000]))
def test_packed_subsets_are_unpacked_unchanged(size, count, features):
    subsets = np.random.default_rng(0).integers(0, features + 1, (count, size)).astype(np.int32)

    assert np.array_equal(unpack_subsets(pack_subsets(subsets), count, size), subsets)


@pytest.mark.parametrize("text", ["", "!!!", "AAAA", pack_subsets(np.zeros((2, 3), np.int32))])
def test_subsets_of_another_shape_are_rejected(text):
    with pytest.raises(FormatError):
        unpack_subsets(text, 3, 3)


def test_a_job_document_survives_json():
    spec = JobSpec.parse({"id": JOB, "dataset": {"fingerprint": TABLE}, "settings": {"trees": "50%", "seed": 7}})

    assert JobSpec.parse(json.loads(json.dumps(spec.to_json()))) == spec


def test_the_error_of_a_document_names_the_field_and_the_value():
    document = {"id": JOB, "dataset": {"fingerprint": TABLE}, "settings": {"alpha": 3}}

    with pytest.raises(SettingsError, match=r"settings\.alpha: .*less than 1 \(got 3\)"):
        JobSpec.parse(document)


def test_final_states_are_done_failed_and_cancelled():
    assert {state.value for state in JobState if state.ended} == {"done", "failed", "cancelled"}


def a_screen(**changes):
    message = {name: an_evaluation()[name] for name in ("job", "attempt", "columns", "split")}
    return message | {"number": 3, "blocks": 40, "start": 512, "stop": 1024, "most": 200} | changes


def test_a_block_of_a_screen_survives_json_and_has_a_readable_summary():
    message = ScreenMessage.read(a_screen())

    assert ScreenMessage.read(message.model_dump_json()) == message
    assert message.argsrepr == "job 0123 · screen 3 of 40 · features 512–1023"
    assert ScreenMessage.read(a_screen(stop=513)).argsrepr == "job 0123 · screen 3 of 40 · feature 512"


@pytest.mark.parametrize(
    "changes", [{"job": "x"}, {"start": -1}, {"most": 0}, {"most": 10**9}, {"columns": "../x"}, {"split": {}}]
)
def test_an_invalid_block_of_a_screen_is_rejected(changes):
    with pytest.raises(FormatError, match="ScreenMessage is invalid"):
        ScreenMessage.read(a_screen(**changes))


def a_request_for_rules(**changes):
    message = {
        "spec": {"id": JOB, "dataset": {"fingerprint": TABLE}},
        "attempt": 1,
        "final": True,
        "segments": [TABLE],
        "seconds": 2.5,
        "stopped": "budget",
    }
    return message | changes


def test_a_request_for_rules_survives_json():
    message = RulesMessage.read(a_request_for_rules(failures=[{"subset": [1, 2], "reason": "It hung."}]))

    assert RulesMessage.read(message.model_dump_json()) == message
    assert message.argsrepr == "job 0123 · rules"


@pytest.mark.parametrize(
    "changes",
    [
        {"segments": ["../x"]},
        {"spec": {"id": JOB}},
        {"spec": {"id": JOB, "dataset": {"fingerprint": TABLE}, "settings": {"alpha": 7}}},
        {"seconds": -1},
        {"failures": [{"subset": [-1], "reason": ""}]},
    ],
)
def test_an_invalid_request_for_rules_is_rejected(changes):
    with pytest.raises(FormatError, match="RulesMessage is invalid"):
        RulesMessage.read(a_request_for_rules(**changes))


@pytest.mark.parametrize(
    "kind", [EvaluationAnswer, RulesAnswer, RulesMessage, EvaluateMessage, ScreenMessage, ScreenAnswer, Request]
)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200), st.dictionaries(st.text(max_size=9), st.integers())))
def test_arbitrary_data_instead_of_a_message_is_rejected_with_a_reason(kind, data):
    with pytest.raises(FormatError):
        kind.read(data)


def test_a_request_contains_an_unchecked_document():
    request = Request.read({"kind": "submit", "job": JOB, "document": {"anything": 1}})

    assert request.document == {"anything": 1}


@pytest.mark.parametrize(
    "request_", [{"kind": "destroy", "job": JOB}, {"kind": "pause", "job": "7f3a"}, {"kind": "look"}]
)
def test_an_unknown_request_is_rejected(request_):
    with pytest.raises(FormatError, match="Request is invalid"):
        Request.read(request_)


def test_a_reader_ignores_fields_of_newer_schedulers():
    record = JobRecord.model_validate({"id": JOB, "state": "running", "workers": 12})

    assert (record.state, record.trees, record.rules) == (JobState.RUNNING, 0, None)


def test_a_job_may_have_a_callback():
    document = {"id": JOB, "dataset": {"fingerprint": TABLE}, "callback": {"task": "a.b", "queue": "q"}}

    assert JobSpec.parse(document).callback.queue == "q"
    with pytest.raises(SettingsError, match=r"callback\.queue"):
        JobSpec.parse(document | {"callback": {"task": "a.b"}})


@pytest.fixture
def next_release(monkeypatch):
    """A release that reads one more version, and still writes the current one."""
    monkeypatch.setattr(messages, "VERSION", 3)


@pytest.mark.parametrize("version", [2, 3])
def test_a_release_with_a_new_version_reads_it_and_the_previous_one(next_release, version):
    assert EvaluateMessage.read(an_evaluation(version=version)).version == version


def test_a_release_writes_the_version_that_the_previous_one_reads(next_release):
    assert EvaluateMessage.read(an_evaluation()).model_dump()["version"] == messages.WRITTEN_VERSION == 2


@pytest.mark.parametrize(("version", "remedy"), [(1, "Upgrade its sender."), (4, "Upgrade this program.")])
def test_other_versions_are_rejected_with_the_supported_versions_and_the_remedy(next_release, version, remedy):
    with pytest.raises(FormatError, match=f"version {version}; this program supports versions 2 and 3. {remedy}"):
        EvaluateMessage.read(an_evaluation(version=version))


def test_invalid_json_of_another_version_is_rejected_by_its_number():
    with pytest.raises(FormatError, match="contract version 4;"):
        Request.read('{"version": 4, "wish": "sing"}')


def test_the_split_of_a_job_that_the_previous_release_knows_has_the_fields_that_it_reads():
    split = TableSplit.of(MiningSettings(preset="paper"), holdout=0.0).model_dump(mode="json")

    assert set(split) == {
        *("version", "test_size", "holdout", "seed", "stratify", "class_weight"),
        *("min_samples_leaf", "probes", "probe_seed"),
    }
    assert split["holdout"] == 0.0
    assert "recoded" in TableSplit.of(MiningSettings()).model_dump(mode="json")  # which it must refuse
