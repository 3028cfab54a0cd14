"""The settings that users can change: one model for the table, one for the mining, one for the repeats.

Each field is defined here and nowhere else: the command line builds its options, and the classes their documentation,
from the fields. `SearchPlan` resolves defaults (`None`) for a given table.
"""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from maabo_dist._util.setting_types import (
    Budget,
    Certify,
    ColumnGroups,
    CountOrAll,
    Cut,
    SubsetSize,
    check_column_limits,
)
from maabo_dist._util.settings_model import SettingsModel

MAX_DEPTH = 12
MIN_DEFAULT_TREES = 100
MAX_DEFAULT_TREES = 10_000
MAX_PROBES = 20_000
MAX_REPEATS = 1000
PAPER_LIMITS = {"min_samples": 50, "gini": 0.3, "holdout": 0.0}

# The content of a table column: numbers, two text values (none missing), text, or what can only be excluded.
ColumnKind = Literal["number", "pair", "level", "other"]


class TableSettings(SettingsModel):
    """The target of a table, its columns, and the treatment of missing values.

    Examples
    --------
    >>> TableSettings(target="price", target_above="median", exclude=("id",)).impute
    'median'
    """

    target: str | None = Field(None, description="Column that holds the class.")
    target_above: Cut = Field(
        None,
        description="Split a numeric target into two classes: above, and not above, the mean, the median or a NUMBER.",
    )
    target_quantiles: int | None = Field(
        None, ge=2, le=20, description="Split a numeric target into N classes with equally many rows."
    )
    include: tuple[str, ...] = Field(
        (), description="Use only these columns (repeat the option or separate by commas)."
    )
    exclude: tuple[str, ...] = Field(
        (), description="Leave these columns out (repeat the option or separate by commas)."
    )
    group: str | None = Field(
        None,
        description="Column whose values say which rows belong together, such as a patient's number; it is not used as "
        "a feature. Splits and shuffles keep groups whole.",
    )
    time: str | None = Field(
        None,
        description="Column with the date, the time or a number that orders the rows: the latest are held out. "
        "Only the recurring parts of a date, such as the weekday, are features.",
    )
    weight: str | None = Field(
        None,
        description="Column with the weight of each row: numbers of rows if all are whole numbers, otherwise sampling "
        "weights. It is not used as a feature.",
    )
    impute: Literal["median", "mean", "drop"] = Field(
        "median",
        description="Replacement for missing numbers with --preset paper; drop leaves out every row with a missing "
        "value.",
    )
    missing_indicator: bool = Field(
        False,
        description="Add a feature 'COLUMN is missing' for columns with missing values; --preset auto needs none.",
    )
    max_levels: int = Field(
        50, ge=2, le=10_000, description="Levels of a text column to keep; the others are one level."
    )
    na_values: tuple[str, ...] = Field((), description="More texts that stand for a missing value, such as '?'.")

    @model_validator(mode="after")
    def _check_target_options(self) -> Self:
        if self.target_above is not None and self.target_quantiles is not None:
            raise ValueError("--target-above and --target-quantiles cannot be used together.")
        return self


class MiningSettings(SettingsModel):
    """The parameters of a search and of the choice of its rules; the paper's symbols are in parentheses.

    Examples
    --------
    >>> settings = MiningSettings(subset_size="2-4", trees="50%", seed=7)
    >>> settings.subset_sizes
    (2, 3, 4)
    >>> MiningSettings.parse({"max_depth": 99})
    Traceback (most recent call last):
    maabo_dist.errors.SettingsError: --max-depth 99: must be less than or equal to 12.
    """

    subset_size: SubsetSize = Field(
        3, description="Features per tree (D′); a range such as 2-4 includes subsets of all these sizes."
    )
    always: tuple[str, ...] = Field(
        (), description="Use these columns in every subset (repeat the option or separate by commas)."
    )
    one_of: ColumnGroups = Field(
        (),
        description="Use at most one of these columns, separated by commas, in a subset; repeat it for other groups.",
    )
    max_depth: int = Field(5, ge=1, le=MAX_DEPTH, description="Maximum depth of a tree (p_max).")
    trees: Budget = Field(
        None,
        description="Trees to grow: a number, or a share of all subsets such as 50%. "
        f"By default half of all subsets, at least {MIN_DEFAULT_TREES} and at most {MAX_DEFAULT_TREES:,}; all with "
        "--strategy exhaustive.",
    )
    initial: int = Field(10, ge=1, description="Random trees before the search is guided (N_I).")
    alpha: float = Field(0.25, gt=0, lt=1, description="Share of the trees that count as high-scoring (α).")
    h: float = Field(0.5, gt=0, le=1, description="Probability given to mismatching subsets (h).")
    b: float = Field(0.5, ge=0.001, lt=1, description="Damping per mismatch (b); at least 0.001.")
    top_features: CountOrAll = Field(
        None, description="Restrict candidates to subsets with one of the N most used features (N_U); a number or all."
    )
    candidates: CountOrAll = Field(None, description="Candidates compared at each step (N_E); a number or all.")
    min_samples: int | None = Field(
        None,
        ge=1,
        description="Minimum number of training rows of a rule (β). By default 50 with --preset paper, otherwise the "
        "fewest that can be certified.",
    )
    gini: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Maximum impurity of a rule, as a share of the greatest possible (γ). By default 0.3 with --preset "
        "paper; otherwise there is no limit.",
    )
    min_precision: float = Field(0.0, ge=0, le=1, description="Minimum precision of a finding.")
    min_lift: float = Field(1.0, ge=1, description="Minimum lift of a finding.")
    for_class: tuple[str, ...] = Field(
        (), description="Show findings of these classes only (repeat the option or separate by commas)."
    )
    prefer: Literal["balanced", "precision", "coverage"] = Field(
        "balanced", description="Prefer findings that are more precise, or findings that cover more rows."
    )
    max_rules: int | None = Field(None, ge=1, description="Maximum number of findings; 15 by default.")
    all: bool = Field(False, description="Show every certified rule instead of a short list.")
    certify: Certify = Field(
        "auto",
        description="Searches on shuffled labels that certify rules; auto runs them if they can decide something in a "
        "few seconds, off relies on an analytic bound.",
    )
    max_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Largest adjusted p-value of a finding. By default 0.05, with a margin; with a larger value, "
        "some findings may be due to chance.",
    )
    similarity: float = Field(
        0.7, gt=0, le=1, description="Publish only one of two rules that are at least this similar (δ)."
    )
    similarity_by: Literal["logic", "rows"] = Field(
        "logic",
        description="Compare rules by their conditions, as in the paper, or by the training rows that they cover.",
    )
    preset: Literal["auto", "paper"] = Field(
        "auto",
        description="auto publishes findings: few rules, certified against everything the search tried, on different "
        "rows. paper follows the paper exactly.",
    )
    seeded: float = Field(
        0.8, ge=0, le=1, description="Share of the initial trees that the screens choose; the rest are random."
    )
    neighbours: float = Field(
        0.3, ge=0, le=1, description="Share of the candidates that are high-scoring subsets with one feature changed."
    )
    completions: float = Field(
        0.2, ge=0, le=1, description="Share of the candidates that complete a promising pair of features."
    )
    literals: Literal["supported", "paper"] | None = Field(
        None,
        description="Keep only supported conditions, or all, as in the paper; by default it depends on the preset.",
    )
    significance: float = Field(0.05, gt=0, lt=1, description="Maximum p-value of a supported condition.")
    probes: int = Field(
        0,
        ge=0,
        le=MAX_PROBES,
        description="Add this many permuted copies of columns to the search. Rules that use one show how many of the "
        "published rules may be chance; the estimate is best with at least as many probes as columns.",
    )
    strategy: Literal["maabo", "random", "exhaustive", "single"] = Field(
        "maabo", description="How to choose subsets; single grows one tree on all features."
    )
    batch: int | None = Field(
        None, ge=1, le=100_000, description="Subsets proposed together; by default 1 for each 50 trees, at most 256."
    )
    in_flight: int = Field(1, ge=1, le=10_000, description="Maximum number of batches in progress at the same time.")
    complete: Literal["auto", "pairs", "triples"] = Field(
        "auto",
        description="Count all pairs of features before the search, or all triples too; by default triples if that "
        "takes no longer than the search.",
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Stop after this many trees in a row without a new rule: one on other features or directions "
        "that would be published, as far as the analytic bound certifies it.",
    )
    time_limit: float | None = Field(
        None, gt=0, description="Stop after this many seconds; the result then depends on the speed of the machine."
    )
    seed: int = Field(
        0, ge=0, le=2**32 - 1, description="Seed of the search, and of the split unless --split-seed is given."
    )
    split_seed: int | None = Field(
        None, ge=0, le=2**32 - 1, description="Seed of the split into training and validation rows."
    )
    test_size: float = Field(0.3, gt=0, lt=1, description="Share of the rows used for validation.")
    holdout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Share of the rows to keep out of the search and test the rules on. By default 0 with --preset "
        "paper; otherwise a fifth of the rows of tables with at least 1,000.",
    )
    holdout_by: Literal["time", "random"] = Field(
        "time", description="With --time, hold out the latest rows, or random ones."
    )
    stratify: bool = Field(False, description="Keep the class shares equal in all parts of the split.")
    class_weight: Literal["balanced", "none"] = Field(
        "balanced", description="Give every class the same total weight, or none."
    )
    min_samples_leaf: int = Field(1, ge=1, description="Minimum number of training rows in a leaf.")

    @model_validator(mode="before")
    @classmethod
    def _fill_in_paper(cls, values: Any) -> Any:
        """Fill in the paper's limits where its preset is set."""
        if not isinstance(values, dict) or values.get("preset") != "paper":
            return values
        return values | {name: value for name, value in PAPER_LIMITS.items() if values.get(name) is None}

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.neighbours + self.completions > 1:
            raise ValueError("--neighbours and --completions are shares of the same candidates: at most 1 together.")
        return self

    @model_validator(mode="after")
    def _check_column_limits(self) -> Self:
        if self.strategy == "single" and self.names_columns:
            raise ValueError("--strategy single uses all features; --always and --one-of need another strategy.")
        check_column_limits(self.always, self.one_of, self.subset_sizes[-1])
        return self

    @property
    def subset_sizes(self) -> tuple[int, ...]:
        """The possible sizes of subsets, ascending."""
        smallest, _, largest = str(self.subset_size).partition("-")
        return tuple(range(int(smallest), int(largest or smallest) + 1))

    @property
    def names_columns(self) -> bool:
        """True if subsets are limited by the columns that they have."""
        return bool(self.always or self.one_of)

    @property
    def publishes_findings(self) -> bool:
        """True if rules are certified, grouped by their rows and chosen; False if GS-MRM selects them."""
        return self.preset == "auto" and self.literals != "paper"

    @property
    def by_bounds(self) -> bool:
        """True if leaves that differ in a threshold are different leaves."""
        return self.publishes_findings or self.similarity_by == "rows"

    @property
    def whole_trees(self) -> bool:
        """True if leaves of every depth are candidates for rules, and not only those of the best depth.

        The best depth is that of the whole tree's predictions. A leaf may be right where the rest of its tree is not;
        if conditions must be supported, a tree that is too deep does no harm.
        """
        return self.prunes

    @property
    def prunes(self) -> bool:
        """True if unsupported conditions are removed from rules."""
        return (self.literals or {"auto": "supported", "paper": "paper"}[self.preset]) == "supported"


class RepeatSettings(SettingsModel):
    """Repeated mining of random halves of the rows, to see which rules come back.

    Examples
    --------
    >>> RepeatSettings(repeats=20).consensus
    0.5
    """

    repeats: int = Field(
        0,
        ge=0,
        le=MAX_REPEATS,
        description="Also mine this many random halves of the rows, to see how often each rule comes back.",
    )
    consensus: float = Field(
        0.5, gt=0, le=1, description="Rules that come back in at least this share of the repeats are consensus rules."
    )
