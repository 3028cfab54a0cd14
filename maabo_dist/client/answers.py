"""Answers read: values where the server did what was asked, errors where not."""

import json
from typing import Any

from pydantic import BaseModel, ValidationError

from maabo_dist.client.errors import ServerUnreachableError, problem_error
from maabo_dist.client.steps import Answer, Failure
from maabo_dist.contract.problem import MEDIA_TYPE, TYPE_PREFIX, Problem
from maabo_dist.errors import MaaboError


class _Told(BaseModel):
    """A problem document as another version may write it."""

    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    field: str | None = None
    remedy: str | None = None
    instance: str | None = None


def checked(answer: Answer) -> Answer:
    """The answer, if it is a success."""
    if 200 <= answer.status < 300:
        return answer
    raise error_of(answer)


def error_of(answer: Answer) -> MaaboError:
    """What an answer that is no success stands for."""
    problem = _problem(answer)
    if problem is not None:
        return problem_error(problem)
    if 300 <= answer.status < 400:
        place = answer.headers.get("location", "elsewhere")[:200]
        return ServerUnreachableError(
            f"The server at {answer.server} sends callers on to {place!r}, where a token is not taken "
            "along. Give that address, if it is the server's."
        )
    if answer.status in {502, 503, 504}:
        said = f"Something in front of the server at {answer.server} answers {answer.status}."
        return problem_error(Problem.of("unavailable", said, remedy="Try again later."))
    return no_maabo_server(answer)


def json_of(answer: Answer) -> Any:
    """The JSON of a success."""
    try:
        return json.loads(checked(answer).content)
    except ValueError:
        raise no_maabo_server(answer) from None


def no_maabo_server(answer: Answer) -> ServerUnreachableError:
    """Somebody answers who speaks another language."""
    kind = answer.headers.get("content-type", "no content type")[:100]
    return ServerUnreachableError(
        f"What answers at {answer.server} ({answer.status}, {kind}) does not speak as a maabo server of this version "
        "does. Check the address."
    )


def missing_answer(failure: Failure) -> ServerUnreachableError:
    """Nobody answers."""
    return ServerUnreachableError(
        f"The server at {failure.server} cannot be reached ({failure.reason}). Check that it runs, and the address."
    )


def is_refusal_of_quota(answer: Answer) -> bool:
    """Whether the server says that its caller has as much as it may have."""
    problem = _problem(answer)
    return problem is not None and problem.type == f"{TYPE_PREFIX}quota-exceeded"


def _problem(answer: Answer) -> Problem | None:
    if not answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        return None
    try:
        told = _Told.model_validate_json(answer.content)
    except ValidationError:
        return None
    detail = told.detail or told.title or f"The server answers {answer.status}."
    return Problem(**told.model_dump() | {"status": answer.status, "detail": detail})
