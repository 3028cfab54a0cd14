"""`conclude`: from the trees of a search to its `MiningResult`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.text import format_count
from maabo_dist.contract.result import SearchInfo, StopReason
from maabo_dist.contract.rules import CertificateRecord, Verdict
from maabo_dist.contract.selection import CertificateInfo, DroppingInfo, FunnelCounts, MissingClassRecord, NoiseInfo
from maabo_dist.data.split import Part
from maabo_dist.data.weights import round_units
from maabo_dist.findings.alternatives import stand_ins
from maabo_dist.findings.certificate import LEVEL
from maabo_dist.findings.condition_tests import condition_tests
from maabo_dist.findings.confirmation import Strength
from maabo_dist.findings.counted import count_evidence, with_class_weights
from maabo_dist.findings.findings import Evidence, Findings, choose, rule_strengths, to_leaves
from maabo_dist.findings.missing import missing_classes
from maabo_dist.findings.neighbours import move_thresholds
from maabo_dist.mining.shuffles import ShuffleResult
from maabo_dist.rules.boxes import add_boxes, weakest_strengths
from maabo_dist.rules.counting import RowCounter, SplitCounter
from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.noise import estimate_noise, leaves_without_probes
from maabo_dist.rules.pruning import prune, with_condition_tests
from maabo_dist.rules.publishing import TreePool, TreeRecords, max_score, publish, rules_digest, select_leaves
from maabo_dist.rules.refitting import refit
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.search.completeness import describe_completeness
from maabo_dist.search.plan import SearchPlan
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
    certificate : CertificateInfo or None
        How rules were certified; None with the paper's preset.
    missing_classes : tuple of MissingClassRecord
        Classes without a finding, why, and which rule came nearest.
    design_effect : float
        Rows that are worth one independent row in tests and intervals; 1 unless rows come in groups or have weights.

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
    (['color_intensity'], 'class_1')
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
    certificate: CertificateInfo | None = None
    missing_classes: tuple[MissingClassRecord, ...] = ()
    design_effect: float = 1.0


def collect_evidence(study: Study, pool: TreePool) -> Evidence | None:
    """Collect the evidence for the rules of all trees; None if GS-MRM selects among leaves, as in the paper."""
    if not study.settings.publishes_findings:
        return None
    records = pool.records
    return Evidence.collect(add_boxes(pool.leaves.distinct(), study, records.subsets, records.scores), study)


def count_all_rows(study: Study, evidence: Evidence, counter: RowCounter) -> tuple[Study, Evidence]:
    """Count the evidence for rules that were found in a sample on all rows of its dataset."""
    study = with_class_weights(study, counter)
    return study, move_thresholds(count_evidence(evidence, study, counter), study, counter)


def conclude(
    study: Study,
    pool: TreePool,
    stopped: StopReason,
    seconds: float,
    *,
    evidence: Evidence | None = None,
    shuffled: ShuffleResult | None = None,
    counter: RowCounter | None = None,
    untried_triples: Sequence[float] | None = None,
) -> MiningResult:
    """Select rules among the leaves of all trees, and describe them.

    `evidence` is that of `collect_evidence`, if it was collected before, and `shuffled` the searches that certify it.
    `counter` counts the rows of rules, by default those of the study. `untried_triples` is that of the `SearchRun`.
    """
    counter = counter or SplitCounter.of(study)
    settings, plan = study.settings, study.plan
    leaves, own, records = pool.leaves, study.table_columns, pool.records
    search = SearchInfo(
        strategy=settings.strategy,
        planned=plan.trees,
        initial=plan.initial,
        batch=plan.batch,
        in_flight=plan.in_flight,
        top_features=plan.top_features,
        candidates=plan.candidates,
        explained=study.explain(),
        trees=pool.count,
        leaves=leaves.seen,
        best_score=max_score(None, records.scores),
        seconds=round(seconds, 3),
        stopped=stopped,
        completeness=describe_completeness(plan, settings, pool.count),
    )
    distinct = leaves.distinct()
    evidence = evidence or collect_evidence(study, pool)
    shuffled = shuffled or ShuffleResult()
    if evidence is None:
        published = _publish_by_gs_mrm(distinct, study, records)
    else:
        ended = stopped in {StopReason.BUDGET, StopReason.EXHAUSTED} and settings.patience is None
        repeatable = ended and not shuffled.stopped
        published = _publish_findings(evidence, shuffled, study, records, counter, repeatable=repeatable)
    if untried_triples is not None and published.rules:
        weakest = weakest_strengths(published.rules, study)
        beyond = all(untried_triples[label] < strength for label, strength in weakest.items())
        search = search.model_copy(
            update={"completeness": describe_completeness(plan, settings, pool.count, no_other_triple=beyond)}
        )
    totals = round_units(counter.totals[Part.TRAIN], counter.unit)
    return MiningResult(
        rules=published.rules,
        digest=rules_digest(published.rules, own.classes),
        settings=settings,
        plan=plan,
        search=search,
        funnel=FunnelCounts(
            leaves=leaves.seen,
            large=leaves.large,
            pure=leaves.pure,
            distinct=len(distinct),
            supported=published.supported,
            certified=published.certified,
            rules=len(published.rules),
        ),
        classes=own.classes,
        target=own.target,
        rows=dict(zip(("train", "validation", "holdout"), counter.rows, strict=True)),
        base_rates=tuple((totals / totals.sum()).tolist()),
        fingerprint=study.prepared.fingerprint,
        notes=(
            *plan.notes,
            *_certificate_notes(settings),
            *_row_notes(study, published),
            *_notes(search, settings.patience),
            *_shuffle_notes(shuffled),
        ),
        forest=None,
        records=records,
        pruning=published.pruning,
        noise=published.noise,
        certificate=published.certificate,
        missing_classes=published.missing_classes,
        design_effect=study.design_effect,
    )


class _Published(NamedTuple):
    """Published rules, and what the result tells about their selection."""

    rules: tuple[Rule, ...]
    supported: int
    certified: int | None = None
    pruning: DroppingInfo | None = None
    noise: NoiseInfo | None = None
    certificate: CertificateInfo | None = None
    missing_classes: tuple[MissingClassRecord, ...] = ()


def _publish_by_gs_mrm(distinct: Leaves, study: Study, records: TreeRecords) -> _Published:
    settings, probes = study.settings, study.probe_mask
    pruned = None
    if settings.prunes:
        pruned = prune(distinct, study)
        pruned = replace(pruned, leaves=refit(pruned.leaves, study))
    supported = distinct if pruned is None else distinct_leaves(pruned.leaves, by_bounds=settings.by_bounds)
    candidates = leaves_without_probes(supported, probes)
    selection = select_leaves(candidates, study)
    rules = publish(candidates, selection, study, records)
    selected = candidates.take(selection.chosen)
    if pruned is not None:
        rules = with_condition_tests(rules, selected, distinct, pruned, study)
    noise = None
    if probes.any():
        noise = estimate_noise(supported.take(select_leaves(supported, study).chosen), selected, probes)
    dropping = None if pruned is None else DroppingInfo(conditions=pruned.dropped, leaves=pruned.lost)
    return _Published(rules, len(supported), pruning=dropping, noise=noise)


def _publish_findings(
    evidence: Evidence,
    shuffled: ShuffleResult,
    study: Study,
    records: TreeRecords,
    counter: RowCounter,
    *,
    repeatable: bool,
) -> _Published:
    probes, searches = study.probe_mask, shuffled.searches
    findings = choose(evidence, searches, study)
    leaves, selection, labels = to_leaves(findings, study, records.scores, counter)
    rules = publish(leaves, selection, study, records, labels, counter)
    failed = np.array([rule.verdict is Verdict.FAILED for rule in rules], np.bool_)
    if failed.any():  # these come last
        order = np.argsort(failed, kind="stable")
        leaves, selection, labels = to_leaves(findings.reordered(order), study, records.scores, counter)
        rules = publish(leaves, selection, study, records, labels, counter)
        findings = findings.reordered(order)
    rules = _with_certificates(rules, findings, study, counter)
    noise = None
    if probes.any():
        chosen = choose(evidence, searches, study, probes=True)
        with_probes, selected, _ = to_leaves(chosen, study, records.scores, counter)
        noise = estimate_noise(with_probes.take(selected.chosen), leaves.take(selection.chosen), probes)
    info = CertificateInfo(
        level=study.settings.max_p or LEVEL,
        shuffles=len(searches),
        planned=shuffled.planned,
        seconds=round(shuffled.seconds, 3),
        stopped=shuffled.stopped,
        approximate_bound=not study.columns.independent_rows,
    )
    missing = missing_classes(findings, study, try_settings=repeatable)
    return _Published(
        rules, len(evidence.rules), findings.certified, noise=noise, certificate=info, missing_classes=missing
    )


def _with_certificates(
    rules: tuple[Rule, ...], findings: Findings, study: Study, counter: RowCounter
) -> tuple[Rule, ...]:
    """Add to each rule its adjusted p-value, and the p-values of its conditions."""
    strengths = rule_strengths(findings.evidence, findings.certification)
    certified = []
    all_tests = condition_tests(rules, study, counter)
    for rule, group, tests in zip(rules, findings.groups, all_tests, strict=True):
        certification, head = findings.certification, group.head
        method: Literal["bound", "shuffles"] = "bound" if certification.by_bound[head] else "shuffles"
        p, tentative = float(np.exp(certification.log_p[head])), bool(strengths[head] < Strength.STRONG)
        record = CertificateRecord(p=p, method=method, tentative=tentative)
        others = stand_ins(group, findings, study)
        certified.append(replace(rule, tests=tests, certificate=record, stand_ins=others))
    return tuple(certified)


def _row_notes(study: Study, published: _Published) -> Iterator[str]:
    """Yield sentences on rows that have an order, or that are not independent."""
    groups = study.columns.groups
    if study.columns.times is not None and study.settings.holdout_by == "time":
        yield _time_note(study, study.columns.times)
    if study.columns.independent_rows:
        return
    rows, effect = len(study.mined_rows), study.design_effect
    which = "" if groups is None else f", of {len(np.unique(groups[study.mined_rows])):,} groups,"
    yield f"In tests and intervals the {rows:,} mined rows{which} count as {round(rows / effect):,} independent ones."
    if published.rules and published.certificate is not None and not published.certificate.shuffles:
        yield (
            "No searches on shuffled labels were run, and without them p-values are approximate where rows come in "
            "groups or have weights."
        )


def _time_note(study: Study, times: npt.NDArray[np.float64]) -> str:
    held, roles = study.split.holdout, study.columns.roles
    if not len(held):
        return "No rows are held out, so --time has no effect on the split; use --holdout 0.2."
    start = study.columns.time_text(float(times[held].min()))
    rows = format_count(len(held), "row")
    if study.columns.groups is None:
        return f"Held out: the {rows} from {roles['time']} {start} on."
    return f"Held out: the {rows} of the groups that begin latest, from {roles['time']} {start} on."


def _certificate_notes(settings: MiningSettings) -> tuple[str, ...]:
    if settings.max_p is None or settings.max_p <= LEVEL:
        return ()
    return (f"--max-p {settings.max_p:g} shows rules that chance may explain; certified ones have p ≤ {LEVEL:g}.",)


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


def _shuffle_notes(shuffled: ShuffleResult) -> tuple[str, ...]:
    if not shuffled.stopped:
        return ()
    return ("The searches on shuffled labels were stopped; rules are certified by the bound alone.",)
