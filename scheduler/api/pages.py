"""Pages of lists: items, and a cursor for those that follow. A cursor is the place of the last item, not a count."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from maabo_dist.errors import SettingsError

MOST = 200
Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=MOST, description="Items on a page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]


class Page(BaseModel, Generic[Item]):
    """Some items of a list."""

    items: list[Item]
    next: str | None = None
    """The cursor of the next page; none on the last."""


def cursor_of(*place: float | str) -> str:
    """A cursor after this place."""
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(cursor: str | None, *kinds: type) -> tuple[float | str, ...] | None:
    """What a cursor stands for, if it is one of ours."""
    if cursor is None:
        return None
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise SettingsError(
            f"cursor: {cursor[:50]!r} is none that a page gave.", field="cursor", remedy="Give `next` of a page."
        )
    return tuple(found)
