"""One request until it is answered: what may be repeated is, with growing pauses."""

from dataclasses import dataclass
from time import time

from maabo_dist._util.backoff import backoff_delay, jittered
from maabo_dist.client.answers import is_refusal_of_quota, missing_answer
from maabo_dist.client.steps import Answer, Failure, Flow, Pause, Request, Send

PASSING = frozenset({502, 503, 504})
"""What gateways and servers say when they expect to be back."""
TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often and how patiently. A pause is drawn between half and all of its length, so that clients spread."""

    attempts: int = 5
    first_pause: float = 0.25
    longest_pause: float = 8.0
    longest_wish: float = 60.0
    """A server that asks for more patience (`Retry-After`) is not waited for."""

    def pause(self, attempt: int) -> float:
        """Seconds after this attempt, counted from 1."""
        return jittered(backoff_delay(self.first_pause, attempt - 1, self.longest_pause))


def answered(request: Request, retrying: Retrying) -> Flow[Answer]:
    """The answer, be it a problem; an error if none comes."""
    for attempt in range(1, retrying.attempts + 1):
        outcome: Answer | Failure = yield Send(request)
        if isinstance(outcome, Answer) and request.method == "DELETE" and attempt > 1 and outcome.status == 404:
            return Answer(204, {})  # the attempt before it was heard, and its answer lost
        pause = _pause_after(outcome, request, attempt, retrying)
        if pause is None:
            break
        yield Pause(pause)
    if isinstance(outcome, Failure):
        raise missing_answer(outcome)
    return outcome


def _pause_after(outcome: Answer | Failure, request: Request, attempt: int, retrying: Retrying) -> float | None:
    """None where another attempt would be of no use, or might do something twice."""
    if attempt == retrying.attempts:
        return None
    if isinstance(outcome, Failure):
        return retrying.pause(attempt) if request.repeatable or not outcome.sent else None
    wish = _wish(outcome)
    again = outcome.status in PASSING or (outcome.status == TOO_MANY and wish is not None)
    # Seconds do not free a quota; whoever knows what may go can ask again.
    if not (again and request.repeatable) or is_refusal_of_quota(outcome):
        return None
    if wish is None:
        return retrying.pause(attempt)
    return None if wish > retrying.longest_wish else max(wish, retrying.pause(attempt))


def _wish(answer: Answer) -> float | None:
    """Seconds that the server asks to be left alone for; it may give them or a date."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, TypeError):
        return None
