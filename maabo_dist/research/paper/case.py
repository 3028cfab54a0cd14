"""What an experiment is made of: a `Case` is one run of an arm, an `Outcome` what came of it.

A case is mined by `maabo_dist.mining.mine`, or as a job on a cluster; either way its outcome is read from the result
document, so that it is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from maabo_dist.research.paper.shown import Comparison, Panel
from maabo_dist.research.paper.tables import PaperTable, is_noise
from maabo_dist.settings import MiningSettings

Row = dict[str, str | int | float | None]
"""A line of a CSV file."""

METHOD = MiningSettings(preset="paper", batch=1, top_features="all", candidates="all")
"""The parameters of the paper's first experiment, and Algorithm 1 to the letter: one subset at a time."""
AT_ONCE = 256
"""Where no tree has a say in the choice of the next one, many are proposed together: the same, but quicker."""


@dataclass(frozen=True, slots=True)
class TableKey:
    """A table of the paper as a case sees it."""

    name: str
    impute: str = "median"
    noise: int = 0
    """Columns of noise beside its own."""
    seed: int = 0
    """Of the noise."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of an arm."""

    arm: str
    seed: int
    table: TableKey
    settings: MiningSettings
    leaf_sizes: tuple[int, ...] = ()
    """For a single tree: the least rows of its leaves, of which the best on the validation rows is taken."""


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A rule as tables show it."""

    id: str
    label: str
    n: int
    gini: float
    text: str
    features: frozenset[str]
    """The columns that it is on."""


@dataclass(frozen=True, slots=True)
class TunedTree:
    """The single tree whose depth and leaf size were both chosen on the validation rows."""

    depth: int
    leaf_size: int
    features: frozenset[str]
    """The columns that it splits by."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case."""

    digest: str
    trees: int
    leaves: int
    score: float | None
    """The best macro F1 on the validation rows."""
    seconds: float
    rules: tuple[FoundRule, ...]
    tree: TunedTree | None = None

    @property
    def noisy_rules(self) -> int:
        """Rules with a condition on a column of noise."""
        return sum(any(map(is_noise, rule.features)) for rule in self.rules)

    @property
    def used(self) -> int:
        """Columns in rules, each counted in every rule."""
        return sum(len(rule.features) for rule in self.rules)

    @property
    def noise_used(self) -> int:
        """Of these, columns of noise."""
        return sum(is_noise(feature) for rule in self.rules for feature in rule.features)


Result = tuple[Case, Outcome]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that an experiment has to show."""

    rows: dict[str, list[Row]]
    """The raw results: a CSV file for each name."""
    comparisons: tuple[Comparison, ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the paper's experiments."""

    name: str
    title: str
    seeds: int
    """As many as the paper has."""
    cases: Callable[[Sequence[PaperTable], int], list[Case]]
    findings: Callable[[Sequence[Result]], Findings]
    tables: tuple[str, ...] = ("titanic",)
    """Those of the paper that it is about."""
    jobs: bool = True
    """Whether its cases can be jobs of a cluster."""


def outcome_of(document: dict[str, Any]) -> Outcome:
    """From the document of a run, be it of this process or of a cluster."""
    search = document["search"]
    return Outcome(
        digest=document["digest"],
        trees=search["trees"],
        leaves=document["funnel"]["leaves"],
        score=search["best_score"],
        seconds=search["seconds"],
        rules=tuple(map(_found, document["rules"])),
    )


def _found(rule: dict[str, Any]) -> FoundRule:
    features = frozenset(condition["feature"] for condition in rule["conditions"])
    return FoundRule(rule["id"], rule["class"], rule["n"], rule["gini"], rule["text"], features)
