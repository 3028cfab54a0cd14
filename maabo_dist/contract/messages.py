"""Messages between scheduler and workers: small JSON headers; subsets, pairs and trees packed beside them.

Every message carries the version of the contract. One of a version that is not read here, or that does not read, is
refused with a FormatError that says why; it never brings a process down.

So that a cluster can be upgraded process by process, in any order, a release reads what the one before it writes, and
writes what the one before it reads. A new version takes three of them: the first reads it, the second writes it, the
third forgets the old one. An answer is in the version of what asked for it.
"""

import json
from base64 import b64decode, b64encode
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.contract.job import Correlation, Fingerprint, JobId, JobSpec, Name, Trace, is_none
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import FormatError
from maabo_dist.settings import MAX_DEPTH, MAX_PROBES, MiningSettings

VERSION = 2
"""The newest version that is read."""
WRITTEN_VERSION = 2
"""The version that is written: the newest that the release before reads."""
OLDEST_VERSION = 2
"""The oldest version that is read: at most what the release before writes."""
MAX_SUBSETS = 1 << 17
MAX_PAIRS = 1 << 16

MAX_REASON = 2000

Outcome = Literal["done", "failed", "lost", "unavailable"]
"""`failed`: the work raised an error. `lost`: its process died or ran out of time. Both speak against the work.
`unavailable`: this worker could not begin (no table, no room, another version); another one, or this one later, may."""
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: int = WRITTEN_VERSION

    @classmethod
    def read(cls, data: object) -> Self:
        """A message from the wire, checked. `data` is a mapping, or JSON text."""
        try:
            message = cls.model_validate_json(data) if isinstance(data, str | bytes) else cls.model_validate(data)
        except ValidationError as error:
            _check_version(cls.__name__, _version_of(data))
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"]) or "message"
            raise FormatError(f"A {cls.__name__} message does not read: {where}: {problem['msg']}.") from None
        _check_version(cls.__name__, message.version)
        return message


def _version_of(data: object) -> object:
    """What a message that does not read says of its version; None if it says nothing."""
    try:
        found = json.loads(data) if isinstance(data, str | bytes) else data
    except ValueError:
        return None
    return found.get("version") if isinstance(found, dict) else None


def _check_version(kind: str, found: object) -> None:
    if found is None or (isinstance(found, int) and OLDEST_VERSION <= found <= VERSION):
        return
    spoken = f"version {VERSION}" if OLDEST_VERSION == VERSION else f"versions {OLDEST_VERSION} and {VERSION}"
    older = isinstance(found, int) and found < OLDEST_VERSION
    remedy = f"Upgrade {'whoever sent it' if older else 'this program'}."
    raise FormatError(f"A {kind} message of contract version {found!r} came; this program speaks {spoken}. {remedy}")


class _TaskMessage(_Message):
    """What asks a worker for something."""

    # Left out where there is none: workers that do not know them yet read all other tasks.
    correlation: Correlation | None = Field(None, exclude_if=is_none)
    """The job's, for logs and for Flower."""
    trace: Trace | None = Field(None, exclude_if=is_none)
    """The span of the job."""


def _with_correlation(line: str, correlation: str | None) -> str:
    return line if correlation is None else f"{line} · {correlation}"


class TableSplit(_Message):
    """What a worker needs to lay out the training table."""

    test_size: Annotated[float, Field(gt=0, lt=1)]
    holdout: Annotated[float, Field(ge=0, lt=1)]
    seed: Seed
    stratify: bool
    class_weight: Literal["balanced", "none"]
    min_samples_leaf: Annotated[int, Field(ge=1)]
    probes: Annotated[int, Field(ge=0, le=MAX_PROBES)] = 0
    probe_seed: Seed = 0
    """0 where there are no probes: the layout then does not depend on it."""

    @classmethod
    def of(cls, settings: MiningSettings) -> Self:
        """The part of the settings that lays out the training table."""
        return cls(
            test_size=settings.test_size,
            holdout=settings.holdout,
            seed=settings.seed if settings.split_seed is None else settings.split_seed,
            stratify=settings.stratify,
            class_weight=settings.class_weight,
            min_samples_leaf=settings.min_samples_leaf,
            probes=settings.probes,
            probe_seed=settings.seed if settings.probes else 0,
        )


class EvaluateMessage(_TaskMessage):
    """Grow the trees of subsets `start` … `stop` − 1 of a batch."""

    job: JobId
    batch: Count
    start: Count
    stop: Count
    attempt: Count
    columns: Fingerprint
    split: TableSplit
    max_depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    whole: bool = False
    """Whether trees are sent whole, or cut at their best depth."""
    subset_size: Annotated[int, Field(ge=1)]
    subsets: Annotated[str, Field(max_length=MAX_SUBSETS * 96)]
    """Feature indices, packed by `pack_subsets`."""
    smallest_size: int | None = Field(None, exclude=True)
    """Where sizes are mixed, the smallest one: for `argsrepr`, and never sent."""

    @property
    def argsrepr(self) -> str:
        """One line for people, shown by Flower."""
        count = self.stop - self.start
        subsets = "subset" if count == 1 else "subsets"
        mixed = self.smallest_size not in {None, self.subset_size}
        size = f"{self.smallest_size}–{self.subset_size}" if mixed else self.subset_size
        line = f"job {self.job[:4]} · batch {self.batch} · {count} {subsets} of {size}"
        return _with_correlation(line, self.correlation)


class EvaluationAnswer(_Message):
    """The header of a worker's answer; the packed trees of a `done` one stand beside it."""

    kind: Outcome
    job: JobId
    batch: Count
    start: Count
    stop: Count
    attempt: Count
    worker: Name
    seconds: Annotated[float, Field(ge=0)] = 0.0
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""


class ScreenMessage(_TaskMessage):
    """Look at all pairs whose first feature is one of `start` … `stop` − 1, and answer with the strongest."""

    job: JobId
    number: Annotated[int, Field(ge=1)]
    """Which of the job's blocks this is, for people; `start` and `stop` tell blocks apart."""
    blocks: Annotated[int, Field(ge=1)]
    start: Count
    stop: Count
    attempt: Count
    columns: Fingerprint
    split: TableSplit
    most: Annotated[int, Field(ge=1, le=MAX_PAIRS)]
    """How many pairs at most."""

    @property
    def argsrepr(self) -> str:
        """One line for people, shown by Flower."""
        features = f"features {self.start}–{self.stop - 1}" if self.stop - self.start > 1 else f"feature {self.start}"
        line = f"job {self.job[:4]} · screen {self.number} of {self.blocks} · {features}"
        return _with_correlation(line, self.correlation)


class ScreenAnswer(_Message):
    """The header of the answer to `ScreenMessage`; the packed pairs of a `done` one stand beside it."""

    kind: Outcome
    job: JobId
    start: Count
    stop: Count
    attempt: Count
    worker: Name
    seconds: Annotated[float, Field(ge=0)] = 0.0
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""


class Failure(BaseModel):
    """A subset whose tree could not be had, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subset: tuple[Count, ...]
    reason: Annotated[str, Field(max_length=MAX_REASON)]


class RulesMessage(_Message):
    """Run GS-MRM over the trees in these segments of the store: at the end of a job, or on what is there so far."""

    spec: JobSpec
    attempt: Count
    final: bool
    segments: tuple[Fingerprint, ...]
    """In the order of the search."""
    seconds: Annotated[float, Field(ge=0)]
    stopped: StopReason
    failures: tuple[Failure, ...] = ()
    """The first of them."""

    @property
    def argsrepr(self) -> str:
        """One line for people, shown by Flower."""
        line = f"job {self.spec.id[:4]} · {'rules' if self.final else 'rules so far'}"
        return _with_correlation(line, self.spec.correlation)


class RulesAnswer(_Message):
    """The header of the answer to `RulesMessage`; the document of a `done` one stands beside it."""

    kind: Outcome
    job: JobId
    attempt: Count
    final: bool
    worker: Name
    trees: Count = 0
    rules: Count = 0
    digest: Annotated[str, Field(max_length=64)] = ""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""


class Request(_Message):
    """What a client asks of the schedulers."""

    kind: Literal["submit", "pause", "resume", "cancel", "look"]
    """`look` asks for the job's record to be mirrored again."""
    job: JobId
    document: dict[str, Any] | None = None
    """The job document of a `submit`, not yet checked."""

    @property
    def correlation(self) -> str:
        """What whoever asked calls this; the job's id if they said nothing."""
        found = (self.document or {}).get("correlation")
        return found[:200] if isinstance(found, str) and found else self.job


def pack_subsets(subsets: npt.NDArray[np.int32]) -> str:
    """Feature indices as base64 of little-endian integers: two bytes each where they fit, else four."""
    narrow = subsets.max(initial=0) < 1 << 16
    mark = b"2" if narrow else b"4"
    return b64encode(mark + subsets.astype("<u2" if narrow else "<u4").tobytes()).decode()


def unpack_subsets(text: str, count: int, size: int) -> npt.NDArray[np.int32]:
    """Inverse of `pack_subsets`, for `count` subsets of `size` features."""
    try:
        data = b64decode(text, validate=True)
    except ValueError as error:
        raise FormatError(f"Packed subsets do not read: {error}.") from None
    types: dict[bytes, Any] = {b"2": "<u2", b"4": "<u4"}
    dtype = types.get(data[:1])
    if dtype is None or len(data) != 1 + count * size * np.dtype(dtype).itemsize:
        raise FormatError(
            f"Packed subsets are {len(data)} bytes long, which are not {count} subsets of {size} features."
        )
    subsets = np.frombuffer(data, dtype, offset=1).reshape(count, size)
    if len(subsets) and subsets.max() > np.iinfo(np.int32).max:
        raise FormatError("Packed subsets hold a feature index out of range.")
    return subsets.astype(np.int32)
