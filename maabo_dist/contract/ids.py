"""Job ids: 32 hexadecimal digits, of which users may give the first ones."""

import re
from collections.abc import Sequence

from maabo_dist.errors import InputError

DIGITS = 32
SHORT_DIGITS = 8
MIN_DIGITS = 4

_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},{DIGITS}}}")


class NoSuchJobError(InputError):
    """No job, or more than one, has this id or prefix."""


def short_id(job: str) -> str:
    """Return the short form of an id, as it is shown to users."""
    return job[:SHORT_DIGITS]


def parse_prefix(text: str) -> str:
    """Check that a text can be the beginning of a job id, and return it in lower case."""
    digits = text.strip().lower()
    if not _PREFIX.fullmatch(digits):
        raise NoSuchJobError(
            f"{text!r} is not a job id. Give the id that `maabo submit` printed, "
            f"or at least the first {MIN_DIGITS} of its {DIGITS} hexadecimal digits."
        )
    return digits


def match_one(prefix: str, ids: Sequence[str]) -> str:
    """Return the only id that begins with the prefix, given all that do."""
    if not ids:
        raise NoSuchJobError(f"There is no job {prefix}. `maabo jobs` lists all jobs.")
    if len(ids) > 1:
        examples = ", ".join([*ids[:3], *(["…"] if len(ids) > 3 else [])])
        raise NoSuchJobError(f"{prefix} matches {len(ids)} jobs: {examples}. Give more digits.")
    return ids[0]
