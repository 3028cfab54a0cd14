"""Problem documents; secrets must not appear in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from maabo_dist.contract.job import Callback, JobSpec, Webhook
from maabo_dist.contract.problem import KINDS, DocumentError, problem_of, redact_secrets
from maabo_dist.errors import DatasetError, InputError, MaaboError, SearchError, SettingsError

JOB, TABLE = "0123456789abcdef" * 2, "0123456789abcdef" * 4
SECRET = "hush-hush-4711"
HOOK = "https://other.example/hook"


def a_document(**changes):
    return {"id": JOB, "dataset": {"fingerprint": TABLE}} | changes


def refused(**changes):
    with pytest.raises(DocumentError) as caught:
        JobSpec.parse(a_document(**changes))
    return problem_of(caught.value, "c1")


def test_a_problem_names_field_value_remedy_and_correlation():
    problem = refused(settings={"alpha": 3}, colour="red").to_json()

    assert problem == {
        "type": "https://maabo.dev/problems/invalid-document",
        "title": "The document is not valid",
        "status": 422,
        "detail": "settings.alpha: must be less than 1 (got 3).\ncolour: Extra inputs are not permitted (got 'red').",
        "field": "settings.alpha",
        "remedy": "Give a valid value.",
        "instance": "c1",
    }


def test_a_validation_error_has_the_same_problem_as_a_document_error():
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate(a_document(colour="red"))

    assert problem_of(caught.value, "c1") == refused(colour="red")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SettingsError("x"), "invalid-settings"),
        (DatasetError("x"), "invalid-dataset"),
        (InputError("x"), "invalid-input"),
        (SearchError("x"), "internal"),
    ],
)
def test_every_error_has_a_kind(error, kind):
    problem = problem_of(error)

    assert (problem.type, problem.status, problem.title) == (f"https://maabo.dev/problems/{kind}", *KINDS[kind])
    assert problem.detail == "x"


def test_every_error_class_has_a_known_kind():
    def below(kind):
        return [kind, *(subclass for child in kind.__subclasses__() for subclass in below(child))]

    assert {error.kind for error in below(MaaboError)} <= set(KINDS)


def test_an_unexpected_error_is_not_described():
    assert "secret" not in problem_of(ZeroDivisionError("secret")).detail


# Callbacks.


@pytest.mark.parametrize(
    ("callback", "kind"), [({"task": "a.b", "queue": "c"}, Callback), ({"url": HOOK, "secret": SECRET}, Webhook)]
)
def test_a_callback_is_a_task_or_a_webhook(callback, kind):
    spec = JobSpec.parse(a_document(callback=callback, correlation="c1", dataset_id="d-1"))

    assert isinstance(spec.callback, kind)
    assert JobSpec.parse(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.to_json()["callback"] == callback


def test_a_document_without_new_fields_can_be_read_by_older_programs():
    assert not {"correlation", "dataset_id"} & set(JobSpec.parse(a_document()).to_json())


def test_a_secret_is_never_shown():
    spec = JobSpec.parse(a_document(callback={"url": f"{HOOK}/path", "secret": SECRET}))

    assert SECRET not in repr(spec) + str(spec) + spec.model_dump_json() + str(spec.model_dump())
    assert spec.callback.origin == "https://other.example"


@pytest.mark.parametrize(
    ("callback", "field"),
    [
        ({"url": f"ftp://{SECRET}.example/"}, "callback.url"),
        ({"url": f"https://user:{SECRET}@other.example/"}, "callback.url"),
        ({"url": "https://"}, "callback.url"),
        ({"url": "https://other.example:99999/"}, "callback.url"),
        ({"url": "https://other.example:0/"}, "callback.url"),
        ({"url": "https://other.example/a b"}, "callback.url"),
        ({"url": "https://other.example/\r\nX: y"}, "callback.url"),
        ({"url": "https://größe.example/"}, "callback.url"),
        ({"url": "https://[::1"}, "callback.url"),
        ({"url": HOOK, "secret": "short"}, "callback.secret"),
        ({"url": HOOK, "secrt": SECRET}, "callback.secrt"),
        ({"task": "a", "queue": "b", "secret": SECRET}, "callback.secret"),
        ({"queue": "b", "secrt": SECRET}, "callback.task"),
        ({"task": "a", "queue": "maabo.evaluate"}, "callback.queue"),
        (SECRET, "callback"),
    ],
)
def test_an_invalid_callback_is_rejected_without_repeating_it(callback, field):
    problem = refused(callback=callback)

    assert problem.field == field
    assert SECRET not in str(problem)


def test_a_misplaced_secret_is_not_repeated():
    assert SECRET not in str(refused(callbak={"url": HOOK, "secret": SECRET}))
    assert redact_secrets({"a": [{"secret": SECRET, "b": 1}], "secret": None}) == {
        "a": [{"secret": "…", "b": 1}],
        "secret": None,
    }


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)
    )
)
def test_an_arbitrary_document_is_rejected_with_a_problem(document):
    with pytest.raises(DocumentError) as caught:
        JobSpec.parse(document)

    assert problem_of(caught.value).status == 422


# Equal work.


def test_work_is_the_same_for_the_same_table_settings_and_seed():
    first = JobSpec.parse(a_document(settings={"seed": 1}, priority="high", correlation="a"))
    same = JobSpec.parse(a_document(id="f" * 32, settings={"seed": 1}, tenant="other"))
    others = [
        JobSpec.parse(a_document(settings={"seed": 2})),
        JobSpec.parse(a_document(dataset={"fingerprint": "a" * 64}, settings={"seed": 1})),
    ]

    assert first.work == same.work
    assert first.work not in {other.work for other in others}
