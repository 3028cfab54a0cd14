"""`PassCounter`: counts of rules over a dataset, by passes over its rows that run here or on the workers of a cluster.

    selection of rules ──► CountRequest ──► one pass over all rows ──► Counts, kept ──► selection goes on

A request is counted for each piece of the dataset by itself, and counts are added: the sum is the same in any order. A
rule is counted once.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from maabo_dist.contract.conditions import Condition
from maabo_dist.contract.coverage import MAX_COMPARED
from maabo_dist.contract.passes import PassShape
from maabo_dist.data.columns import Feature
from maabo_dist.data.split import Part
from maabo_dist.errors import FormatError
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.matching import Floats, Logic
from maabo_dist.rules.rule import NO_LITERAL

Ints = npt.NDArray[np.int64]
Premise = tuple[Condition, ...]


class Overlaps(NamedTuple):
    """What several rules cover together."""

    # (rules): training rows that no other rule covers.
    unique: Ints
    # (C): rows of each class that some rule for this class covers.
    explained: Ints
    # Rows of each class by the rules that cover them: bit k is set if the k-th rule does.
    combinations: dict[int, Ints]


# (rules, parts · C): the rows that each rule covers; or what the rules cover together.
Counts = Ints | Overlaps


class CountRequest(NamedTuple):
    """Rules to count in one pass."""

    premises: tuple[Premise, ...]
    # The classes of the rules if it is to be counted what they cover together; None to count each by itself.
    labels: tuple[int, ...] | None = None

    def shape(self, classes: int) -> PassShape:
        """Return the size of the counts."""
        return PassShape(rules=len(self.premises), classes=classes, together=self.labels is not None)


def add_counts(first: Counts, second: Counts) -> Counts:
    """Return the counts of two pieces together."""
    if not isinstance(first, Overlaps):
        total: Ints = np.add(first, np.asarray(second))
        return total
    if not isinstance(second, Overlaps):
        raise TypeError("Counts of rules and of what rules cover together cannot be added.")
    combinations = dict(first.combinations)
    for code, counts in second.combinations.items():
        combinations[code] = combinations[code] + counts if code in combinations else counts
    return Overlaps(first.unique + second.unique, first.explained + second.explained, combinations)


def no_counts(shape: PassShape) -> Counts:
    """Return the counts of no rows."""
    if not shape.together:
        return np.zeros((shape.rules, len(Part) * shape.classes), np.int64)
    return Overlaps(np.zeros(shape.rules, np.int64), np.zeros(shape.classes, np.int64), {})


class CountsNeededError(Exception):
    """A pass over the rows has to be run before the selection of rules can go on."""

    def __init__(self, request: CountRequest) -> None:
        super().__init__(f"{len(request.premises)} rules are not counted yet")
        self.request = request


@dataclass
class PassCounter(ABC):
    """Counts the rows of rules in a dataset; a `RowCounter`."""

    classes: tuple[str, ...]
    # (parts, C): all rows.
    totals: Ints
    # The features of the study whose rules are counted.
    features: Sequence[Feature]
    effect: float = field(default=1.0, init=False)
    unit: int = field(default=1, init=False)
    _counts: dict[Premise, Ints] = field(default_factory=dict, init=False)
    _overlaps: dict[CountRequest, Overlaps] = field(default_factory=dict, init=False)

    @abstractmethod
    def run_pass(self, request: CountRequest) -> Counts:
        """Count rules on all rows."""

    @property
    def rows(self) -> tuple[int, int, int]:
        """The number of rows of each part."""
        train, validation, holdout = self.totals.sum(axis=1).tolist()
        return train, validation, holdout

    def keep(self, request: CountRequest, counts: Counts) -> None:
        """Keep the counts of a pass."""
        if isinstance(counts, Overlaps):
            self._overlaps[request] = counts
            return
        for premise, own in zip(request.premises, counts, strict=True):
            self._counts[premise] = own.reshape(self.totals.shape)

    def count(self, logic: Logic, bounds: Floats) -> Ints:
        """(rules, parts, C): the rows that each rule covers."""
        premises = self.premises(logic, bounds)
        self.count_premises(premises)
        shape = (len(premises), *self.totals.shape)
        return np.array([self._counts[premise] for premise in premises], np.int64).reshape(shape)

    def count_unique(self, logic: Logic, bounds: Floats, labels: Sequence[int]) -> Ints:
        """(rules): the training rows that no other of these rules, for these classes, covers."""
        return self.overlaps(self.premises(logic, bounds), labels).unique

    def premises(self, logic: Logic, bounds: Floats) -> list[Premise]:
        """Return the conditions of rules."""
        return [
            conditions_of(self.features, literals[literals != NO_LITERAL].tolist(), thresholds.tolist())
            for literals, thresholds in zip(logic, bounds, strict=True)
        ]

    def count_premises(self, premises: Iterable[Premise]) -> None:
        """Count those of the rules that are not counted yet, in one pass."""
        self._counts[()] = self.totals
        request = CountRequest(tuple(each for each in dict.fromkeys(premises) if each not in self._counts))
        if request.premises:
            self.keep(request, self.run_pass(request))

    def counts_of(self, premise: Premise) -> Ints:
        """(parts, C): the rows of a rule that is counted."""
        return self._counts[premise]

    def overlaps(self, premises: Sequence[Premise], labels: Sequence[int]) -> Overlaps:
        """Count what rules for these classes cover together, in one pass."""
        request = CountRequest(tuple(premises), tuple(labels))
        if not request.premises:
            return Overlaps(np.zeros(0, np.int64), np.zeros(len(self.classes), np.int64), {})
        if request not in self._overlaps:
            self.keep(request, self.run_pass(request))
        return self._overlaps[request]


class StoredCounts(PassCounter):
    """Has the counts of passes that were run before; raises a `CountsNeededError` for others."""

    def run_pass(self, request: CountRequest) -> Counts:
        """Ask for a pass."""
        raise CountsNeededError(request)


# Requests and counts as bytes, for messages, the ledger and the store.


@with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
class _RequestDocument(TypedDict):
    # All conditions, and the indices of those of each rule.
    conditions: list[Condition]
    rules: list[tuple[int, ...]]
    labels: list[int] | None


_REQUEST = TypeAdapter(_RequestDocument)


def pack_request(request: CountRequest) -> bytes:
    """Return the request as JSON, in which rules share conditions."""
    indices = {each: number for number, each in enumerate(dict.fromkeys(c for rule in request.premises for c in rule))}
    rules = [tuple(indices[each] for each in rule) for rule in request.premises]
    labels = None if request.labels is None else list(request.labels)
    return _REQUEST.dump_json({"conditions": list(indices), "rules": rules, "labels": labels})


def unpack_request(data: bytes) -> CountRequest:
    """Read and check a request."""
    try:
        document = _REQUEST.validate_json(data)
    except ValidationError as error:
        raise FormatError(f"A request for counts is invalid: {error.errors(include_url=False)[0]['msg']}.") from None
    conditions, labels = document["conditions"], document["labels"]
    if any(not 0 <= index < len(conditions) for rule in document["rules"] for index in rule):
        raise FormatError("A request for counts names a condition that it does not have.")
    if labels is not None and len(labels) != len(document["rules"]):
        raise FormatError("A request for counts has not as many classes as rules.")
    premises = tuple(tuple(conditions[index] for index in rule) for rule in document["rules"])
    return CountRequest(premises, None if labels is None else tuple(labels))


def pack_counts(counts: Counts) -> bytes:
    """Return counts as compressed int64: those of rules; or unique and explained rows, codes and their rows."""
    if isinstance(counts, Overlaps):
        codes = sorted(counts.combinations)
        combined = [counts.combinations[code] for code in codes]
        flat = np.concatenate([counts.unique, counts.explained, np.array(codes, np.int64), *combined])
    else:
        flat = counts.reshape(-1)
    return zlib.compress(flat.astype("<i8").tobytes(), 1)


def unpack_counts(data: bytes, shape: PassShape) -> Counts:
    """Read and check counts."""
    rules, classes, cells = shape.rules, shape.classes, len(Part) * shape.classes
    most = rules + classes + (1 << MAX_COMPARED) * (1 + classes) if shape.together else rules * cells
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(data, 8 * most + 1)
    except zlib.error as error:
        raise FormatError(f"Packed counts cannot be decompressed: {error}.") from None
    rest = len(raw) // 8 - rules - classes
    fits = rest >= 0 and rest % (1 + classes) == 0 if shape.together else len(raw) == 8 * rules * cells
    if not reader.eof or len(raw) % 8 or not fits:
        raise FormatError(f"Packed counts of {len(raw)} bytes do not match {rules} rules of {classes} classes.")
    flat = np.frombuffer(raw, "<i8").astype(np.int64)
    if (flat < 0).any():
        raise FormatError("Packed counts have a negative number.")
    if not shape.together:
        return flat.reshape(rules, cells)
    codes = flat[rules + classes :][: rest // (1 + classes)].tolist()
    combined = flat[len(flat) - len(codes) * classes :].reshape(-1, classes)
    return Overlaps(flat[:rules], flat[rules : rules + classes], dict(zip(codes, combined, strict=True)))
