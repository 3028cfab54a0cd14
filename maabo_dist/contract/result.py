"""The result document: everything that is reported about a mining run, as typed records and as JSON.

`maabo mine --json` prints it, run folders and the ledger keep it, and the HTTP API serves it. The records hold plain
values only, so that a program which reads results loads neither NumPy nor the numba kernels. The JSON Schema is
generated from them; the docstrings below are its descriptions.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.json_schema import SkipJsonSchema

from maabo_dist.contract.conditions import Condition, Op, RuleKey
from maabo_dist.errors import FormatError

FORMAT: Final = "maabo-rules/1"
"""Name and version of the document's format."""

Part = Literal["train", "validation", "holdout"]
"""A part of the table's rows."""
Count = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Counts = dict[str, Count]
"""Rows of each class, by the name of the class."""
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


def _is_none(value: object) -> bool:
    return value is None


def _is_false(value: object) -> bool:
    return value is False


class _Record(BaseModel):
    # Fields that a newer version added are ignored on reading. The schema describes what this version writes.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        populate_by_name=True,
        use_attribute_docstrings=True,
        json_schema_extra={"additionalProperties": False},
    )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values, under the names of the document."""
        return self.model_dump(mode="json", by_alias=True)


class ConditionTest(_Record):
    """p-values of the hypothesis that the condition does not make the rule's class more frequent.

    Present only where conditions must be supported by the rows (`--literals supported`).
    """

    training: Share | None
    """On the rows that chose the condition, corrected for all conditions that could have been chosen."""
    validation: Share | None
    """On validation rows."""
    p: Share | None
    """Both combined by Fisher's method."""


_VALUES_OF_OPS = [
    {"properties": {"op": {"enum": [Op.AT_MOST, Op.ABOVE]}, "value": {"type": "number"}}},
    {"properties": {"op": {"enum": [Op.IS, Op.IS_NOT]}, "value": {"type": "string"}}},
    {"properties": {"op": {"enum": [Op.IS_MISSING, Op.IS_PRESENT]}, "value": {"type": "null"}}},
]


class ConditionRecord(_Record):
    """One condition on a column of the table. A rule needs all of its conditions."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "oneOf": _VALUES_OF_OPS})  # type: ignore[dict-item]

    feature: str
    """The table's column."""
    op: Op
    """The comparison."""
    value: float | str | None
    """A number for <= and >, a level for = and !=, null for missing and not missing."""
    or_missing: bool = Field(False, strict=True, exclude_if=_is_false, json_schema_extra={"const": True})
    """Rows where the column is missing satisfy the condition too. Left out where they do not."""
    test: ConditionTest | SkipJsonSchema[None] = Field(None, exclude_if=_is_none)

    @property
    def condition(self) -> Condition:
        """The condition without its test."""
        return Condition(self.feature, self.op, self.value, self.or_missing)


class _Statement:
    """The part of a record that holds conditions and the class that follows from them."""

    if TYPE_CHECKING:
        conditions: tuple[ConditionRecord, ...]
        label: str

    @property
    def premise(self) -> tuple[Condition, ...]:
        """The conditions without their tests."""
        return tuple(record.condition for record in self.conditions)

    @property
    def key(self) -> RuleKey:
        """The identity of the rule across runs."""
        return RuleKey.of(self.label, self.premise)


ClassName = Annotated[str, Field(validation_alias="class", serialization_alias="class")]


class SupportRecord(_Record):
    """How a rule performs on one part of the rows."""

    rows: Count
    """Rows of the part."""
    n: Count
    """Rows that the rule covers."""
    counts: Counts
    """Of these, the rows of each class."""
    precision: Share | None
    """Share of n that has the rule's class; null if n is 0."""
    recall: Share | None
    """Share of the class that the rule covers; null if the class has no rows."""
    lift: Annotated[float, Field(strict=True, ge=0)] | None
    """Precision divided by the share of the class among the rows of the part."""


class HoldoutRecord(SupportRecord):
    """How a rule performs on rows that the search never saw."""

    precision_low: Share | None
    """Lower end of the 95 % Wilson interval of the precision."""
    precision_high: Share | None
    """Upper end of the interval."""
    p: Share | None
    """Fisher's exact test, one-sided."""
    q: Share | None
    """p after the Benjamini–Hochberg correction over all rules of the document."""


class SimilarRule(_Record):
    """The rule of the document that is most similar to another one."""

    rule: str
    """Its id."""
    similarity: Share | None
    """Simpson coefficient of the two."""


class SourceRecord(_Record):
    """The tree that a rule was read from."""

    tree: Count
    """Number of the tree in the order of proposal, from 0."""
    subset: tuple[str, ...]
    """Names of its features."""
    depth: Annotated[int, Field(strict=True, ge=1)]
    """Its depth."""
    score: Share | None
    """Macro F1 on the validation rows."""


class DisplacedRecord(_Statement, _Record):
    """A reliable leaf that a rule made redundant."""

    text: str
    """Its conditions, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """Its conditions."""
    label: ClassName
    """The class it predicts."""
    n: Count
    """Training rows that it covers."""
    gini: Share
    """Weighted Gini index of these rows."""
    similarity: Share | None
    """Similarity to the rule."""


class StabilityRecord(_Record):
    """How often a rule is found again when other draws of the rows are mined: same class, same conditions.

    Thresholds may differ. null without `--repeats`.
    """

    share: Share | None
    """Share of the repeats that found it; null where no repeat was done."""
    returns: Count
    """Repeats that found it."""
    repeats: Count
    """Repeats that were done."""
    precision: Share | None
    """On rows that a repeat did not search, over all repeats that found the rule, each with its own thresholds."""


class RuleRecord(_Statement, _Record):
    """One rule with its evidence."""

    id: Annotated[str, Field(pattern=r"^R[1-9][0-9]*$")]
    """R1, R2, … in the order of selection."""
    text: str
    """The rule as a sentence with rounded numbers, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """All of them must hold."""
    label: ClassName
    """The class it predicts."""
    n: Count
    """Training rows that it covers."""
    counts: Counts
    """Of these, the rows of each class."""
    gini: Share
    """Weighted Gini index of these rows."""
    train: SupportRecord
    """On the training rows."""
    validation: SupportRecord
    """On the validation rows."""
    holdout: HoldoutRecord | None
    """On the held-out rows; null without `--holdout`."""
    unique: Count
    """Training rows that no other rule covers."""
    most_similar: SimilarRule | None
    """The rule of this document most similar to it; null if it is the only one."""
    source: SourceRecord
    """The tree it was read from."""
    displaced: tuple[DisplacedRecord, ...]
    """The best of the reliable leaves that this rule made redundant."""
    displaced_total: Count
    """How many of these there were."""
    dropped: tuple[ConditionRecord, ...]
    """Conditions of the rule's leaf that were dropped because the rows do not support them."""
    stability: StabilityRecord | None
    """How often it is found again; null without `--repeats`."""

    @property
    def supports(self) -> dict[Part, SupportRecord]:
        """The parts of the rows on which the rule was evaluated."""
        tested: dict[Part, SupportRecord] = {} if self.holdout is None else {"holdout": self.holdout}
        return {"train": self.train, "validation": self.validation, **tested}

    @property
    def best_evidence(self) -> SupportRecord:
        """The support on held-out rows, or on validation rows where none were held out."""
        return self.holdout or self.validation


class ConsensusRecord(_Statement, _Record):
    """A rule that most repeats found."""

    rule: str | None
    """Its id in `rules`; null where this run did not publish it."""
    text: str
    """The rule as a sentence, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """Each with the median threshold of the repeats that found the rule."""
    label: ClassName
    """The class it predicts."""
    rows: Count
    """Rows of the table that it covers: the median of the repeats."""
    stability: StabilityRecord
    """How often it is found again."""


class RepeatsRecord(_Record):
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


class PartSizes(_Record):
    """Rows of the parts of the split."""

    train: Count
    """Trees are grown on these."""
    validation: Count
    """These choose each tree's depth and score it."""
    holdout: Count
    """The search never sees these; 0 without `--holdout`."""


class DatasetInfo(_Record):
    """The table that was mined."""

    name: str
    """Name of the file or of the bundled table."""
    settings: dict[str, SettingValue | list[str]] | SkipJsonSchema[None] = Field(None, exclude_if=_is_none)
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


class SpaceInfo(_Record):
    """The feature subsets that trees may be grown on."""

    features: Count
    """D, the number of features, including probes."""
    subset_size: Count | Annotated[str, Field(pattern=r"^[0-9]+-[0-9]+$")]
    """D′, the features of one tree; a range such as 2-4 where sizes are mixed."""
    size: Annotated[int, Field(strict=True, ge=1)]
    """|Ω|, the number of subsets; exact, and often above 2^53, which some readers round."""


class SearchInfo(_Record):
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


class FunnelCounts(_Record):
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


class DroppingInfo(_Record):
    """What was dropped because the rows do not support it; null where all conditions are kept (`--literals paper`)."""

    conditions: Count
    """Conditions dropped from leaves that are reliable without them."""
    leaves: Count
    """Leaves dropped because they are not."""


class NoiseInfo(_Record):
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


class ResultDocument(_Record):
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
    partial: bool | SkipJsonSchema[None] = Field(None, exclude_if=_is_none)
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
