"""What to plant in a generated table, and what hides it. Each field is stated here and nowhere else."""

from math import floor
from typing import Annotated, Self

from pydantic import Field, model_validator

from maabo_dist.settings import SettingsModel

LARGEST_RULE = 0.6
"""Of the rows left to it, a conjunction may cover this share; above it, its literals would say next to nothing."""

_ROUNDING = 1e-9

Size = Annotated[int, Field(ge=1, le=6)]
Share = Annotated[float, Field(gt=0, lt=1)]


class Recipe(SettingsModel):
    """A table with planted rules. The same recipe gives the same table."""

    rows: int = Field(2000, ge=20, le=10_000_000, description="Rows of the table.")
    features: int = Field(
        100, ge=2, le=1_000_000, description="Columns beside the class: those of the rules, decoys and noise."
    )
    categorical: float = Field(0.0, ge=0, le=1, description="Share of the columns that hold text of 3 to 6 levels.")
    missing: float = Field(
        0.0, ge=0, le=0.5, description="Share of the cells that are missing, in columns of rules as elsewhere."
    )
    decoys: int = Field(0, ge=0, description="Columns that decide nothing but are correlated with one that does.")
    decoy_correlation: float = Field(0.9, gt=0, lt=1, description="How strongly, before values are cut and scaled.")
    classes: int = Field(2, ge=2, le=10, description="Classes.")
    imbalance: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of the largest class outside of the rules; the others are equal. By default all are.",
    )
    background_noise: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the rows outside of the rules that get a class by chance; the rest get the largest.",
    )
    conjunctions: tuple[Size, ...] = Field(
        (),
        description="Conditions of each planted conjunction, such as 2,3,3. "
        "By default 2,3 where neither --xor nor --parity is given.",
    )
    coverage: tuple[Share, ...] = Field(
        (),
        max_length=2,
        description="Share of the rows that a conjunction covers, or two to draw it between. "
        "By default 0.1, or less where the conjunctions would cover more than half of the rows together.",
    )
    xor: int = Field(0, ge=0, le=100, description="Pairs of columns whose XOR decides the class: four rules each.")
    parity: int = Field(0, ge=0, le=100, description="Triples whose parity decides the class: eight rules each.")
    xor_share: float = Field(
        1.0, gt=0, le=1, description="Share of the rows that the XOR and parity structures divide among them."
    )
    label_noise: float = Field(0.05, ge=0, lt=0.5, description="Share of the rows in a rule that get another class.")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Seed of all that is drawn.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Conditions of each conjunction, settled."""
        return self.conjunctions or (() if self.structures else (2, 3))

    @property
    def structures(self) -> int:
        """XOR and parity structures."""
        return self.xor + self.parity

    @property
    def gated(self) -> bool:
        """Whether a column of its own says which rows belong to which XOR or parity structure."""
        return self.structures > 1 or (self.structures == 1 and self.xor_share < 1)

    @property
    def informative(self) -> int:
        """Columns that planted rules are made of; no two structures share one but the gate."""
        return sum(self.sizes) + 2 * self.xor + 3 * self.parity + self.gated

    @property
    def text_columns(self) -> int:
        """Columns of text, decoys of such columns aside."""
        return round(self.categorical * self.features)

    @property
    def coverages(self) -> tuple[float, float]:
        """The least and the greatest share of the rows for a conjunction, settled."""
        settled = self.coverage or (min(0.1, 0.5 / max(1, len(self.sizes))),)
        return settled[0], settled[-1]

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
                f"--features {self.features} is too few: the rules need {self.informative} and --decoys {self.decoys}. "
                f"Give at least {needed}, or plant less."
            )
        most = self.features - self.decoys - (self.informative - sum(self.sizes))
        if self.text_columns > most:
            raise ValueError(
                f"--categorical {self.categorical:g} asks for {self.text_columns} text columns; XOR and parity take "
                f"numbers, and decoys what they imitate, which leaves {most}. Give a smaller share or more --features."
            )
        return self

    @model_validator(mode="after")
    def _coverage_is_reachable(self) -> Self:
        low, high = self.coverages
        most = LARGEST_RULE / (1 + LARGEST_RULE * max(0, len(self.sizes) - 1))
        if low > high:
            raise ValueError(f"--coverage {low:g},{high:g} ends below its start. Give the smaller share first.")
        if self.sizes and high > most + _ROUNDING:
            raise ValueError(
                f"--coverage {high:g} cannot be reached by {len(self.sizes)} conjunctions that do not overlap; the "
                f"most is {floor((most + _ROUNDING) * 1000) / 1000:g}. Give a smaller share or fewer --conjunctions."
            )
        if self.sizes and low * self.rows < 1:
            raise ValueError(f"--coverage {low:g} of {self.rows} rows is less than one row. Give more --rows.")
        return self

    @model_validator(mode="after")
    def _largest_class_is_largest(self) -> Self:
        if self.imbalance is not None and self.imbalance < 1 / self.classes:
            raise ValueError(
                f"--imbalance {self.imbalance:g} is no largest share of {self.classes} classes. "
                f"Give at least {1 / self.classes:.3g}, or leave it out."
            )
        return self
