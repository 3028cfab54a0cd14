"""`Columns`: a prepared table, the meaning of its features, and probes: permuted copies of columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile, draws, scratch
from maabo_dist.data.groups import exchange
from maabo_dist.data.weights import count_classes
from maabo_dist.errors import FormatError


class FeatureKind(StrEnum):
    """The kind of a feature."""

    NUMBER = "number"  # the value itself
    PAIR = "pair"  # a column of two levels: 0 is the first level, 1 the second
    LEVEL = "level"  # one level of several: 1 where the column has it
    OTHER = "other"  # 1 where the column has a level, and none of these
    SET = "set"  # the rank of the column's level in an order; made for a search, see `recoding`
    DATE = "date"  # a part of a date: the weekday, for example
    MISSING = "missing"  # 1 where the column is missing
    PROBE = "probe"  # a permuted copy of another feature, never shown


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of the search."""

    # Unique, as displayed: `age`, `embarked = C`, `age is missing`, `joined: weekday`.
    name: str
    # The table column it was made from.
    column: str
    kind: FeatureKind
    # PAIR: the two levels in code order. LEVEL: the one level. OTHER: the levels that have features of their own.
    # SET: all levels in their order, and OTHER_LEVELS where other levels are. DATE: the part, the layout of the
    # column's texts, and the date that days are counted from.
    levels: tuple[str, ...] = ()
    # The encoded value of missing cells; None if none may be missing.
    fill: float | None = None
    # The number of missing cells in the prepared table.
    missing: int = 0
    # True for numbers that are all whole; known for a search only, see `recoding`.
    whole: bool = False
    # True if the column holds texts, which are read as numbers.
    as_text: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a header or a document."""
        values = {name: getattr(self, name) for name in _FIELDS}  # `asdict` takes ten times as long
        if not self.as_text:  # the usual case, and fingerprints of former tables stay valid
            del values["as_text"]
        return {**values, "kind": self.kind.value, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Feature":
        """Inverse of `to_json`."""
        return cls(**{**data, "kind": FeatureKind(data["kind"]), "levels": tuple(data["levels"])})


_FIELDS = tuple(each.name for each in fields(Feature))
# Stands for all levels that have no feature of their own; no level has this text.
OTHER_LEVELS = "\0other"


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A table column with text or missing cells, of which its features alone do not tell everything."""

    column: str
    # The levels that have the codes 1, 2, …; any other value has the code after these. Missing cells have the code 0.
    levels: tuple[str, ...] = ()

    @property
    def other(self) -> int:
        """The code of any other value."""
        return len(self.levels) + 1


KIND = "columns/1"
_ARRAYS = ("codes", "raw_codes", "values", "offsets", "labels")
# Arrays that a table may have.
_ROW_ARRAYS = ("groups", "times", "weights", "parts")


def _no_codes() -> npt.NDArray[np.unsignedinteger[Any]]:
    return np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class Columns:
    """A prepared table of D features and n rows, feature-major.

    `prepare` makes one of a DataFrame.

    Parameters
    ----------
    codes
        (D, n): the rank of each value among its column's distinct values; uint16, or uint32 above 65,536 of them.
    values
        The distinct values of all columns, one column after another, each ascending.
    offsets
        (D + 1): column f's values are `values[offsets[f]:offsets[f + 1]]`.
    labels
        (n): indices into `classes`.
    features
        The meaning of each column.
    classes
        The names of the classes.
    target
        The predicted quantity, as displayed: `survived`, `progression above 152.1`.
    groups
        (n): the number of each row's group; None if rows are independent.
    times
        (n): the time of each row, in seconds since 1970 if it is a date; None if rows have no order.
    weights
        (n): the sampling weight of each row, in the units of `weights.UNIT`; None if each counts as one.
    parts
        (n): the part of the split that each row belongs to, as `split.Part`; None if the rows are yet to be split.
    roles
        The table columns that describe rows, by their roles: `{"group": "patient", "time": "visit"}`. If times are
        dates, `time_kind` is "date".
    raw
        The table columns with text or missing cells.
    raw_codes
        (raw columns, n): the level of each cell, or that it is missing; see `RawColumn`.

    Examples
    --------
    >>> import numpy as np
    >>> features = (Feature("age", "age", FeatureKind.NUMBER),)
    >>> columns = Columns.from_matrix(np.array([[30.0, 20.0, 30.0]]), np.array([0, 1, 0]), features, ("no", "yes"), "y")
    >>> columns.codes.tolist(), columns.values.tolist(), columns.column(0).tolist()
    ([[1, 0, 1]], [20.0, 30.0], [30.0, 20.0, 30.0])
    """

    codes: npt.NDArray[np.unsignedinteger[Any]]
    values: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    features: tuple[Feature, ...]
    classes: tuple[str, ...]
    target: str
    groups: npt.NDArray[np.int32] | None = None
    times: npt.NDArray[np.float64] | None = None
    weights: npt.NDArray[np.int64] | None = None
    parts: npt.NDArray[np.uint8] | None = None
    roles: dict[str, str] = field(default_factory=dict)
    raw: tuple[RawColumn, ...] = ()
    raw_codes: npt.NDArray[np.unsignedinteger[Any]] = field(default_factory=_no_codes)

    @classmethod
    def from_matrix(
        cls,
        matrix: npt.NDArray[np.float64],
        labels: npt.NDArray[np.int32],
        features: tuple[Feature, ...],
        classes: tuple[str, ...],
        target: str,
    ) -> "Columns":
        """Rank-code a feature-major float64 matrix (D, n) without missing or infinite values."""
        return cls.from_ranks([rank_values(column) for column in matrix], labels, features, classes, target)

    @classmethod
    def from_ranks(
        cls,
        ranked: "Sequence[RankedValues]",
        labels: npt.NDArray[np.int32],
        features: tuple[Feature, ...],
        classes: tuple[str, ...],
        target: str,
    ) -> "Columns":
        """Make a table of features that are coded already."""
        sizes = [len(each.values) for each in ranked]
        codes = np.empty((len(ranked), len(labels)), np.uint16 if max(sizes, default=0) <= 1 << 16 else np.uint32)
        for index, each in enumerate(ranked):
            codes[index] = each.ranks
        return cls(
            codes=codes,
            values=np.concatenate([*(each.values for each in ranked), np.empty(0)]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            labels=np.ascontiguousarray(labels, dtype=np.int32),
            features=features,
            classes=classes,
            target=target,
        )

    @property
    def count(self) -> int:
        """D, the number of features."""
        return len(self.codes)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The table column of each feature, without the probes, which come last."""
        return tuple(feature.column for feature in self.features if feature.kind is not FeatureKind.PROBE)

    @property
    def rows(self) -> int:
        """n, the number of rows."""
        return len(self.labels)

    @property
    def is_large(self) -> bool:
        """True if arrays with a value for each cell are better kept on disk."""
        return scratch.is_large(self.count, self.rows)

    @property
    def independent_rows(self) -> bool:
        """True if each row is a case of its own: then a bound on the number of rules certifies them."""
        return self.groups is None and self.weights is None

    @property
    def plan_inputs(self) -> dict[str, Any]:
        """What the plan of a search depends on beside the features."""
        rarest = int(np.bincount(self.labels, minlength=len(self.classes)).min())
        facts = {"rows": self.rows, "classes": len(self.classes), "rarest": rarest}
        return {**facts, "independent": self.independent_rows}

    def count_classes(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """(classes): how many of these rows, indices or a mask, are of each class; weighted if rows have weights."""
        units = None if self.weights is None else self.weights[rows]
        return count_classes(self.labels[rows], units, len(self.classes))

    def distinct_values(self, index: int) -> npt.NDArray[np.float64]:
        """Return the distinct values of feature `index`, ascending."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def column(self, index: int) -> npt.NDArray[np.float64]:
        """Return the values of feature `index`, row by row."""
        values: npt.NDArray[np.float64] = self.distinct_values(index)[self.codes[index]]
        return values

    def time_text(self, time: float) -> str:
        """Return one of the `times` as people write it."""
        if self.roles.get("time_kind") != "date":
            return f"{time:.15g}"
        moment = datetime(1970, 1, 1) + timedelta(seconds=time)
        return moment.isoformat(" ", "seconds").removesuffix(" 00:00:00")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that can change a result."""
        return arrayfile.fingerprint(KIND, self._arrays(), self._meta())

    def save(self, path: Path) -> None:
        """Write one file, atomically."""
        arrayfile.write(path, KIND, self._arrays(), self._meta() | {"fingerprint": self.fingerprint})

    @classmethod
    def load(cls, path: Path, *, verify: bool = True) -> "Columns":
        """Map a saved file; `verify` recomputes the fingerprint, which reads all of it once."""
        arrays, meta = arrayfile.read(path, KIND, _ARRAYS)
        try:
            columns = cls(
                **{name: arrays[name] for name in _ARRAYS},
                features=tuple(Feature.from_json(entry) for entry in meta["features"]),
                classes=tuple(meta["classes"]),
                target=meta["target"],
                **{name: arrays[name] for name in _ROW_ARRAYS if name in arrays},
                roles=dict(meta.get("roles", {})),
                raw=tuple(RawColumn(entry["column"], tuple(entry["levels"])) for entry in meta["raw"]),
            )
            fingerprint = str(meta["fingerprint"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged: its field {error} is missing or invalid.") from error
        if verify and columns.fingerprint != fingerprint:
            raise FormatError(f"{path} is damaged: its content does not match fingerprint {fingerprint[:12]}…")
        return columns

    def _arrays(self) -> arrayfile.Arrays:
        present = [name for name in _ROW_ARRAYS if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in (*_ARRAYS, *present)}

    def _meta(self) -> dict[str, Any]:
        return {
            "features": [feature.to_json() for feature in self.features],
            "classes": list(self.classes),
            "target": self.target,
            **({"roles": self.roles} if self.roles else {}),
            "raw": [{"column": raw.column, "levels": list(raw.levels)} for raw in self.raw],
        }


class ColumnsBuilder:
    """Joins the features of several tables of the same rows, in memory or on disk."""

    def __init__(self, *, on_disk: bool) -> None:
        self._codes, self._values, self._raw_codes = (scratch.ArrayBuilder(on_disk=on_disk) for _ in range(3))
        self._sizes: list[npt.NDArray[np.int64]] = []
        self._features: list[Feature] = []
        self._raw: list[RawColumn] = []
        self._rows: Columns | None = None

    def add(self, columns: Columns) -> None:
        """Add the features of a table."""
        self._codes.add(columns.codes)
        self._values.add(columns.values)
        self._raw_codes.add(columns.raw_codes)
        self._sizes.append(np.diff(columns.offsets))
        self._features += columns.features
        self._raw += columns.raw
        self._rows = replace(columns, codes=_no_codes(), values=np.empty(0), raw_codes=_no_codes())

    @property
    def count(self) -> int:
        """The number of features so far."""
        return len(self._features)

    def finish(self) -> Columns:
        """Return the table of all features; its rows are described as in the last table."""
        if self._rows is None:
            raise ValueError("no table was added")
        return replace(
            self._rows,
            codes=self._codes.finish(),
            values=self._values.finish(),
            offsets=np.concatenate([[0], np.cumsum(np.concatenate(self._sizes))]).astype(np.int64),
            features=tuple(self._features),
            raw=tuple(self._raw),
            raw_codes=self._raw_codes.finish(),
        )


class RankedValues(NamedTuple):
    """The distinct values of a feature, ascending, and the rank of each cell's, in the fewest bytes."""

    values: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.unsignedinteger[Any]]


def rank_values(column: npt.NDArray[np.float64]) -> RankedValues:
    """Rank the values of a feature, none of which is missing or infinite; −0.0 is 0.0."""
    low, high = (float(column.min()), float(column.max())) if len(column) else (0.0, 0.0)
    if high - low <= 2 * len(column) and abs(low) < 1 << 52:
        steps: npt.NDArray[Any] = (column - low).astype(np.int32 if len(column) < 1 << 29 else np.int64)
        if (steps + low == column).all():  # whole steps: counting is several times faster than sorting
            present = np.zeros(int(high - low) + 1, np.bool_)
            present[steps] = True
            values: npt.NDArray[np.float64] = np.flatnonzero(present).astype(np.float64) + low
            ranks = (np.cumsum(present) - 1).astype(_rank_type(len(values)))
            return RankedValues(values, ranks[steps])
    values, inverse = np.unique(column + 0.0, return_inverse=True)
    return RankedValues(values, inverse.astype(_rank_type(len(values))))


def _rank_type(count: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type that has so many ranks."""
    return np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint32


class _Purpose(IntEnum):
    """The purposes of streams of draws; the search numbers its own from 0."""

    PROBE_COLUMNS = 100
    PROBE_ROWS = 101


def add_probes(columns: Columns, count: int, seed: int) -> Columns:
    """Add `count` probes: permuted copies of distinct columns, and of each one more when all have been copied.

    They contain no information on the class. A rule that uses a probe is due to chance, so that probes show how often
    chance makes a rule of a useless feature. Where rows come in groups, whole groups exchange their values. They come
    after the features of the table and are never published.

    The draws are the project's own, so that any machine derives the same table.
    """
    if not count:
        return columns
    order = np.argsort(draws.keys(draws.stream(seed, 0, _Purpose.PROBE_COLUMNS), columns.count), kind="stable")
    sources = order[np.arange(count) % columns.count]
    sizes = np.diff(columns.offsets)[sources]
    copied = [columns.distinct_values(source) for source in sources]
    on_disk = columns.is_large
    codes = scratch.empty((columns.count + count, columns.rows), columns.codes.dtype, on_disk=on_disk)
    for block in scratch.each_block(columns.codes, codes):
        codes[block] = columns.codes[block]
    for number, source in enumerate(sources):
        codes[columns.count + number] = columns.codes[source][_permutation(columns, seed, number)]
    values = scratch.ArrayBuilder(on_disk=on_disk)
    for part in (columns.values, *copied):
        values.add(part)
    return replace(
        columns,
        codes=codes,
        values=values.finish(),
        offsets=np.concatenate([columns.offsets, columns.offsets[-1] + np.cumsum(sizes)]).astype(np.int64),
        features=(*columns.features, *_probe_features(columns, count)),
    )


def remove_probes(columns: Columns) -> Columns:
    """Return the columns without the probes."""
    own = columns.count - int(probe_mask(columns).sum())
    if own == columns.count:
        return columns
    return replace(
        columns,
        codes=columns.codes[:own],
        values=columns.values[: columns.offsets[own]],
        offsets=columns.offsets[: own + 1],
        features=columns.features[:own],
    )


def probe_mask(columns: Columns) -> npt.NDArray[np.bool_]:
    """(D): True for probes."""
    return np.array([feature.kind is FeatureKind.PROBE for feature in columns.features], np.bool_)


def _permutation(columns: Columns, seed: int, number: int) -> npt.NDArray[np.int64]:
    """No two numbers of a stream are equal, so that any sort gives the same permutation."""
    stream = draws.stream(seed, number, _Purpose.PROBE_ROWS)
    if columns.groups is not None:
        return exchange(columns.groups, stream)
    return np.argsort(draws.keys(stream, columns.rows), kind="stable")


def _probe_features(columns: Columns, count: int) -> list[Feature]:
    """Make features with names that no column has."""
    mark = "\0probe"
    while any(mark in feature.name or mark in feature.column for feature in columns.features):
        mark = f"\0{mark}"
    names = [f"{mark} {number + 1}" for number in range(count)]
    return [Feature(name, name, FeatureKind.PROBE) for name in names]


def level_text(value: object) -> str:
    """Return the text of a level, prepared or raw: booleans in lower case, whole numbers without a fraction."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
