"""Format counts and names for messages: `1 row`, `'a', 'b', … (7 more)`, `Did you mean 'age'?`."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from maabo_dist.errors import SettingsError

# Names listed before a message says how many more there are.
SHOWN = 5


def format_count(number: int, noun: str) -> str:
    """`1 row`, `1,309 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_names(names: Iterable[str]) -> str:
    """The names in quotes, at most `SHOWN` of them."""
    return format_list([repr(name) for name in names])


def format_list(texts: Sequence[str]) -> str:
    """The texts as they are, separated by commas, at most `SHOWN` of them."""
    rest = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f", … ({rest:,} more)" if rest > 0 else "")


def suggestion(name: str, names: Sequence[str]) -> str:
    """Return a hint for an unknown name: similar names, or some of the valid ones."""
    close = get_close_matches(name, names, n=3)
    return f"Did you mean {' or '.join(map(repr, close))}?" if close else f"The columns are {format_names(names)}."


def printable(text: str) -> str:
    r"""Escape line breaks, terminal control codes and other characters that do not print: `\n`, `\x1b`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


NEVER = "never"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FORM = re.compile(r"(\d{1,9})([smhdw])")


def reworded(message: str) -> str:
    """Return a message of pydantic as all messages read: `must be less than 1`."""
    return message.removeprefix("Value error, ").replace("Input should be", "must be", 1)


def parse_duration(text: str) -> float | None:
    """Seconds until something ends: `30d`, `12h`, `90m`; None for `never`."""
    duration = text.strip().lower()
    if duration == NEVER:
        return None
    match = _FORM.fullmatch(duration)
    if match is None or int(match[1]) == 0:
        raise SettingsError(
            f"{text!r} is not a duration. Give a number and s, m, h, d or w, as in 30d, 12h or 90m; or {NEVER}."
        )
    return float(match[1]) * _SECONDS[match[2]]
