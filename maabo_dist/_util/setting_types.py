"""Types of settings that accept several forms: a number or a share, a number or `all`, a size or a range of sizes."""

import re
from collections.abc import Sequence
from operator import index
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import BeforeValidator, Field

MAX_SUBSET_SIZE = 64
MAX_SHUFFLES = 10_000


def _parse_budget(value: object) -> object:
    """Check `"50%"`, which stays text; convert `"500"` to 500."""
    text = value.strip() if isinstance(value, str) else value
    if text is None or _is_count(text):
        return text if text is None else int(text)
    try:
        share = float(text.removesuffix("%")) if isinstance(text, str) and text.endswith("%") else float("")
    except ValueError:
        raise ValueError("is neither a number of trees (1 or more) nor a share such as 50%") from None
    if not 0 < share <= 100:
        raise ValueError("is not a share of the space; use more than 0% and at most 100%")
    return text


def _is_count(value: object) -> TypeGuard[int | str]:
    """True for a whole number of at least 1, or the text of one."""
    if isinstance(value, str):
        return value.strip().isdecimal() and int(value) >= 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _parse_count(value: object) -> object:
    if value is None or value == "all":
        return value
    if not _is_count(value):
        raise ValueError("is neither a number (1 or more) nor all")
    return int(value)


def _parse_threshold(value: object) -> object:
    if not isinstance(value, str) or value in {"mean", "median"}:
        return value
    try:
        return float(value)
    except ValueError:
        raise ValueError("is neither mean, median nor a number") from None


def _parse_sizes(value: object) -> object:
    """Check `"2-4"`, which stays text; convert `"3"` and `"3-3"` to 3."""
    ends = re.fullmatch(r"\s*([0-9]+)\s*[-–]\s*([0-9]+)\s*", value) if isinstance(value, str) else None
    try:
        smallest, largest = (int(end) for end in ends.groups()) if ends else (_parse_whole(value),) * 2
    except (TypeError, ValueError):
        raise ValueError("is neither a number of features nor a range such as 2-4") from None
    if smallest < 1:
        raise ValueError("must be greater than or equal to 1")
    if largest > MAX_SUBSET_SIZE:
        raise ValueError(f"must be less than or equal to {MAX_SUBSET_SIZE}")
    if smallest > largest:
        raise ValueError(f"is not a range; the smaller size comes first, as in {largest}-{smallest}")
    return smallest if smallest == largest else f"{smallest}-{largest}"


def _parse_whole(value: Any) -> int:
    """Convert a whole number, or the text of one."""
    whole = isinstance(value, str) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else index(value)


def _parse_shuffles(value: object) -> object:
    if value == "auto" or value == "off":  # noqa: PLR1714 - a value of a document may have no hash
        return value
    if not _is_count(value) or int(value) > MAX_SHUFFLES:
        raise ValueError(f"is neither a number of searches (1 to {MAX_SHUFFLES:,}) nor auto or off")
    return int(value)


def _parse_groups(value: object) -> object:
    if isinstance(value, (list, tuple)) and any(isinstance(group, str) for group in value):
        raise ValueError("is a list of names; each group of columns is a list of its own, as in [['a', 'b']]")
    return value


def check_column_limits(always: Sequence[str], groups: Sequence[Sequence[str]], size: int) -> None:
    """Check that columns that are required and columns that exclude each other leave a choice."""
    required = dict.fromkeys(always)
    if len(required) > size:
        raise ValueError(
            f"--always names {len(required)} columns, but the largest subsets have {size} features. Give --subset-size "
            f"{len(required)} or more, or name fewer columns."
        )
    seen: set[str] = set()
    for group in groups:
        names = dict.fromkeys(group)
        if len(names) < 2:
            raise ValueError(f"--one-of {','.join(names)!r} needs at least two columns, separated by commas.")
        if both := seen & names.keys():
            raise ValueError(f"--one-of has {min(both)!r} in two groups. Name each column in one group.")
        if len(demanded := [name for name in required if name in names]) > 1:
            raise ValueError(
                f"--one-of {','.join(names)!r} allows one of these columns, but --always names "
                f"{' and '.join(demanded)}. Leave one of them out."
            )
        seen |= names.keys()


SubsetSize = Annotated[int | str, BeforeValidator(_parse_sizes)]
Budget = Annotated[Annotated[int, Field(ge=1)] | str | None, BeforeValidator(_parse_budget)]
CountOrAll = Annotated[Annotated[int, Field(ge=1)] | Literal["all"] | None, BeforeValidator(_parse_count)]
Certify = Annotated[Annotated[int, Field(ge=1)] | Literal["auto", "off"], BeforeValidator(_parse_shuffles)]
ColumnGroups = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_parse_groups)]
Cut = Annotated[Literal["mean", "median"] | float | None, BeforeValidator(_parse_threshold)]
