"""Pages of lists, and the cursors that lead from one page to the next."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from maabo_dist.errors import SettingsError

MAX_PAGE = 200
Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items per page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next: str | None = None  # cursor of the next page; null on the last page


def cut_page(
    items: Sequence[Item], limit: int, position: Callable[[Item], tuple[float | str, ...]]
) -> tuple[list[Item], str | None]:
    """Return the first items, up to the limit, and a cursor if there are more.

    A cursor contains the position of the last item: its sort key, which stays valid when items are added.
    """
    page = list(items[:limit])
    if len(items) <= limit:
        return page, None
    return page, urlsafe_b64encode(json.dumps(position(page[-1])).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *types: type) -> tuple[Any, ...] | None:
    """Return the position of a cursor; its values must have these types."""
    if cursor is None:
        return None
    try:
        position = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        position = None
    if not isinstance(position, list) or [type(part) for part in position] != list(types):
        raise SettingsError(
            f"cursor: {cursor[:50]!r} is not a valid cursor.", field="cursor", remedy="Give `next` of a page."
        )
    return tuple(position)
