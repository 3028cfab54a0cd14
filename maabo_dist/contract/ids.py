"""How people name a job: by its id, or by its first digits."""

import re
from collections.abc import Sequence

from maabo_dist.errors import InputError

DIGITS = 32
SHORT_DIGITS = 8
MIN_DIGITS = 4

_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},{DIGITS}}}")


class NoSuchJobError(InputError):
    """No job, or more than one, is meant by what was given."""


def short_id(job: str) -> str:
    """The part of an id that people read, and may give back."""
    return job[:SHORT_DIGITS]


def parse_prefix(text: str) -> str:
    """What was given for a job, if it can be the beginning of an id."""
    digits = text.strip().lower()
    if not _PREFIX.fullmatch(digits):
        raise NoSuchJobError(
            f"{text!r} is no job's id. Give the id that `maabo submit` printed, "
            f"or at least the first {MIN_DIGITS} of its {DIGITS} hexadecimal digits."
        )
    return digits


def match_one(prefix: str, found: Sequence[str]) -> str:
    """The one id that begins so."""
    if not found:
        raise NoSuchJobError(f"There is no job {prefix}. `maabo jobs` lists those there are.")
    if len(found) > 1:
        shown = ", ".join([*found[:3], *(["…"] if len(found) > 3 else [])])
        raise NoSuchJobError(f"{prefix} may be any of {len(found)} jobs: {shown}. Give more digits.")
    return found[0]
