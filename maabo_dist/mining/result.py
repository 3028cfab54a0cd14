"""`conclude`: from the trees of a search to its `MiningResult`."""

from dataclasses import dataclass, replace

from maabo_dist.contract.result import DroppingInfo, FunnelCounts, NoiseInfo, SearchInfo, StopReason
from maabo_dist.rules.noise import estimate_noise, leaves_without_probes
from maabo_dist.rules.pruning import prune, with_condition_tests
from maabo_dist.rules.publishing import TreePool, TreeRecords, max_score, publish, rules_digest, select_leaves
from maabo_dist.rules.refitting import refit
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.search.plan import SearchPlan, explain_plan
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest


@dataclass(frozen=True, slots=True)
class MiningResult:
    """The rules of a table, the evidence for them, and a record of the search.

    Attributes
    ----------
    rules : tuple of Rule
        The published rules, in the order of selection.
    digest : str
        SHA-256 of the rules: equal digests mean equal rules.
    settings : MiningSettings
        The settings of the search.
    plan : SearchPlan
        The settings with defaults resolved for the table.
    search : SearchInfo
        The plan and the outcome of the search.
    funnel : FunnelCounts
        The number of leaves left after each filter.
    classes : tuple of str
        Names of the classes; `Rule.label` is an index into them.
    target : str
        Name of the target column.
    rows : dict of str to int
        Number of rows in `train`, `validation` and `holdout`.
    base_rates : tuple of float
        Share of each class among the training rows.
    fingerprint : str
        SHA-256 of the prepared columns.
    notes : tuple of str
        Remarks on the plan, the table and the end of the search.
    forest : Forest or None
        All trees, if `mine` was to keep them.
    records : TreeRecords or None
        Subset, depth and score of every tree, if `mine` was to keep them.
    pruning : DroppingInfo or None
        The effect of pruning; None if all conditions stay, as in the paper.
    noise : NoiseInfo or None
        The share of rules that are due to chance, by the probes; None without probes.

    Examples
    --------
    >>> from maabo_dist import MiningSettings, mine
    >>> from maabo_dist.data.bundled import load_bundled
    >>> from maabo_dist.data.preparation import prepare
    >>> result = mine(prepare(*load_bundled("wine")).columns, MiningSettings(trees=50, min_samples=20))
    >>> result.target, result.classes
    ('cultivar', ('class_0', 'class_1', 'class_2'))
    >>> best = result.rules[0]
    >>> [condition.feature for condition in best.conditions], result.classes[best.label]
    (['flavanoids', 'color_intensity'], 'class_2')
    """

    rules: tuple[Rule, ...]
    digest: str
    settings: MiningSettings
    plan: SearchPlan
    search: SearchInfo
    funnel: FunnelCounts
    classes: tuple[str, ...]
    target: str
    rows: dict[str, int]
    base_rates: tuple[float, ...]
    fingerprint: str
    notes: tuple[str, ...]
    forest: Forest | None
    records: TreeRecords | None = None
    pruning: DroppingInfo | None = None
    noise: NoiseInfo | None = None


def conclude(study: Study, pool: TreePool, stopped: StopReason, seconds: float) -> MiningResult:
    """Select rules (GS-MRM) among the leaves of all trees, and collect the evidence for them."""
    settings, plan, split, probes = study.settings, study.plan, study.split, study.probe_mask
    leaves, own, records = pool.leaves, study.table_columns, pool.records
    search = SearchInfo(
        strategy=settings.strategy,
        planned=plan.trees,
        initial=plan.initial,
        batch=plan.batch,
        in_flight=plan.in_flight,
        top_features=plan.top_features,
        candidates=plan.candidates,
        explained=explain_plan(plan, settings),
        trees=pool.count,
        leaves=leaves.seen,
        best_score=max_score(None, records.scores),
        seconds=round(seconds, 3),
        stopped=stopped,
    )
    distinct = leaves.distinct()
    pruned = None
    if settings.prunes:
        pruned = prune(distinct, study)
        pruned = replace(pruned, leaves=refit(pruned.leaves, study))
    supported = (
        distinct if pruned is None else distinct_leaves(pruned.leaves, by_bounds=settings.similarity_by == "rows")
    )
    published = leaves_without_probes(supported, probes)
    selection = select_leaves(published, study)
    rules = publish(published, selection, study, records)
    selected = published.take(selection.chosen)
    if pruned is not None:
        rules = with_condition_tests(rules, selected, distinct, pruned, study)
    noise = None
    if probes.any():
        noise = estimate_noise(supported.take(select_leaves(supported, study).chosen), selected, probes)
    totals = study.table.totals
    return MiningResult(
        rules=rules,
        digest=rules_digest(rules, own.classes),
        settings=settings,
        plan=plan,
        search=search,
        funnel=FunnelCounts(
            leaves=leaves.seen,
            large=leaves.large,
            pure=leaves.pure,
            distinct=len(distinct),
            supported=len(supported),
            rules=len(rules),
        ),
        classes=own.classes,
        target=own.target,
        rows={"train": len(split.train), "validation": len(split.validation), "holdout": len(split.holdout)},
        base_rates=tuple((totals / totals.sum()).tolist()),
        fingerprint=own.fingerprint,
        notes=(*plan.notes, *_notes(search, settings.patience)),
        forest=None,
        records=records,
        pruning=None if pruned is None else DroppingInfo(conditions=pruned.dropped, leaves=pruned.lost),
        noise=noise,
    )


def _notes(search: SearchInfo, patience: int | None) -> tuple[str, ...]:
    progress = f"after {search.trees:,} of {search.planned:,} trees"
    match search.stopped:
        case StopReason.BUDGET | StopReason.EXHAUSTED:
            return ()
        case StopReason.TIME:
            return (f"The time limit ended the search {progress}; on a faster machine it would have gone further.",)
        case StopReason.INTERRUPTED | StopReason.REQUESTED:
            return (f"The search was stopped {progress}; these are the rules found so far.",)
        case StopReason.RUNNING:
            return (f"The search is running, {progress}; these are the rules found so far.",)
        case StopReason.PATIENCE:
            return (f"The search ended {progress}: the last {patience:,} trees gave no new rule (--patience).",)
