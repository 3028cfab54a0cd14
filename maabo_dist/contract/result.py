"""The result document: everything that is reported about a mining run, as typed records and as JSON.

`maabo mine --json` prints it, run folders and the ledger keep it, and the HTTP API serves it. The records hold plain
values only, so that a program which reads results loads neither NumPy nor the numba kernels. The JSON Schema is
generated from them, with their docstrings as descriptions.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError
from pydantic.json_schema import SkipJsonSchema

from maabo_dist.contract.coverage import CoverageInfo
from maabo_dist.contract.document import Count, Record, SettingValue, Sha256, Share, is_none
from maabo_dist.contract.rules import RepeatsRecord, RuleRecord
from maabo_dist.contract.selection import CertificateInfo, DroppingInfo, FunnelCounts, MissingClassRecord, NoiseInfo
from maabo_dist.errors import FormatError

# Name and version of the document's format.
FORMAT: Final = "maabo-rules/1"


class StopReason(StrEnum):
    """Why a search ended.

    `budget`: all planned trees were grown. `exhausted`: every subset of the space has a tree. `patience`: no new rule
    for as many trees as `patience` allows. `time`: the time limit was reached. `asked`: the program's callback stopped
    it. `interrupted`: Ctrl-C. `running`: it has not ended.
    """

    BUDGET = "budget", "all planned trees were grown"
    EXHAUSTED = "exhausted", "every subset of the space has a tree"
    PATIENCE = "patience", "no new rule for as many trees as --patience allows"
    TIME = "time", "the time limit was reached"
    REQUESTED = "asked", "stopped by the program"
    INTERRUPTED = "interrupted", "stopped by Ctrl-C"
    RUNNING = "running", "the search is still running"

    # A human-readable phrase; every member must have one.
    explanation: str

    def __new__(cls, value: str, explanation: str) -> Self:
        """Make a member: its value in documents, and the explanation."""
        member = str.__new__(cls, value)
        member._value_, member.explanation = value, explanation
        return member

    @property
    def cut_short(self) -> bool:
        """True if the search was stopped by hand."""
        return self in {StopReason.REQUESTED, StopReason.INTERRUPTED}


class PartSizes(Record):
    """Rows of the parts of the split.

    Attributes
    ----------
    train : int
        Trees are grown on these.
    validation : int
        These choose each tree's depth and score it.
    holdout : int
        The search never sees these; 0 without `--holdout`.
    """

    train: Count
    validation: Count
    holdout: Count


class ColumnInfo(Record):
    """What all rows of a dataset have in one column.

    Attributes
    ----------
    name : str
        Name of the column.
    missing : int
        Rows without a value, or with an infinite one.
    smallest : float, str or None
        The smallest number, or the first date; null for text.
    largest : float, str or None
        The largest number, or the last date; null for text.
    distinct : int or None
        The number of levels of text; null for numbers and dates, and if there are more than 1,000.
    levels : dict of str to int
        Rows of the most frequent levels, at most 20; empty if `distinct` is null.
    """

    name: str
    missing: Count
    smallest: float | str | None
    largest: float | str | None
    distinct: Count | None
    levels: dict[str, Count]


class SampleInfo(Record):
    """The sample of a table that was searched. The evidence for rules is of all rows.

    Attributes
    ----------
    rows : int
        Rows of the sample.
    of : int
        Rows of the table that have a class.
    rates : dict of str to float
        The share of the training and validation rows of each class that was drawn.
    files : int
        Files of the table; 0 if it was in memory.
    checksum : str
        64 bits, in hexadecimal, that are the same for the same rows in any order and any number of files.
    """

    rows: Count
    of: Count
    rates: dict[str, Share]
    files: Count
    checksum: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class DatasetInfo(Record):
    """The table that was mined.

    Attributes
    ----------
    name : str
        Name of the file or of the bundled table.
    settings : dict of str to bool, int, float, str, list of str or None
        Every setting of the table's preparation, including defaults. Left out where they are not known.
    rows : int
        Rows that were used.
    features : int
        Features made from the columns.
    target : str
        The predicted column or statement, as shown to people.
    classes : tuple of str
        Names of the classes.
    fingerprint : str
        SHA-256 of the prepared columns.
    base_rates : dict of str to float or None
        Share of each class among the training rows.
    parts : PartSizes
        Rows of the parts of the split.
    design_effect : float
        Rows that are worth one independent row in tests and intervals. Left out where each row is a case of its own.
    sample : SampleInfo
        The sample that was searched. Left out where all rows were.
    columns : tuple of ColumnInfo
        What all rows have in each column that was read. Left out where all rows were searched.
    """

    name: str
    settings: dict[str, SettingValue] | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    rows: Count
    features: Count
    target: str
    classes: Annotated[tuple[str, ...], Field(min_length=2, json_schema_extra={"uniqueItems": True})]
    fingerprint: Sha256
    base_rates: dict[str, Share | None]
    parts: PartSizes
    design_effect: Annotated[float, Field(ge=1)] | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    sample: SampleInfo | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    columns: tuple[ColumnInfo, ...] | SkipJsonSchema[None] = Field(None, exclude_if=is_none)


class SpaceInfo(Record):
    """The feature subsets that trees may be grown on.

    Attributes
    ----------
    features : int
        D, the number of features, including probes.
    subset_size : int or str
        D′, the features of one tree; a range such as 2-4 where sizes are mixed.
    size : int
        |Ω|, the number of subsets; exact, and often above 2^53, which some readers round.
    """

    features: Count
    subset_size: Count | Annotated[str, Field(pattern=r"^[0-9]+-[0-9]+$")]
    size: Annotated[int, Field(strict=True, ge=1)]


class Completeness(Record):
    """What the search counted completely, and what it sampled.

    Attributes
    ----------
    pairs : int
        Pairs of features that were counted, each feature at three levels: all of them, or none.
    triples : int
        Triples that were counted: all of them, or none.
    no_other_triple : bool or None
        True if no triple without a tree reaches the weakest published finding of a class at these levels. Null if
        triples were not counted, or not all of the strongest have a tree.
    all_subsets : bool
        True if a tree was grown on every subset.
    statement : str
        The same in words.
    """

    pairs: Annotated[int, Field(strict=True, ge=0)]
    triples: Annotated[int, Field(strict=True, ge=0)]
    no_other_triple: bool | None = None
    all_subsets: bool
    statement: str


class SearchInfo(Record):
    """The plan of the search, with open settings resolved for this table, and its outcome.

    Attributes
    ----------
    strategy : 'maabo' or 'random' or 'exhaustive' or 'single'
        How subsets are chosen.
    planned : int
        Trees to grow.
    initial : int
        Trees grown at random before scores guide the search (N_I).
    batch : int
        Subsets proposed together.
    in_flight : int
        Batches that may be evaluated at the same time.
    top_features : int
        N_U; the number of features means no restriction.
    candidates : int or None
        N_E; null compares every subset not yet grown.
    explained : tuple of str
        What was chosen for this table and why, one line each, human-readable. `--explain` prints it.
    trees : int
        Trees grown.
    leaves : int
        Leaves of these.
    best_score : float or None
        Best macro F1 on the validation rows; null without trees.
    seconds : float
        Wall-clock time of the search.
    stopped : StopReason
        Why the search ended (see `StopReason`), or `running` if it has not.
    completeness : Completeness
        What was counted completely and what was sampled. Left out by earlier versions.
    """

    strategy: Literal["maabo", "random", "exhaustive", "single"]
    planned: Count
    initial: Count
    batch: Count
    in_flight: Count
    top_features: Count
    candidates: Annotated[int, Field(strict=True, ge=1)] | None
    explained: tuple[str, ...]
    trees: Count
    leaves: Count
    best_score: Share | None
    seconds: Annotated[float, Field(strict=True, ge=0)]
    stopped: StopReason
    completeness: Completeness | SkipJsonSchema[None] = Field(None, exclude_if=is_none)


class ResultDocument(Record):
    """Rules mined from a table: what `maabo mine --json` prints and `--out` writes to rules.json.

    Attributes
    ----------
    format : 'maabo-rules/1'
        Name and version of this format.
    version : str
        Version of the program that wrote it.
    digest : str
        SHA-256 over the canonical rules: equal rules, equal digest.
    dataset : DatasetInfo
        The table that was mined.
    settings : dict of str to bool, int, float, str, list of str or None
        Every mining setting, including defaults. docs/cli.md describes each.
    space : SpaceInfo
        The feature subsets that trees may be grown on.
    search : SearchInfo
        The search.
    funnel : FunnelCounts
        How many leaves passed each filter.
    dropping : DroppingInfo or None
        What was dropped for lack of support; null where all conditions are kept.
    noise : NoiseInfo or None
        The estimate from probes; null without `--probes`.
    certificate : CertificateInfo or None
        How rules were certified; null with `--preset paper`.
    missing_classes : tuple of MissingClassRecord
        Classes without a finding, and why; with `--for-class`, those of its classes. Empty with `--preset paper`.
    no_rules_reason : str or None
        Why there is no rule at all, for people; null where there are rules.
    repeats : RepeatsRecord or None
        What other draws of the rows found again; null without `--repeats`.
    notes : tuple of str
        Remarks for the reader, about the table, the plan and the end of the search.
    rules : tuple of RuleRecord
        In the order of selection.
    coverage : CoverageInfo
        What the rules explain together. Left out while the search is running.
    partial : bool or None
        Over HTTP: true if the search was still running when the rules were mined.
    """

    format: Literal["maabo-rules/1"]
    version: str
    digest: Sha256
    dataset: DatasetInfo
    settings: dict[str, SettingValue]
    space: SpaceInfo
    search: SearchInfo
    funnel: FunnelCounts
    dropping: DroppingInfo | None
    noise: NoiseInfo | None
    certificate: CertificateInfo | None
    missing_classes: tuple[MissingClassRecord, ...]
    no_rules_reason: str | None
    repeats: RepeatsRecord | None
    notes: tuple[str, ...]
    rules: tuple[RuleRecord, ...]
    coverage: CoverageInfo | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    partial: bool | SkipJsonSchema[None] = Field(None, exclude_if=is_none)

    @property
    def running(self) -> bool:
        """True if these are the rules of a search that has not ended."""
        return self.search.stopped is StopReason.RUNNING

    @property
    def lists_findings(self) -> bool:
        """True if the rules are certified findings, False if GS-MRM selected them."""
        return self.certificate is not None

    @property
    def noun(self) -> str:
        """What texts call a rule of this document: `finding` or `rule`."""
        return "finding" if self.lists_findings else "rule"

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
        format_ = document.get("format") if isinstance(document, Mapping) else None
        if format_ != FORMAT:
            raise FormatError(
                f"{source} is not a result document: its format is {format_!r}, not {FORMAT!r}. "
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
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{source} is not JSON in UTF-8 ({error}).") from error
        return cls.parse(document, source)

    def to_text(self) -> str:
        """Return the document as JSON text that ends with a line break."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of the document, draft 2020-12."""
    schema = ResultDocument.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:maabo:rules:1", **schema}
