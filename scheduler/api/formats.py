"""The formats that rules come in, and which of them a client wants."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.api.problems import NotAcceptableError


class RulesFormat(StrEnum):
    """As `format` names them."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    SQL = "sql"

    @property
    def media_type(self) -> str:
        """As `Accept` names them."""
        return MEDIA_TYPES[self]


MEDIA_TYPES = {
    RulesFormat.JSON: "application/json",
    RulesFormat.CSV: "text/csv",
    RulesFormat.MARKDOWN: "text/markdown",
    RulesFormat.SQL: "application/sql",
}
_QUALITY = re.compile(r"[01](\.\d{0,3})?")


@dataclass(frozen=True, slots=True)
class _Range:
    """One of the things that a client takes: `text/csv`, `text/*`, `*/*`."""

    kind: str
    form: str
    quality: float

    def fits(self, media_type: str) -> int:
        """How exactly it names the type; 0 if it does not."""
        kind, form = media_type.split("/")
        if (self.kind, self.form) == (kind, form):
            return 3
        return {(kind, "*"): 2, ("*", "*"): 1}.get((self.kind, self.form), 0)


def wanted_format(accept: str | None, asked: RulesFormat | None = None) -> RulesFormat:
    """What was asked for by name, or else what `Accept` likes best; of equals the first of ours."""
    if asked is not None:
        return asked
    ranges = [found for part in (accept or "*/*").split(",") if (found := _read(part)) is not None]
    qualities = {each: _quality(each.media_type, ranges) for each in RulesFormat}
    best = max(RulesFormat, key=lambda each: qualities[each])
    if qualities[best] <= 0:
        raise NotAcceptableError(
            f"Rules come as {', '.join(MEDIA_TYPES.values())}; Accept is {(accept or '')[:200]!r}.",
            field="Accept",
            remedy="Accept one of these, or give ?format=json, csv, markdown or sql.",
        )
    return best


def _quality(media_type: str, ranges: Sequence[_Range]) -> float:
    """Of the range that names the type most exactly."""
    fitting = [(found.fits(media_type), found.quality) for found in ranges if found.fits(media_type)]
    return max(fitting, default=(0, 0.0))[1]


def _read(text: str) -> _Range | None:
    """A part of the header; None where it is not one."""
    name, *parameters = (part.strip() for part in text.lower().split(";"))
    kind, sign, form = name.partition("/")
    if not (kind and sign and form):
        return None
    given = dict(parameter.partition("=")[::2] for parameter in parameters)
    quality = given.get("q", "1").strip()
    return _Range(kind, form, min(1.0, float(quality)) if _QUALITY.fullmatch(quality) else 0.0)
