"""`SubsetLimits`: columns that every subset has (--always), and columns of which a subset has one at most (--one-of).

Both are about columns of the table, and a column may have several features: its levels, the parts of its dates, its
missing values. A subset *has* a column if it has at least one of its features. So it must have at least one feature of
each column of --always, and of the columns of a group of --one-of, features of one column at most.

Such subsets are a product of independent choices, one for each `Unit`: a column that must be there, a group, and all
other features. Their number follows from the numbers of the units, and they can be drawn unit by unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb

from maabo_dist._util.text import suggestion
from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings

# The features of a column, ascending.
ColumnFeatures = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """An independent part of a subset: some features of one of these columns, or none unless one is required."""

    columns: tuple[ColumnFeatures, ...]
    required: bool

    def counts(self, most: int) -> list[int]:
        """Return the number of ways to take 0 … `most` features."""
        return [int(not self.required), *(sum(comb(len(own), n) for own in self.columns) for n in range(1, most + 1))]


@dataclass(frozen=True, slots=True)
class SubsetLimits:
    """Limits of subsets, in terms of features; without any, all subsets are meant."""

    # Columns that every subset has.
    required: tuple[ColumnFeatures, ...] = ()
    # Groups of columns of which a subset has one at most; a column is in one group at most.
    exclusive: tuple[tuple[ColumnFeatures, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.exclusive)

    @classmethod
    def resolve(cls, settings: MiningSettings, columns: Sequence[str]) -> "SubsetLimits":
        """Find the features of the columns that the settings name; `columns` has the column of each feature."""
        if not settings.names_columns:
            return NO_LIMITS
        return cls(
            tuple(_features_of("always", name, columns) for name in dict.fromkeys(settings.always)),
            tuple(
                tuple(_features_of("one_of", name, columns) for name in dict.fromkeys(group))
                for group in settings.one_of
            ),
        )

    def units(self, features: int) -> tuple[Unit, ...]:
        """Return the units of a table with this many features."""
        required = set(self.required)
        in_groups = {column for group in self.exclusive for column in group}
        named = {feature for column in required | in_groups for feature in column}
        free = tuple(feature for feature in range(features) if feature not in named)
        groups = [tuple(column for column in group if column in required) or group for group in self.exclusive]
        return (
            *(Unit((column,), required=True) for column in self.required if column not in in_groups),
            *(Unit(group, required=group[0] in required) for group in groups),
            Unit((free,), required=False),
        )

    def count(self, features: int, size: int) -> int:
        """Return the number of subsets of `size` of the features, exact at any size."""
        if not self:
            return comb(features, size)
        total = [1, *[0] * size]
        for unit in self.units(features):
            own = unit.counts(size)
            total = [sum(total[before] * own[now - before] for before in range(now + 1)) for now in range(size + 1)]
        return total[size]

    def explain(self, settings: MiningSettings) -> Iterator[str]:
        """Yield one line for each limit."""
        if self.required:
            yield f"always: every subset has {_listing(settings.always)} (--always)"
        for group in settings.one_of:
            yield f"one of: no subset has more than one of {_listing(group)} (--one-of)"


NO_LIMITS = SubsetLimits()


def _listing(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in dict.fromkeys(names)]
    return " and ".join([", ".join(quoted[:-1])] * (len(quoted) > 1) + quoted[-1:])


def _features_of(setting: str, name: str, columns: Sequence[str]) -> ColumnFeatures:
    features = tuple(index for index, column in enumerate(columns) if column == name)
    if features:
        return features
    raise SettingsError(
        f"--{setting.replace('_', '-')} {name!r}: the table has no such column, or it was left out. "
        f"{suggestion(name, list(dict.fromkeys(columns)))}",
        field=f"settings.{setting}",
    )
