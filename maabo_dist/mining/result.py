"""`conclude`: from the trees of a search to its `MiningResult`."""

from dataclasses import dataclass, replace

from maabo_dist.contract.result import StopReason
from maabo_dist.rules.noise import NoiseEstimate, estimate_noise, probe_free
from maabo_dist.rules.pool import TreePool
from maabo_dist.rules.pruning import Pruned, prune, with_condition_tests
from maabo_dist.rules.publishing import TreeRecords, publish, rules_digest, select_leaves
from maabo_dist.rules.refitting import refit
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import best_of_each
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
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
    supported: int
    """… of these, distinct and still reliable without the conditions that the rows do not support."""
    rules: int
    """… of these, dissimilar, and free of probes."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """What became of conditions that the rows do not support."""

    conditions: int
    """Conditions dropped from leaves that are reliable without them."""
    leaves: int
    """Leaves dropped, as they are not."""


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """What the search did."""

    trees: int
    leaves: int
    best_score: float | None
    seconds: float
    stopped: StopReason


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
    records: TreeRecords | None = None
    """What each tree was and scored, if that was to be kept: what pictures of the search are made from."""
    dropping: Dropping | None = None
    """What had no support; None where all conditions stay, as in the paper."""
    noise: NoiseEstimate | None = None
    """What the probes say of the rules; None without probes."""


def conclude(study: Study, pool: TreePool, stopped: StopReason, seconds: float) -> MiningResult:
    """Select rules (GS-MRM) among the leaves of all trees, and collect the evidence for them."""
    settings, plan, split, probes = study.settings, study.plan, study.split, study.probe_mask
    leaves, own, records = pool.leaves, study.table_columns, pool.records
    search = SearchSummary(pool.count, leaves.seen, pool.best_score, seconds, stopped)
    distinct = leaves.distinct()
    pruned = None
    if settings.prunes:
        pruned = prune(distinct, study)
        pruned = replace(pruned, leaves=refit(pruned.leaves, study))
    supported = distinct if pruned is None else best_of_each(pruned.leaves, by_bounds=settings.similarity_by == "rows")
    published = probe_free(supported, probes)
    selection = select_leaves(published, study)
    rules = publish(published, selection, study, records)
    kept = published.take(selection.chosen)
    if pruned is not None:
        rules = with_condition_tests(rules, kept, distinct, pruned, study)
    noise = None
    if probes.any():
        noise = estimate_noise(supported.take(select_leaves(supported, study).chosen), kept, probes)
    totals = study.table.totals
    return MiningResult(
        rules=rules,
        digest=rules_digest(rules, own.classes),
        settings=settings,
        plan=plan,
        search=search,
        funnel=Funnel(leaves.seen, leaves.large, leaves.pure, len(distinct), len(supported), len(rules)),
        classes=own.classes,
        target=own.target,
        rows={"train": len(split.train), "validation": len(split.validation), "holdout": len(split.holdout)},
        base_rates=tuple((totals / totals.sum()).tolist()),
        fingerprint=own.fingerprint,
        notes=(*plan.notes, *_notes(search, plan)),
        forest=None,
        records=records,
        dropping=_dropping(pruned),
        noise=noise,
    )


def _dropping(pruned: Pruned | None) -> Dropping | None:
    return None if pruned is None else Dropping(pruned.dropped, pruned.lost)


def _notes(search: SearchSummary, plan: SearchPlan) -> tuple[str, ...]:
    share = f"after {search.trees:,} of {plan.trees:,} trees"
    match search.stopped:
        case StopReason.TIME:
            return (f"The time limit ended the search {share}; on a faster machine it would have gone further.",)
        case StopReason.INTERRUPTED | StopReason.REQUESTED:
            return (f"The search was stopped {share}; these are the rules found so far.",)
        case StopReason.RUNNING:
            return (f"The search is under way, {share}; these are the rules found so far.",)
        case StopReason.PATIENCE:
            return (f"The search ended {share}: no new rule had come for a while (--patience).",)
        case _:
            return ()
