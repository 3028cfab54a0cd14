"""Messages between scheduler and workers: small JSON headers, and packed subsets, pairs and trees.

Every message contains the version of the contract. An invalid message, or one of an unsupported version, raises a
FormatError with the reason; it never crashes a process.

So that the processes of a cluster can be upgraded in any order, a release reads the messages of the previous release
and writes messages that the previous release reads. A new version takes three releases: the first reads it, the second
writes it, the third drops the old one. An answer has the version of its request.
"""

from base64 import b64decode, b64encode
from operator import not_
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maabo_dist.contract.decoding import decode_json
from maabo_dist.contract.document import is_empty, is_false, is_none
from maabo_dist.contract.job import Correlation, Fingerprint, JobId, JobSpec, Name, Trace
from maabo_dist.contract.passes import MAX_PASSES, PassKind, StoredPass
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import FormatError
from maabo_dist.settings import MAX_DEPTH, MAX_PROBES, MiningSettings

# The newest version that this release reads.
VERSION = 2
# The version that this release writes: the newest that the previous release reads.
WRITTEN_VERSION = 2
# The oldest version that this release reads: at most the one that the previous release writes.
OLDEST_VERSION = 2
MAX_SUBSETS = 1 << 17
MAX_PAIRS = 1 << 16
# The most tasks that one evaluation message carries.
MAX_PARTS = 256

MAX_REASON = 2000

# `failed`: the work raised an error. `lost`: its process died or timed out. Both count as failures of the work.
# `unavailable`: this worker could not start (no table, no disk space, another version); another attempt may succeed.
Outcome = Literal["done", "failed", "lost", "unavailable"]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: int = WRITTEN_VERSION

    @classmethod
    def read(cls, data: object) -> Self:
        """Parse and check a message. `data` is a mapping or JSON text."""
        try:
            message = cls.model_validate_json(data) if isinstance(data, str | bytes) else cls.model_validate(data)
        except ValidationError as error:
            _check_version(cls.__name__, _read_version(data))
            problem = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in problem["loc"]) or "message"
            raise FormatError(f"{cls.__name__} is invalid: {field}: {problem['msg']}.") from None
        _check_version(cls.__name__, message.version)
        return message


def _read_version(data: object) -> object:
    """Return the version of an invalid message; None if it has none."""
    try:
        message = decode_json(data) if isinstance(data, str | bytes) else data
    except FormatError:
        return None
    return message.get("version") if isinstance(message, dict) else None


def _check_version(kind: str, version: object) -> None:
    if version is None or (isinstance(version, int) and OLDEST_VERSION <= version <= VERSION):
        return
    supported = f"version {VERSION}" if OLDEST_VERSION == VERSION else f"versions {OLDEST_VERSION} and {VERSION}"
    older = isinstance(version, int) and version < OLDEST_VERSION
    remedy = f"Upgrade {'its sender' if older else 'this program'}."
    raise FormatError(f"{kind} has contract version {version!r}; this program supports {supported}. {remedy}")


class _TaskMessage(_Message):
    """A task for a worker."""

    # Both are omitted if they are None, so that older workers can read the message.

    # The correlation of the job, for logs and for Flower.
    correlation: Correlation | None = Field(None, exclude_if=is_none)
    # The span of the job.
    trace: Trace | None = Field(None, exclude_if=is_none)


def _with_correlation(line: str, correlation: str | None) -> str:
    return line if correlation is None else f"{line} · {correlation}"


class TableSplit(_Message):
    """The settings that determine the training table."""

    test_size: Annotated[float, Field(gt=0, lt=1)]
    holdout: Annotated[float, Field(ge=0, lt=1)] | None
    seed: Seed
    holdout_by: Literal["time", "random"] = Field("time", exclude_if=lambda value: value == "time")
    stratify: bool
    class_weight: Literal["balanced", "none"]
    min_samples_leaf: Annotated[int, Field(ge=1)]
    probes: Annotated[int, Field(ge=0, le=MAX_PROBES)] = 0
    # 0 without probes, so that equal tables have equal layouts.
    probe_seed: Seed = 0
    # True if missing cells and levels are recoded for findings. Like `holdout_by`, it is omitted by default, so that
    # older workers grow the trees of jobs that they know how to, and refuse the others.
    recoded: bool = Field(False, exclude_if=is_false)

    @classmethod
    def of(cls, settings: MiningSettings, holdout: float | None = None) -> Self:
        """Select these from the mining settings; older workers cannot derive the share `holdout` themselves."""
        return cls(
            test_size=settings.test_size,
            holdout=settings.holdout if holdout is None else holdout,
            seed=settings.seed if settings.split_seed is None else settings.split_seed,
            holdout_by=settings.holdout_by,
            stratify=settings.stratify,
            class_weight=settings.class_weight,
            min_samples_leaf=settings.min_samples_leaf,
            probes=settings.probes,
            probe_seed=settings.seed if settings.probes else 0,
            recoded=settings.publishes_findings,
        )


Subsets = Annotated[str, Field(max_length=MAX_SUBSETS * 96)]


class EvaluatePart(BaseModel):
    """Subsets `start` … `stop` − 1 of a batch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: Count
    start: Count
    stop: Count
    attempt: Count
    # Feature indices, packed by `pack_subsets`.
    subsets: Subsets


class EvaluateMessage(_TaskMessage):
    """Grow the trees of subsets `start` … `stop` − 1 of a batch, and of further parts; each part has its own answer."""

    job: JobId
    batch: Count
    start: Count
    stop: Count
    attempt: Count
    columns: Fingerprint
    split: TableSplit
    max_depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    # True to return whole trees instead of trees cut at their best depth.
    whole: bool = False
    subset_size: Annotated[int, Field(ge=1)]
    # Feature indices, packed by `pack_subsets`.
    subsets: Subsets
    # Omitted if there are none, so that older workers can read the message.
    more: Annotated[tuple[EvaluatePart, ...], Field(max_length=MAX_PARTS - 1)] = Field((), exclude_if=not_)
    # The smallest size of a space of mixed sizes; for `argsrepr` only, and never sent.
    smallest_size: int | None = Field(None, exclude=True)

    @property
    def parts(self) -> "tuple[EvaluateMessage | EvaluatePart, ...]":
        """All parts; the message itself has the fields of the first."""
        return (self, *self.more)

    @property
    def argsrepr(self) -> str:
        """A summary of the task, shown by Flower."""
        count = sum(part.stop - part.start for part in self.parts)
        subsets = "subset" if count == 1 else "subsets"
        mixed = self.smallest_size not in {None, self.subset_size}
        size = f"{self.smallest_size}–{self.subset_size}" if mixed else self.subset_size
        last = max(part.batch for part in self.parts)
        batches = f"batch {self.batch}" if last == self.batch else f"batches {self.batch}–{last}"
        line = f"job {self.job[:4]} · {batches} · {count} {subsets} of {size}"
        return _with_correlation(line, self.correlation)


class _Answer(_Message):
    """The header of a worker's answer."""

    kind: Outcome
    job: JobId
    attempt: Count
    worker: Name
    seconds: Annotated[float, Field(ge=0)] = 0.0
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""


class EvaluationAnswer(_Answer):
    """The answer to a part of an `EvaluateMessage`; if it is `done`, its body contains the packed trees."""

    batch: Count
    start: Count
    stop: Count
    # The number of the part: all parts of a message share one worker process, and its loss. Omitted if it is 0.
    part: Annotated[int, Field(ge=0, lt=MAX_PARTS)] = Field(0, exclude_if=not_)


class ScreenMessage(_TaskMessage):
    """Screen all pairs whose first feature is one of `start` … `stop` − 1, and return the strongest.

    From D on, the number of features, it is D + the second feature of triples.
    """

    job: JobId
    # The number of the block within the job, for logs; `start` and `stop` identify it.
    number: Annotated[int, Field(ge=1)]
    blocks: Annotated[int, Field(ge=1)]
    start: Count
    stop: Count
    attempt: Count
    columns: Fingerprint
    split: TableSplit
    # The maximum number of pairs to return, or of triples of each class and of interactions.
    most: Annotated[int, Field(ge=1, le=MAX_PAIRS)]
    # True to count pairs at tenths of the rows too, or triples at sixths.
    fine: bool = Field(False, exclude_if=is_false)

    @property
    def argsrepr(self) -> str:
        """A summary of the task, shown by Flower."""
        features = f"features {self.start}–{self.stop - 1}" if self.stop - self.start > 1 else f"feature {self.start}"
        line = f"job {self.job[:4]} · screen {self.number} of {self.blocks} · {features}"
        return _with_correlation(line, self.correlation)


class ScreenAnswer(_Answer):
    """The answer to `ScreenMessage`; if it is `done`, its body contains the packed pairs or triples."""

    start: Count
    stop: Count


class Failure(BaseModel):
    """A subset that failed, for example by crashing its worker, and the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subset: tuple[Count, ...]
    reason: Annotated[str, Field(max_length=MAX_REASON)]


class ShuffleMessage(_Message):
    """Repeat the search on shuffled labels, numbers `start` … `stop` − 1, and return the strongest rules of each."""

    spec: JobSpec
    start: Count
    stop: Count
    # The number of searches that are planned, for logs and for Flower.
    planned: Count
    attempt: Count
    # The time that all searches of the task are expected to take, from which its time limit follows; never sent.
    expected: float = Field(0.0, exclude=True)

    @property
    def argsrepr(self) -> str:
        """A summary of the task, shown by Flower."""
        searches = f"searches {self.start + 1}–{self.stop}" if self.stop - self.start > 1 else f"search {self.stop}"
        line = f"job {self.spec.id[:4]} · shuffled {searches} of {self.planned}"
        return _with_correlation(line, self.spec.correlation)


class ShuffleAnswer(_Answer):
    """The answer to `ShuffleMessage`; if it is `done`, its body contains the packed searches."""

    start: Count
    stop: Count


class CountMessage(_Message):
    """Read blocks `start` … `stop` − 1 of a pass over the rows of a dataset."""

    spec: JobSpec
    # The number of the pass within the job.
    number: Count
    kind: PassKind
    request: Fingerprint | None = None
    results: Fingerprint | None = None
    start: Count
    stop: Count
    # The number of blocks of the pass, for logs and for Flower.
    blocks: Count
    attempt: Count
    # The time that the task is expected to take, from which its time limit follows; never sent.
    expected: float = Field(0.0, exclude=True)

    @property
    def argsrepr(self) -> str:
        """A summary of the task, shown by Flower."""
        done = {"plan": "plan the sample", "draw": "draw the sample", "count": "count rows"}[self.kind]
        blocks = f"blocks {self.start + 1}–{self.stop}" if self.stop - self.start > 1 else f"block {self.stop}"
        line = f"job {self.spec.id[:4]} · {done} · {blocks} of {self.blocks}"
        return _with_correlation(line, self.spec.correlation)


class CountAnswer(_Answer):
    """The answer to `CountMessage`; if it is `done`, its body contains what was counted, drawn or planned."""

    number: Count
    start: Count
    stop: Count
    # True if the work fails on every worker.
    permanent: bool = Field(False, exclude_if=is_false)


class StoredShuffles(BaseModel):
    """Searches on shuffled labels in the store, which certify rules."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    digest: Fingerprint
    count: Count
    planned: Count
    # The time that they took on one core.
    seconds: Annotated[float, Field(ge=0)]


class RulesMessage(_Message):
    """Mine the rules from the trees in these segments of the store: final ones, or the rules so far."""

    spec: JobSpec
    attempt: Count
    final: bool
    # In the order of the search.
    segments: tuple[Fingerprint, ...]
    seconds: Annotated[float, Field(ge=0)]
    stopped: StopReason
    # The first failed subsets.
    failures: tuple[Failure, ...] = ()
    # All are omitted by default, so that older workers can read the message.

    # For each class, a strength that no triple of features exceeds which has no tree: see `SearchRun.untried_triples`.
    untried_triples: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] | None = Field(
        None, max_length=100, exclude_if=is_none
    )
    # True to answer how many searches on shuffled labels are needed, instead of running them.
    plan_shuffles: bool = Field(False, exclude_if=is_false)
    # The searches, once they were run.
    shuffled: StoredShuffles | None = Field(None, exclude_if=is_none)
    # The passes that have counted rules on all rows of a dataset, in order.
    counted: tuple[StoredPass, ...] = Field((), max_length=MAX_PASSES, exclude_if=is_empty)

    @property
    def argsrepr(self) -> str:
        """A summary of the task, shown by Flower."""
        line = f"job {self.spec.id[:4]} · {'rules' if self.final else 'rules so far'}"
        return _with_correlation(line, self.spec.correlation)


class RulesAnswer(_Answer):
    """The answer to `RulesMessage`; if it is `done`, its body contains the result document.

    It has no body if searches on shuffled labels are needed first. If rules have to be counted first, its body is the
    `PassPlan`.
    """

    final: bool
    trees: Count = 0
    rules: Count = 0
    digest: Annotated[str, Field(max_length=64)] = ""
    # Both are omitted by default, so that older schedulers can read the answer.

    # The number of searches on shuffled labels that may be needed.
    shuffles: Annotated[int, Field(ge=1)] | None = Field(None, exclude_if=is_none)
    # See `ShufflePlan`.
    undecided: float | None = Field(None, exclude_if=is_none)
    # True if rules have to be counted on all rows of a dataset first.
    counting: bool = Field(False, exclude_if=is_false)


class Request(_Message):
    """A request of a client to the schedulers."""

    # `look` asks the schedulers to publish the job's record again.
    kind: Literal["submit", "pause", "resume", "cancel", "look"]
    job: JobId
    # The job document of a `submit`, unchecked.
    document: dict[str, Any] | None = None

    @property
    def correlation(self) -> str:
        """The correlation in the document; the job's id if there is none."""
        correlation = (self.document or {}).get("correlation")
        return correlation[:200] if isinstance(correlation, str) and correlation else self.job


def pack_subsets(subsets: npt.NDArray[np.int32]) -> str:
    """Encode feature indices as base64 of little-endian integers: two bytes each if they fit, else four."""
    narrow = subsets.max(initial=0) < 1 << 16
    mark = b"2" if narrow else b"4"
    return b64encode(mark + subsets.astype("<u2" if narrow else "<u4").tobytes()).decode()


def unpack_subsets(text: str, count: int, size: int) -> npt.NDArray[np.int32]:
    """Decode `count` subsets of `size` features, the inverse of `pack_subsets`."""
    try:
        data = b64decode(text, validate=True)
    except ValueError as error:
        raise FormatError(f"Packed subsets are invalid: {error}.") from None
    types: dict[bytes, Any] = {b"2": "<u2", b"4": "<u4"}
    dtype = types.get(data[:1])
    if dtype is None or len(data) != 1 + count * size * np.dtype(dtype).itemsize:
        raise FormatError(
            f"Packed subsets have {len(data)} bytes, which does not match {count} subsets of {size} features."
        )
    subsets = np.frombuffer(data, dtype, offset=1).reshape(count, size)
    if len(subsets) and subsets.max() > np.iinfo(np.int32).max:
        raise FormatError("Packed subsets contain a feature index that is out of range.")
    return subsets.astype(np.int32)
