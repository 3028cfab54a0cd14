"""Generated tables: `generate` returns the table and the truth of a recipe, `draw` further rows of the same kind.

    columns of rules, complete ──► redrawn where rules collide ──► classes ──► decoys, noise ──► missing cells

The class of a row is chosen before cells go missing: a missing cell hides the reason for the class but does not change
it. Missing cells of XOR columns therefore carry no information, and a rule is as pure as planted among the rows where
its columns are present, but covers fewer rows.

Rows come in batches, each with its own random numbers. Batch 0 is the table; the others are fresh rows that follow the
same rules.

The truth is a JSON file next to the table, which the scorer reads. It can also be written by hand for a table from
elsewhere; it then has no recipe, and no fresh rows can be drawn.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.cells import levels
from maabo_dist.errors import FormatError, SettingsError
from maabo_dist.research.synthetic.layout import Kind, Latent, Layout, Planting, lay_out
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.rules.matching import Mask, condition_holds

FORMAT: Final = "maabo-truth/1"

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

_VALUES = {Op.AT_MOST: float, Op.ABOVE: float, Op.IS: str, Op.IS_NOT: str, Op.IS_MISSING: None, Op.IS_PRESENT: None}


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True)


class PlantedRule(_Document):
    """A rule planted in the table, with its coverage and precision there."""

    id: Name  # P1, P2, …: where two rules cover a row, the earlier decided its class
    structure: Name  # `conjunction 1`, `xor 1`, `parity 1`, …
    conditions: tuple[Condition, ...] = Field(min_length=1)  # a row does not satisfy a condition on a missing cell
    label: str = Field(alias="class")
    n: Count  # the number of rows that it covers
    coverage: Share  # the share of the rows that it covers
    precision: Share | None  # the share of these rows that have its class; None if it covers none

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        for condition in self.conditions:
            kind = _VALUES[condition.op]
            if condition.value is not None if kind is None else not isinstance(condition.value, kind):
                raise ValueError(f"{self.id}: {condition.op.value!r} does not fit {condition.value!r}")
        return self


class Truth(_Document):
    """The planted rules and the columns in their conditions."""

    format: Literal["maabo-truth/1"] = FORMAT
    target: Name
    classes: tuple[str, ...] = Field(min_length=2)
    rows: Annotated[int, Field(ge=1)]
    rules: tuple[PlantedRule, ...]
    informative: tuple[Name, ...]  # the columns of the rules
    decoys: dict[str, str] = {}  # columns that imitate an informative one, and which
    recipe: Recipe | None = None

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        repeated = [name for name, uses in Counter(rule.id for rule in self.rules).items() if uses > 1]
        if repeated:
            raise ValueError(f"two rules have the id {repeated[0]}")
        for rule in self.rules:
            if rule.label not in self.classes:
                raise ValueError(f"{rule.id} is of class {rule.label!r}, which is not one of the classes")
        used = {condition.feature for rule in self.rules for condition in rule.conditions}
        unknown = sorted((used | set(self.decoys.values())) - set(self.informative))
        if unknown or set(self.decoys) & set(self.informative):
            raise ValueError(f"informative does not fit the rules and decoys: {(unknown or sorted(self.decoys))[0]}")
        return self

    def to_json(self) -> dict[str, Any]:
        """The truth as plain values."""
        return self.model_dump(mode="json", by_alias=True)

    def dump(self) -> str:
        """The truth as JSON text."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: object, *, source: str = "The truth") -> Self:
        """Check and read the output of `to_json`; `source` names it in messages."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            actual = data.get("format") if isinstance(data, dict) else None
            raise FormatError(f"{source} is not the truth of a table: its format is {actual!r}, not {FORMAT!r}.")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"]) or "content"
            message = str(problem["msg"]).removeprefix("Value error, ")
            raise FormatError(f"{source} is damaged: {where}: {message}. Generate the table again.") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check a file."""
        try:
            data = json.loads(path.read_bytes())
        except OSError as error:
            raise FormatError(f"{path} cannot be read ({error.strerror}). Check the path.") from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is not valid JSON: {error}. It is damaged or another kind of file.") from error
        return cls.from_json(data, source=str(path))


def match_frame(frame: pd.DataFrame, conditions: Iterable[Condition]) -> Mask:
    """(rows): True where all conditions hold."""
    mask = np.ones(len(frame), np.bool_)
    for condition in conditions:
        mask &= _holds(frame[condition.feature], condition)
    return mask


def _holds(cells: pd.Series, condition: Condition) -> Mask:
    def numbers() -> npt.NDArray[np.float64]:
        return cells.to_numpy(dtype=np.float64, na_value=np.nan)

    def level_texts() -> npt.NDArray[np.object_]:
        coded = levels(cells)
        return np.array([*coded.texts, None], object)[coded.codes]

    return condition_holds(condition, cells.isna().to_numpy(), numbers, level_texts)


TARGET = "y"

# Rows can be kept out of XOR and parity structures without a cell of their class that cover at most this share.
MAX_AVOIDABLE = 0.95

Latents = dict[str, Latent]  # latent variables by column
Rows = npt.NDArray[np.int64]  # row numbers, ascending

_ROWS, _COLUMNS = 1, 2  # streams of random numbers; 0 is that of the layout


class Generated(NamedTuple):
    """A table and the truth about it."""

    frame: pd.DataFrame  # columns x0, x1, … and the class, `TARGET`
    truth: Truth


def generate(recipe: Recipe) -> Generated:
    """Generate the table of a recipe."""
    layout = lay_out(recipe)
    frame = _draw(layout, recipe.rows, 0, layout.columns.keys())
    rules = tuple(_planted_rule(number, rule, layout, frame) for number, rule in enumerate(layout.rules, start=1))
    truth = Truth(
        target=TARGET,
        classes=class_names(recipe),
        rows=len(frame),
        rules=rules,
        informative=layout.informative,
        decoys=layout.decoys,
        recipe=recipe,
    )
    return Generated(frame, truth)


def draw(recipe: Recipe, rows: int, batch: int, only: Collection[str] | None = None) -> pd.DataFrame:
    """Draw rows that follow the recipe's rules, with all columns or `only` these, and the class."""
    layout = lay_out(recipe)
    names = layout.columns.keys() if only is None else only
    unknown = sorted(set(names) - layout.columns.keys())
    if unknown:
        last = f"x{recipe.features - 1}"
        raise SettingsError(f"Tables of this recipe have no column {unknown[0]!r}; they have x0 to {last}.")
    return _draw(layout, rows, batch, names)


def class_names(recipe: Recipe) -> tuple[str, ...]:
    """The names of all classes; the first is the largest outside of the rules."""
    return tuple(f"c{label}" for label in range(recipe.classes))


def _draw(layout: Layout, rows: int, batch: int, columns: Collection[str]) -> pd.DataFrame:
    rng = np.random.default_rng([layout.recipe.seed, _ROWS, batch])
    latents = {name: rng.standard_normal(rows) for name in layout.informative}
    _avoid_collisions(rng, layout, latents)
    labels = _labels(rng, layout, _complete(layout, latents))
    table = {name: _column(layout, name, latents, rows, batch) for name in layout.columns if name in columns}
    names = np.array(class_names(layout.recipe), dtype=object)
    return pd.DataFrame({**table, TARGET: pd.Series(names[labels], dtype="str")})


def _complete(layout: Layout, latents: Latents) -> pd.DataFrame:
    """The columns of rules before cells go missing."""
    return pd.DataFrame({name: layout.columns[name].cells(latent) for name, latent in latents.items()})


def _avoid_collisions(rng: np.random.Generator, layout: Layout, latents: Latents) -> None:
    """Redraw rows that satisfy two conjunctions, or a conjunction and a cell of another class."""
    taken = np.empty(0, np.int64)
    for rule in layout.conjunctions:  # the earlier one keeps the row
        _avoid(rng, layout, latents, taken, [rule])
        taken = np.union1d(taken, _rows_of(layout, latents, rule))
    for rule in layout.conjunctions:  # where possible; cells would be impure
        others = [cell for cell in layout.cells if cell.label != rule.label]
        if len(others) < len(layout.cells) or layout.recipe.xor_share <= MAX_AVOIDABLE:
            _avoid(rng, layout, latents, _rows_of(layout, latents, rule), others)


def _avoid(rng: np.random.Generator, layout: Layout, latents: Latents, rows: Rows, rules: Sequence[Planting]) -> None:
    """Redraw these rows, in the columns of the rules, until none of the rules covers any of them."""
    names = list(dict.fromkeys(condition.feature for rule in rules for condition in rule.conditions))
    while len(rows) and names:
        part = _complete(layout, {name: latents[name][rows] for name in names})
        rows = rows[np.any([match_frame(part, rule.conditions) for rule in rules], axis=0)]
        for name in names:
            latents[name][rows] = rng.standard_normal(len(rows))


def _rows_of(layout: Layout, latents: Latents, rule: Planting) -> Rows:
    own = {condition.feature: latents[condition.feature] for condition in rule.conditions}
    return np.flatnonzero(match_frame(_complete(layout, own), rule.conditions))


def _labels(rng: np.random.Generator, layout: Layout, complete: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Draw classes: random ones outside of the rules; inside, the rule's, or another one as label noise."""
    recipe, rows = layout.recipe, len(complete)
    labels = rng.choice(recipe.classes, rows, p=recipe.base_shares)
    offset = np.where(rng.random(rows) < recipe.label_noise, rng.integers(1, recipe.classes, rows), 0)
    for rule in reversed(layout.rules):  # an earlier rule overrides a later one
        inside = match_frame(complete, rule.conditions)
        labels[inside] = (rule.label + offset[inside]) % recipe.classes
    return labels


def _column(layout: Layout, name: str, latents: Latents, rows: int, batch: int) -> pd.Series:
    """The column of the table. It has its own random numbers, so that it can be drawn without the others."""
    recipe, plan = layout.recipe, layout.columns[name]
    rng = np.random.default_rng([recipe.seed, _COLUMNS, batch, int(name[1:])])
    latent = latents[name] if name in latents else rng.standard_normal(rows)
    if name in layout.decoys:
        share = recipe.decoy_correlation
        latent = share * latents[layout.decoys[name]] + np.sqrt(1 - share**2) * latent
    cells = plan.cells(latent)
    cells[rng.random(rows) < recipe.missing] = None if plan.kind is Kind.TEXT else np.nan
    return pd.Series(cells, dtype="str" if plan.kind is Kind.TEXT else "float64")


def _planted_rule(number: int, rule: Planting, layout: Layout, frame: pd.DataFrame) -> PlantedRule:
    """The rule with its coverage and precision in the table."""
    label = class_names(layout.recipe)[rule.label]
    inside = match_frame(frame, rule.conditions)
    n = int(np.count_nonzero(inside))
    right = int(np.count_nonzero(inside & (frame[TARGET] == label).to_numpy()))
    return PlantedRule(
        id=f"P{number}",
        structure=rule.structure,
        conditions=rule.conditions,
        label=label,
        n=n,
        coverage=n / len(frame),
        precision=right / n if n else None,
    )
