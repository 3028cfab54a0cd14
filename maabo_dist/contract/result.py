"""The result document: everything that is reported about a mining run, as typed records and as JSON.

`maabo mine --json` prints it, run folders and the ledger keep it, and the HTTP API serves it. The records hold plain
values only, so that a program which reads results loads neither NumPy nor the numba kernels. The JSON Schema is
generated from them; the docstrings below are its descriptions.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError
from pydantic.json_schema import SkipJsonSchema

from maabo_dist.contract.rules import ConsensusRecord, Count, Record, RuleRecord, Share, is_none
from maabo_dist.errors import FormatError

FORMAT: Final = "maabo-rules/1"
"""Name and version of the document's format."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
if TYPE_CHECKING:
    SettingValue = Any
else:
    SettingValue = bool | int | float | str | None


class StopReason(StrEnum):
    """Why a search ended."""

    BUDGET = "budget"
    """All planned trees were grown."""
    EXHAUSTED = "exhausted"
    """Every subset of the space has a tree."""
    PATIENCE = "patience"
    """No new rule for as many trees as `patience` allows."""
    TIME = "time"
    """The time limit was reached."""
    REQUESTED = "asked"
    """The progress callback asked for it."""
    INTERRUPTED = "interrupted"
    """Ctrl-C."""
    RUNNING = "running"
    """It has not ended: the result holds the rules so far."""

    @property
    def cut_short(self) -> bool:
        """True if somebody stopped the search."""
        return self in {StopReason.REQUESTED, StopReason.INTERRUPTED}


class RepeatsRecord(Record):
    """Further runs on the same table, each on another half of the rows that the search may see."""

    asked: Count
    """Repeats that were requested."""
    done: Count
    """Repeats that were done."""
    seeds: tuple[Count, ...]
    """Split seeds of these."""
    rows: Count | None
    """Rows that each of them searched, training and validation; null where none was done."""
    threshold: Share
    """Rules found in at least this share of the repeats are consensus rules."""
    consensus: tuple[ConsensusRecord, ...]
    """Consensus rules, including those not in `rules`: fewest conditions first, then most rows over all repeats."""


class PartSizes(Record):
    """Rows of the parts of the split."""

    train: Count
    """Trees are grown on these."""
    validation: Count
    """These choose each tree's depth and score it."""
    holdout: Count
    """The search never sees these; 0 without `--holdout`."""


class DatasetInfo(Record):
    """The table that was mined."""

    name: str
    """Name of the file or of the bundled table."""
    settings: dict[str, SettingValue | list[str]] | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    """Every setting of the table's preparation, including defaults. Left out where they are not known."""
    rows: Count
    """Rows that were used."""
    features: Count
    """Features made from the columns."""
    target: str
    """The predicted column or statement, as shown to people."""
    classes: Annotated[tuple[str, ...], Field(min_length=2, json_schema_extra={"uniqueItems": True})]
    """Names of the classes."""
    fingerprint: Sha256
    """SHA-256 of the prepared columns."""
    base_rates: dict[str, Share | None]
    """Share of each class among the training rows."""
    parts: PartSizes
    """Rows of the parts of the split."""


class SpaceInfo(Record):
    """The feature subsets that trees may be grown on."""

    features: Count
    """D, the number of features, including probes."""
    subset_size: Count | Annotated[str, Field(pattern=r"^[0-9]+-[0-9]+$")]
    """D′, the features of one tree; a range such as 2-4 where sizes are mixed."""
    size: Annotated[int, Field(strict=True, ge=1)]
    """|Ω|, the number of subsets; exact, and often above 2^53, which some readers round."""


class SearchInfo(Record):
    """The plan of the search, with open settings resolved for this table, and its outcome."""

    strategy: Literal["maabo", "random", "exhaustive", "single"]
    """How subsets are chosen."""
    planned: Count
    """Trees to grow."""
    initial: Count
    """Of these, the first ones, grown before scores guide the search (N_I)."""
    batch: Count
    """Subsets proposed together."""
    in_flight: Count
    """Batches that may be evaluated at the same time."""
    top_features: Count
    """N_U; the number of features means no restriction."""
    candidates: Annotated[int, Field(strict=True, ge=1)] | None
    """N_E; null compares every subset not yet grown."""
    explained: tuple[str, ...]
    """What was chosen for this table and why, one line each, for people only. `--explain` prints it."""
    trees: Count
    """Trees grown."""
    leaves: Count
    """Leaves of these."""
    best_score: Share | None
    """Best macro F1 on the validation rows; null without trees."""
    seconds: Annotated[float, Field(strict=True, ge=0)]
    """Wall-clock time of the search."""
    stopped: StopReason
    """Why the search ended, or `running` if it has not."""


class FunnelCounts(Record):
    """How many leaves passed each filter."""

    leaves: Count
    """Leaves of all trees."""
    large: Count
    """Of these, those with at least `min_samples` training rows (β)."""
    pure: Count
    """Of these, those with a low enough Gini index (γ)."""
    distinct: Count
    """Of these, distinct sets of conditions."""
    supported: Count
    """Of these, those still distinct and reliable without the conditions that the rows do not support."""
    rules: Count
    """Of these, dissimilar ones (δ) without a probe: the rules."""


class DroppingInfo(Record):
    """What was dropped because the rows do not support it; null where all conditions are kept (`--literals paper`)."""

    conditions: Count
    """Conditions dropped from leaves that are reliable without them."""
    leaves: Count
    """Leaves dropped because they are not."""


class NoiseInfo(Record):
    """An estimate of how many rules are chance, from permuted copies of columns that took part in the search.

    It is conservative: every feature counts as one that may be irrelevant.
    """

    probes: Count
    """Permuted copies of columns."""
    rules: Count
    """Rules there would be if those that use a probe were published."""
    with_probe: Count
    """Of these, the rules that use one."""
    share: Share | None
    """Estimated share of the published rules that use an irrelevant feature; null without rules."""
    low: Share | None
    """Lower end of its 95 % interval."""
    high: Share | None
    """Upper end of the interval."""


class ResultDocument(Record):
    """Rules mined from a table: what `maabo mine --json` prints and `--out` writes to rules.json."""

    format: Literal["maabo-rules/1"]
    """Name and version of this format."""
    version: str
    """Version of the program that wrote it."""
    digest: Sha256
    """SHA-256 over the canonical rules: equal rules, equal digest."""
    dataset: DatasetInfo
    """The table that was mined."""
    settings: dict[str, SettingValue]
    """Every mining setting, including defaults. docs/cli.md describes each."""
    space: SpaceInfo
    """The feature subsets that trees may be grown on."""
    search: SearchInfo
    """The search."""
    funnel: FunnelCounts
    """How many leaves passed each filter."""
    dropping: DroppingInfo | None
    """What was dropped for lack of support; null where all conditions are kept."""
    noise: NoiseInfo | None
    """The estimate from probes; null without `--probes`."""
    repeats: RepeatsRecord | None
    """What other draws of the rows found again; null without `--repeats`."""
    notes: tuple[str, ...]
    """Sentences a reader should know, about the table, the plan and the end of the search."""
    rules: tuple[RuleRecord, ...]
    """In the order of selection."""
    partial: bool | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    """Over HTTP: true if the search was still running when the rules were mined."""

    @property
    def running(self) -> bool:
        """True if these are the rules of a search that has not ended."""
        return self.search.stopped is StopReason.RUNNING

    @classmethod
    def parse(cls, document: object, source: str = "The document") -> Self:
        """Validate a document of a file or a server.

        Parameters
        ----------
        document
            JSON values.
        source
            What the error message calls the document.

        Raises
        ------
        FormatError
            If it is not a result document, is of another format version, or a field is missing or wrong.
        """
        stated = document.get("format") if isinstance(document, Mapping) else None
        if stated != FORMAT:
            raise FormatError(
                f"{source} is not a result document: its format is {stated!r}, not {FORMAT!r}. "
                "Use the output of maabo mine --json."
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(map(str, problem["loc"]))
            raise FormatError(f"{source} is damaged: {field}: {problem['msg']}. Mine it again.") from None

    @classmethod
    def parse_text(cls, text: str | bytes, source: str = "The document") -> Self:
        """Validate a document from its JSON text."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{source} is not JSON in UTF-8 ({error}).") from error
        return cls.parse(document, source)

    def to_text(self) -> str:
        """Return the document as JSON text that ends with a line break."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of the document, draft 2020-12."""
    schema = ResultDocument.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:maabo:rules:1", **schema}
