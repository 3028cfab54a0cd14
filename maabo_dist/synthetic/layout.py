"""`Layout`: where rules are planted in a table, before any row is drawn. The recipe, its seed included, decides it all.

    conjunctions   Two to four literals, on columns of their own. Each covers the share of the rows that was asked for,
                   and no two cover the same row.
    XOR, parity    Two or three columns of numbers, cut at their medians, and two classes: the class of a row is the
                   parity of how many of its values are large. The 4 or 8 cells are the planted rules. Values are
                   independent and the cuts halve them, so that a single column (of three: also a pair) tells nothing
                   of the class.
    gate           One XOR or parity structure decides every row that no conjunction covers. Where there are several,
                   or where they are to decide a part of the rows only, a further column of numbers, the gate, is cut
                   into intervals; each structure decides the rows of one, and its cells have the interval as further
                   literals.
    decoys         Columns correlated with one of the above. The others are noise.

Conjunctions are of classes that are not more frequent than the average outside of the rules, in turn. Rows of a
conjunction lie in cells of its class, where there are any: all rules are as pure as label noise lets them be. Where
there are none, and the cells take all rows, a conjunction decides rows of cells of other classes, which are the less
pure for it. In either case a column of an XOR tells nothing: of the cells of each class, half have it large.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from maabo_dist.rules.rule import Condition, Op
from maabo_dist.synthetic.columns import ColumnPlan, decoy_plan, number_plan, text_plan
from maabo_dist.synthetic.recipe import Recipe

UNEVEN = 0.4
"""How far a literal's part in the selectivity of a conjunction is from an equal one, at most."""


@dataclass(frozen=True, slots=True)
class Planting:
    """A rule to plant."""

    structure: str
    """`conjunction 1`, `xor 1`, `parity 1`, …: rules of one structure share their columns."""
    conditions: tuple[Condition, ...]
    label: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table and the rules planted in them."""

    recipe: Recipe
    columns: dict[str, ColumnPlan]
    """By name, in table order."""
    informative: tuple[str, ...]
    """In table order."""
    decoys: dict[str, str]
    """Each decoy with the column it imitates."""
    conjunctions: tuple[Planting, ...]
    cells: tuple[Planting, ...]
    """Of XOR and parity structures. They decide the rows that no conjunction covers."""

    @property
    def rules(self) -> tuple[Planting, ...]:
        """Where two cover a row, the earlier decides its class."""
        return (*self.conjunctions, *self.cells)


def lay_out(recipe: Recipe) -> Layout:
    """The layout that the recipe describes."""
    planner = _Planner(recipe)
    conjunctions = planner.conjunctions()
    cells = planner.cells()
    informative = set(planner.plans)
    decoys = planner.decoys()
    planner.noise()
    names = [f"x{place}" for place in range(recipe.features)]
    return Layout(
        recipe=recipe,
        columns={name: planner.plans[name] for name in names},
        informative=tuple(name for name in names if name in informative),
        decoys=decoys,
        conjunctions=conjunctions,
        cells=cells,
    )


class _Planner:
    """Plans column after column, at random places of the table: conjunctions, XOR and parity, decoys, noise."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.rng = np.random.default_rng([recipe.seed, 0])
        self.names = [f"x{place}" for place in self.rng.permutation(recipe.features)]
        self.plans: dict[str, ColumnPlan] = {}
        self.texts = self._text_turns()

    def conjunctions(self) -> tuple[Planting, ...]:
        labels, planted, taken = _rare_classes(self.recipe), [], 0.0
        for number, size in enumerate(self.recipe.sizes):
            coverage = self.rng.uniform(*self.recipe.coverages)
            # Rows of the conjunctions before it are lost to it.
            masses = _masses(self.rng, size, coverage / (1 - taken))
            conditions = tuple(self._literal(mass) for mass in masses)
            planted.append(Planting(f"conjunction {number + 1}", conditions, labels[number % len(labels)]))
            taken += coverage
        return tuple(planted)

    def cells(self) -> tuple[Planting, ...]:
        parts, xor, parity = self._parts(), self.recipe.xor, self.recipe.parity
        structures = [(f"xor {k + 1}", 2) for k in range(xor)] + [(f"parity {k + 1}", 3) for k in range(parity)]
        planted: list[Planting] = []
        for number, (structure, order) in enumerate(structures):
            halves = [self._halves() for _ in range(order)]
            for larges in product((False, True), repeat=order):
                conditions = (*parts[number], *(half[large] for half, large in zip(halves, larges, strict=True)))
                # Structure after structure takes the next two classes.
                label = (2 * number + sum(larges) % 2) % self.recipe.classes
                planted.append(Planting(structure, conditions, label))
        return tuple(planted)

    def decoys(self) -> dict[str, str]:
        """They imitate the columns planned so far, in turn."""
        originals = self.rng.permutation(list(self.plans)).tolist()
        imitated = [originals[number % len(originals)] for number in range(self.recipe.decoys)]
        return {self._plan(decoy_plan(self.rng, self.plans[original])): original for original in imitated}

    def noise(self) -> None:
        while len(self.plans) < self.recipe.features:
            self._plan(text_plan(self.rng) if len(self.plans) in self.texts else number_plan(self.rng))

    def _text_turns(self) -> frozenset[int]:
        """In which turns a column of text is planned: for a literal of a conjunction, or for noise."""
        recipe = self.recipe
        eligible = [*range(sum(recipe.sizes)), *range(recipe.informative + recipe.decoys, recipe.features)]
        return frozenset(self.rng.permutation(eligible)[: recipe.text_columns].tolist())

    def _plan(self, plan: ColumnPlan) -> str:
        name = self.names[len(self.plans)]
        self.plans[name] = plan
        return name

    def _literal(self, mass: float) -> Condition:
        large = bool(self.rng.integers(2))
        is_text = len(self.plans) in self.texts
        plan = text_plan(self.rng, mass) if is_text else number_plan(self.rng, (1 - mass if large else mass,))
        return plan.literal(self._plan(plan), mass, large=large)

    def _halves(self) -> tuple[Condition, Condition]:
        plan = number_plan(self.rng, (0.5,))
        name = self._plan(plan)
        return plan.literal(name, 0.5, large=False), plan.literal(name, 0.5, large=True)

    def _parts(self) -> list[tuple[Condition, ...]]:
        """The conditions on the gate that lead to each structure; none where one structure takes all."""
        count, share = self.recipe.structures, self.recipe.xor_share
        if not self.recipe.gated:
            return [()] * count
        edges = [share * part / count for part in range(count + 1)]
        plan = number_plan(self.rng, [edge for edge in edges if 0 < edge < 1])
        name = self._plan(plan)
        lows = [(Condition(name, Op.ABOVE, plan.threshold(edge)),) if edge > 0 else () for edge in edges]
        highs = [(Condition(name, Op.AT_MOST, plan.threshold(edge)),) if edge < 1 else () for edge in edges]
        return [(*low, *high) for low, high in zip(lows[:-1], highs[1:], strict=True)]


def _rare_classes(recipe: Recipe) -> list[int]:
    """Those not more frequent than the average outside of the rules, the last first."""
    average = 1 / recipe.classes
    return [label for label in reversed(range(recipe.classes)) if recipe.base_shares[label] <= average + 1e-9]


def _masses(rng: np.random.Generator, size: int, coverage: float) -> list[float]:
    """Shares of the rows, one for each literal, with the product `coverage`."""
    weights = 1 + rng.uniform(-UNEVEN, UNEVEN, size)
    masses: list[float] = (coverage ** (weights / weights.sum())).tolist()
    return masses
