"""From columns to rules in one process: the whole method. `mine` is what every front end calls."""

from dataclasses import dataclass

from maabo_dist.rules.rule import Rule
from maabo_dist.settings import MiningSettings, SearchPlan
from maabo_dist.trees.forest import Forest


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many leaves passed each sieve."""

    leaves: int
    large: int
    """… with at least β training rows."""
    pure: int
    """… of these, with a Gini index below γ of the greatest."""
    distinct: int
    """… of these, distinct logic sets."""
    rules: int
    """… of these, dissimilar."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a search has done so far."""

    trees: int
    planned: int
    best_score: float
    reliable: int
    """Distinct reliable logic sets so far."""
    seconds: float


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """What the search did."""

    trees: int
    leaves: int
    best_score: float | None
    seconds: float
    stopped: str
    """Why it ended: `budget`, `exhausted`, `patience`, `time`, `asked` (by the progress callback) or `interrupted`."""


@dataclass(frozen=True, slots=True)
class MiningResult:
    """The rules and everything that is said of them."""

    rules: tuple[Rule, ...]
    digest: str
    settings: MiningSettings
    plan: SearchPlan
    search: SearchSummary
    funnel: Funnel
    classes: tuple[str, ...]
    target: str
    rows: dict[str, int]
    """Rows of the parts: `train`, `validation`, `holdout`."""
    base_rates: tuple[float, ...]
    """Share of each class among the training rows."""
    fingerprint: str
    """Of the columns."""
    notes: tuple[str, ...]
    """Sentences a reader should know: of the plan, the table and the end of the search."""
    forest: Forest | None
    """All trees, if they were to be kept."""
