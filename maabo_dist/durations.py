"""How long something lasts, as people write it."""

import re

from maabo_dist.errors import SettingsError

NEVER = "never"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FORM = re.compile(r"(\d{1,9})([smhdw])")


def seconds_until(text: str) -> float | None:
    """Seconds until something ends: `30d`, `12h`, `90m`; None for `never`."""
    said = text.strip().lower()
    if said == NEVER:
        return None
    found = _FORM.fullmatch(said)
    if found is None or int(found[1]) == 0:
        raise SettingsError(
            f"{text!r} is no length of time. Give a number and s, m, h, d or w, as in 30d, 12h or 90m; or {NEVER}."
        )
    return float(found[1]) * _SECONDS[found[2]]
