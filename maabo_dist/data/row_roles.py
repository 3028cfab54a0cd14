"""Columns that describe rows instead of being features: which rows belong together."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# The settings that name such columns.
ROLES = ("group",)


@dataclass(frozen=True, slots=True)
class RowRoles:
    """What these columns say about the rows, and notes for users."""

    groups: npt.NDArray[np.int32] | None = None
    notes: tuple[str, ...] = ()


def role_columns(settings: TableSettings) -> dict[str, str]:
    """Return the columns that are given a role, by its name; raise a DatasetError if one is also something else."""
    roles = {role: name for role in ROLES if (name := getattr(settings, role)) is not None}
    for role, name in roles.items():
        others = [other for other, column in roles.items() if column == name and other != role]
        if name == settings.target or others:
            other = "target" if name == settings.target else others[0]
            raise DatasetError(f"--{role} {name!r} is also the --{other}. Name another column.")
        if name in settings.include:
            raise DatasetError(f"--include names {name!r}, which is the --{role} and no feature. Leave it out.")
    return roles


def read_roles(frame: pd.DataFrame, roles: dict[str, str]) -> RowRoles:
    """Read the columns of these roles."""
    if "group" not in roles:
        return RowRoles()
    groups, note = _read_groups(frame[roles["group"]])
    return RowRoles(groups, (note,))


def _read_groups(cells: pd.Series) -> tuple[npt.NDArray[np.int32], str]:
    """Number the groups by their first rows. Rows without a value are one group, as they may belong together."""
    codes, values = pd.factorize(cells)
    missing = codes < 0
    groups = np.where(missing, len(values), codes).astype(np.int32)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise DatasetError(
            f"--group {cells.name!r}: all rows have the same value, and groups are never divided. Name another column."
        )
    together = f" The {format_count(int(missing.sum()), 'row')} without one are a group." if missing.any() else ""
    rows = f"{sizes.min():,}" if sizes.min() == sizes.max() else f"{sizes.min():,} to {sizes.max():,}"
    return groups, f"Rows with the same {cells.name!r} stay together: {len(sizes):,} groups of {rows} rows.{together}"
