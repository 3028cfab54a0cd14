"""Passes over the rows of a dataset, as the scheduler and the workers of a cluster plan them.

    plan ──► draw ──► plan ──► … the sample is searched … ──► count ──► count ──► …

`plan` is one task: it plans the passes that draw the sample, and makes the sample from what they drew. The others are
tasks over blocks of the rows. Whatever is larger than some kilobytes is in the artifact store.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from maabo_dist.contract.job import Fingerprint
from maabo_dist.contract.result import SampleInfo
from maabo_dist.errors import FormatError

MAX_BLOCKS, MAX_PASSES, MAX_RULES, MAX_CLASSES = 1 << 17, 1000, 1 << 20, 255

# Seconds that a cell takes to be read, hashed and counted, on one core, with Parquet files.
SECONDS_PER_CELL = 4e-8

PassKind = Literal["plan", "draw", "count"]
_Count = Annotated[int, Field(ge=0)]


class PassDocument(BaseModel):
    """The base of what is planned and stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def parse(cls, data: str | bytes) -> Self:
        """Read and check a document."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(map(str, problem["loc"])) or "document"
            raise FormatError(f"{cls.__name__} is invalid: {field}: {problem['msg']}.") from None

    def to_bytes(self) -> bytes:
        """Return the document as JSON."""
        return self.model_dump_json().encode()


class PassShape(PassDocument):
    """The size of the counts of a pass."""

    rules: Annotated[int, Field(ge=1, le=MAX_RULES)]
    classes: Annotated[int, Field(ge=1, le=MAX_CLASSES)]
    # True if it is counted what rules cover together.
    together: bool = False


class PassPlan(PassDocument):
    """A pass over the rows of a dataset, in blocks."""

    kind: PassKind
    # The request in the store; None for the first.
    request: Fingerprint | None = None
    # Of counts.
    shape: PassShape | None = None
    # The first block, the one after the last, and the number of rows.
    blocks: Annotated[tuple[tuple[_Count, _Count, _Count], ...], Field(min_length=1, max_length=MAX_BLOCKS)]
    # What the pass before it returned, in the store; for `plan`.
    results: Fingerprint | None = None
    # Names of the objects in the store that the passes after it need, in addition to those of passes before.
    artifacts: tuple[Annotated[str, Field(max_length=100)], ...] = ()


class DrawnBlock(PassDocument):
    """A block that was drawn from: its objects in the store."""

    # The class and the part of each row.
    cells: Fingerprint
    # The rows that were drawn, and how often the hashes came that are numbered.
    drawn: Fingerprint


class DrawnSample(PassDocument):
    """A sample that is drawn and stored."""

    # The prepared columns of the sample.
    columns: Fingerprint
    # Where the class and part of each row are.
    sample: Fingerprint
    info: SampleInfo
    notes: tuple[str, ...]


class PlanAnswer(PassDocument):
    """The answer to a pass of kind `plan`: the pass that follows, or the sample."""

    following: PassPlan | None = None
    sample: DrawnSample | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.following is None) == (self.sample is None):
            raise ValueError("it has either a pass that follows or a sample")
        return self


class StoredPass(PassDocument):
    """A pass that has counted rules: what it counted, and the counts, in the store."""

    request: Fingerprint
    results: Fingerprint


_BLOCKS = TypeAdapter(list[DrawnBlock])


def parse_blocks(data: bytes) -> list[DrawnBlock]:
    """Read and check what was drawn from some blocks."""
    try:
        return _BLOCKS.validate_json(data)
    except ValidationError as error:
        raise FormatError(f"What a pass has drawn is invalid: {error.errors(include_url=False)[0]['msg']}.") from None


def dump_blocks(blocks: Sequence[DrawnBlock]) -> bytes:
    """Return blocks as JSON."""
    return _BLOCKS.dump_json(list(blocks))
