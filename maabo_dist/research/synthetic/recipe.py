"""`Recipe`: the settings of a generated table, with the rules to plant and the noise to hide them in."""

from math import floor
from typing import Annotated, Self

from pydantic import Field, model_validator

from maabo_dist._util.settings_model import SettingsModel

# The largest share of the rows left to it that a conjunction may cover; above it, its conditions say very little.
MAX_RULE_SHARE = 0.6

_ROUNDING = 1e-9

Size = Annotated[int, Field(ge=1, le=6)]
Share = Annotated[float, Field(gt=0, lt=1)]


class Recipe(SettingsModel):
    """A table with planted rules. The same recipe gives the same table."""

    rows: int = Field(2000, ge=20, le=10_000_000, description="Rows of the table.")
    features: int = Field(
        100, ge=2, le=1_000_000, description="Columns without the class: those of the rules, decoys and noise."
    )
    categorical: float = Field(0.0, ge=0, le=1, description="Share of the columns that hold text with 3 to 6 levels.")
    missing: float = Field(0.0, ge=0, le=0.5, description="Share of the cells that are missing, in all columns.")
    decoys: int = Field(
        0, ge=0, description="Columns that do not decide the class but are correlated with one that does."
    )
    decoy_correlation: float = Field(
        0.9, gt=0, lt=1, description="Correlation of a decoy with its original, before values are cut and scaled."
    )
    classes: int = Field(2, ge=2, le=10, description="Number of classes.")
    imbalance: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of the largest class outside of the rules; the others are equal. By default all are equal.",
    )
    background_noise: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the rows outside of the rules that get a random class; the rest get the largest one.",
    )
    conjunctions: tuple[Size, ...] = Field(
        (),
        description="Number of conditions of each planted conjunction, such as 2,3,3. "
        "By default 2,3 if neither --xor nor --parity is given.",
    )
    coverage: tuple[Share, ...] = Field(
        (),
        max_length=2,
        description="Share of the rows that a conjunction covers, or two shares to draw it between. "
        "By default 0.1, or less if the conjunctions would cover more than half of the rows together.",
    )
    xor: int = Field(
        0, ge=0, le=100, description="Number of pairs of columns whose XOR decides the class: four rules each."
    )
    parity: int = Field(
        0, ge=0, le=100, description="Number of triples of columns whose parity decides the class: eight rules each."
    )
    xor_share: float = Field(
        1.0, gt=0, le=1, description="Share of the rows that the XOR and parity structures cover together."
    )
    label_noise: float = Field(
        0.05, ge=0, lt=0.5, description="Share of the rows covered by a rule that get another class."
    )
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Random seed.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of conditions of each conjunction, with the default applied."""
        return self.conjunctions or (() if self.structures else (2, 3))

    @property
    def structures(self) -> int:
        """Number of XOR and parity structures."""
        return self.xor + self.parity

    @property
    def gated(self) -> bool:
        """True if a further column selects the rows of each XOR and parity structure."""
        return self.structures > 1 or (self.structures == 1 and self.xor_share < 1)

    @property
    def informative(self) -> int:
        """Number of columns in planted rules; structures share none of them except the gate."""
        return sum(self.sizes) + 2 * self.xor + 3 * self.parity + self.gated

    @property
    def text_columns(self) -> int:
        """Number of text columns, without decoys of them."""
        return round(self.categorical * self.features)

    @property
    def coverages(self) -> tuple[float, float]:
        """The smallest and the largest share of the rows of a conjunction, with the default applied."""
        shares = self.coverage or (min(0.1, 0.5 / max(1, len(self.sizes))),)
        return shares[0], shares[-1]

    @property
    def base_shares(self) -> tuple[float, ...]:
        """Share of each class among the rows outside of all rules; the first is the largest."""
        largest = 1 / self.classes if self.imbalance is None else self.imbalance
        others = self.background_noise * (1 - largest) / (self.classes - 1)
        return (1 - others * (self.classes - 1), *(others for _ in range(self.classes - 1)))

    @model_validator(mode="after")
    def _columns_suffice(self) -> Self:
        needed = self.informative + self.decoys
        if needed > self.features:
            raise ValueError(
                f"--features {self.features} is too few: the rules need {self.informative} columns and "
                f"--decoys {self.decoys}. Give at least {needed}, or plant fewer rules."
            )
        available = self.features - self.decoys - (self.informative - sum(self.sizes))
        if self.text_columns > available:
            raise ValueError(
                f"--categorical {self.categorical:g} asks for {self.text_columns} text columns, but only "
                f"{available} can be text: XOR and parity need numbers, and decoys have the kind of their original. "
                "Give a smaller share or more --features."
            )
        return self

    @model_validator(mode="after")
    def _coverage_is_reachable(self) -> Self:
        low, high = self.coverages
        highest = MAX_RULE_SHARE / (1 + MAX_RULE_SHARE * max(0, len(self.sizes) - 1))
        if low > high:
            raise ValueError(f"--coverage {low:g},{high:g} ends below its start. Give the smaller share first.")
        if self.sizes and high > highest + _ROUNDING:
            raise ValueError(
                f"--coverage {high:g} cannot be reached by {len(self.sizes)} conjunctions that do not overlap. The "
                f"maximum is {floor((highest + _ROUNDING) * 1000) / 1000:g}; lower it, or plant fewer --conjunctions."
            )
        if self.sizes and low * self.rows < 1:
            raise ValueError(f"--coverage {low:g} of {self.rows} rows is less than one row. Give more --rows.")
        return self

    @model_validator(mode="after")
    def _largest_class_is_largest(self) -> Self:
        if self.imbalance is not None and self.imbalance < 1 / self.classes:
            raise ValueError(
                f"--imbalance {self.imbalance:g} is too small for the largest of {self.classes} classes. "
                f"Give at least {1 / self.classes:.3g}, or omit it."
            )
        return self
