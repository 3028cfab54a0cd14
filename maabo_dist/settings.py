"""What a user may set. One model for the table, one for the mining; each field is stated here and nowhere else.

The command line builds its options from these fields, and `SearchPlan` says what the open ones (`None`) become for a
given table.
"""

import re
from operator import index
from typing import Annotated, Any, Literal, Self, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from maabo_dist.errors import SettingsError

MAX_DEPTH = 12
MAX_SUBSET_SIZE = 64
MIN_DEFAULT_TREES = 100
MAX_DEFAULT_TREES = 10_000
MAX_PROBES = 20_000
MAX_REPEATS = 1000


def _share_or_number(value: object) -> object:
    """`"50%"` stays text and is checked here; `"500"` becomes 500."""
    text = value.strip() if isinstance(value, str) else value
    if text is None or _counts(text):
        return text if text is None else int(text)
    try:
        share = float(text.removesuffix("%")) if isinstance(text, str) and text.endswith("%") else float("")
    except ValueError:
        raise ValueError("is neither a number of trees (1 or more) nor a share such as 50%") from None
    if not 0 < share <= 100:
        raise ValueError("is not a share of the space; use more than 0% and at most 100%")
    return text


def _counts(value: object) -> TypeGuard[int | str]:
    """Whether it is a whole number of at least 1, or the text of one."""
    if isinstance(value, str):
        return value.strip().isdecimal() and int(value) >= 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _number_or_all(value: object) -> object:
    if value is None or value == "all":
        return value
    if not _counts(value):
        raise ValueError("is neither a number (1 or more) nor all")
    return int(value)


def _number_or_word(value: object) -> object:
    if not isinstance(value, str) or value in {"mean", "median"}:
        return value
    try:
        return float(value)
    except ValueError:
        raise ValueError("is neither mean, median nor a number") from None


def _size_or_sizes(value: object) -> object:
    """`"2-4"` stays text; `"3"` and `"3-3"` become 3."""
    ends = re.fullmatch(r"\s*([0-9]+)\s*[-–]\s*([0-9]+)\s*", value) if isinstance(value, str) else None
    try:
        smallest, largest = (int(end) for end in ends.groups()) if ends else (_whole(value),) * 2
    except (TypeError, ValueError):
        raise ValueError("is neither a number of features nor a range such as 2-4") from None
    if smallest < 1:
        raise ValueError("input should be greater than or equal to 1")
    if largest > MAX_SUBSET_SIZE:
        raise ValueError(f"input should be less than or equal to {MAX_SUBSET_SIZE}")
    if smallest > largest:
        raise ValueError(f"is not a range; the smaller size comes first, as in {largest}-{smallest}")
    return smallest if smallest == largest else f"{smallest}-{largest}"


def _whole(value: Any) -> int:
    """A whole number, or the text of one."""
    whole = isinstance(value, str) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else index(value)


SubsetSize = Annotated[int | str, BeforeValidator(_size_or_sizes)]
Budget = Annotated[Annotated[int, Field(ge=1)] | str | None, BeforeValidator(_share_or_number)]
CountOrAll = Annotated[Annotated[int, Field(ge=1)] | Literal["all"] | None, BeforeValidator(_number_or_all)]
Cut = Annotated[Literal["mean", "median"] | float | None, BeforeValidator(_number_or_word)]


class SettingsModel(BaseModel):
    """What a user gives: checked, frozen, and with errors in the user's words."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Validate, with errors that name the option, the value and the allowed range."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        where = str(problem["loc"][0]) if problem["loc"] else ""
        option = f"--{where.replace('_', '-')} " if where else ""
        message = str(problem["msg"]).removeprefix("Value error, ")
        shown = f"{problem['input']!r}: " if where else ""
        line = f"{option}{shown}{message[0].lower()}{message[1:]}"
        lines.append(line if line.endswith(".") else f"{line}.")
    return "\n".join(dict.fromkeys(lines))


class TableSettings(SettingsModel):
    """How a table becomes columns."""

    target: str | None = Field(None, description="Column that holds the class.")
    target_above: Cut = Field(
        None, description="Make two classes of a numeric target: above and not above mean, median or a NUMBER."
    )
    target_quantiles: int | None = Field(
        None, ge=2, le=20, description="Make K classes of a numeric target, with equally many rows each."
    )
    include: tuple[str, ...] = Field(
        (), description="Use only these columns (repeat the option or separate by commas)."
    )
    exclude: tuple[str, ...] = Field(
        (), description="Leave these columns out (repeat the option or separate by commas)."
    )
    impute: Literal["median", "mean", "drop"] = Field(
        "median", description="What a missing number becomes; drop leaves out rows with any missing value."
    )
    missing_indicator: bool = Field(
        False, description="Add a feature 'COLUMN is missing' for columns with missing values."
    )
    max_levels: int = Field(50, ge=2, le=10_000, description="The most distinct texts that a column may have.")
    na_values: tuple[str, ...] = Field((), description="Further texts that mean a missing value, such as '?'.")

    @model_validator(mode="after")
    def _one_way_to_cut_the_target(self) -> Self:
        if self.target_above is not None and self.target_quantiles is not None:
            raise ValueError("--target-above and --target-quantiles exclude each other; give one of them.")
        return self


class MiningSettings(SettingsModel):
    """The method's parameters, with the paper's defaults. The paper's sign stands in parentheses."""

    subset_size: SubsetSize = Field(
        3, description="Features per tree (D′); a range such as 2-4 searches subsets of all these sizes."
    )
    max_depth: int = Field(5, ge=1, le=MAX_DEPTH, description="Deepest tree tried (p_max).")
    trees: Budget = Field(
        None,
        description="Trees to grow: a number, or a share of the space such as 50%. "
        f"By default half of the space, at least {MIN_DEFAULT_TREES} and at most {MAX_DEFAULT_TREES:,}.",
    )
    initial: int = Field(10, ge=1, description="Random trees before the search is guided (N_I).")
    alpha: float = Field(0.25, gt=0, lt=1, description="Share of the trees that count as high-scoring (α).")
    h: float = Field(0.5, gt=0, le=1, description="Probability given to mismatching subsets (h).")
    b: float = Field(0.5, ge=0.001, lt=1, description="Damping per mismatch (b); at least 0.001.")
    top_features: CountOrAll = Field(
        None, description="Candidates hold at least one of this many most used features (N_U); a number or all."
    )
    candidates: CountOrAll = Field(None, description="Candidates compared at each step (N_E); a number or all.")
    min_samples: int = Field(50, ge=1, description="Training rows a rule needs (β).")
    gini: float = Field(0.3, gt=0, le=1, description="Impurity a rule may have, as a share of the greatest (γ).")
    similarity: float = Field(0.7, gt=0, le=1, description="Rules this similar exclude each other (δ).")
    similarity_by: Literal["logic", "rows"] = Field(
        "logic", description="Compare rules by their conditions (the paper's way) or by the training rows they cover."
    )
    preset: Literal["auto", "paper"] = Field(
        "auto",
        description="paper is the paper's method to the letter; auto searches spaces that are too large to cover with "
        "the help of screens, and keeps only conditions that the rows support.",
    )
    seeded: float = Field(
        0.8, ge=0, le=1, description="Share of the initial trees that the screens choose; the rest is left to chance."
    )
    neighbours: float = Field(
        0.3, ge=0, le=1, description="Share of the candidates that are high-scoring subsets with one feature changed."
    )
    completions: float = Field(
        0.2, ge=0, le=1, description="Share of the candidates that complete a promising pair of features."
    )
    literals: Literal["supported", "paper"] | None = Field(
        None,
        description="Keep only conditions that the rows support, or all, as the paper does; by default the preset's.",
    )
    significance: float = Field(
        0.05, gt=0, lt=1, description="How strongly the rows must support a condition: its p-value, at most."
    )
    probes: int = Field(
        0,
        ge=0,
        le=MAX_PROBES,
        description="Permuted copies of columns that take part in the search, to tell from the rules that use one how "
        "many of the published rules are chance; as many as there are columns, or more, tell it best.",
    )
    strategy: Literal["maabo", "random", "exhaustive", "single"] = Field(
        "maabo", description="How subsets are chosen; single grows one tree on all features."
    )
    batch: int | None = Field(
        None, ge=1, le=100_000, description="Subsets proposed together; by default 1 for each 50 trees, at most 256."
    )
    in_flight: int = Field(1, ge=1, le=10_000, description="Batches that may be under way at once.")
    patience: int | None = Field(None, ge=1, description="Stop when this many trees in a row changed no rule.")
    time_limit: float | None = Field(
        None, gt=0, description="Stop after this many seconds; the result then depends on speed."
    )
    seed: int = Field(
        0, ge=0, le=2**32 - 1, description="Seed of the search, and of the split unless --split-seed is given."
    )
    split_seed: int | None = Field(
        None, ge=0, le=2**32 - 1, description="Seed of the split into training and validation rows."
    )
    test_size: float = Field(0.3, gt=0, lt=1, description="Share of the rows used for validation.")
    holdout: float = Field(
        0.0, ge=0, lt=1, description="Share of the rows that the search never sees, to test the rules on."
    )
    stratify: bool = Field(False, description="Keep the class shares equal in all parts of the split.")
    class_weight: Literal["balanced", "none"] = Field(
        "balanced", description="Give every class the same total weight, or none."
    )
    min_samples_leaf: int = Field(1, ge=1, description="Training rows that every leaf of a tree must keep.")

    @model_validator(mode="after")
    def _shares_add_up(self) -> Self:
        if self.neighbours + self.completions > 1:
            raise ValueError("--neighbours and --completions are shares of the same candidates: at most 1 together.")
        return self

    @property
    def subset_sizes(self) -> tuple[int, ...]:
        """The sizes that subsets may have, ascending."""
        smallest, _, largest = str(self.subset_size).partition("-")
        return tuple(range(int(smallest), int(largest or smallest) + 1))

    @property
    def whole_trees(self) -> bool:
        """Whether leaves of every depth are candidates for rules, and not those of the best depth alone.

        The best depth is that of the whole tree's predictions. A leaf may be right where the rest of its tree is not;
        with conditions that must be supported, a tree that is too deep does no harm.
        """
        return self.prunes

    @property
    def prunes(self) -> bool:
        """Whether conditions must be supported to stay."""
        return (self.literals or {"auto": "supported", "paper": "paper"}[self.preset]) == "supported"


class RepeatSettings(SettingsModel):
    """Whether a table is mined again on other draws of its rows, to see which rules come back."""

    repeats: int = Field(
        0,
        ge=0,
        le=MAX_REPEATS,
        description="Mine so many halves of the rows besides, to tell how often each rule comes back.",
    )
    consensus: float = Field(
        0.5, gt=0, le=1, description="Rules that come back in at least this share of the repeats are consensus rules."
    )
