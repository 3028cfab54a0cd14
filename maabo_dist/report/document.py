"""The result document of a `MiningResult`. The terminal report and all exports are made from it.

So a stored document can be shown and exported as well as a fresh result. What repeats found is added by `stability`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any, TypeVar

from maabo_dist._version import __version__
from maabo_dist.contract.conditions import Condition
from maabo_dist.contract.result import FORMAT, DatasetInfo, PartSizes, ResultDocument, SearchInfo, SpaceInfo
from maabo_dist.contract.rules import (
    ConditionRecord,
    ConditionTest,
    DisplacedRecord,
    HoldoutRecord,
    RuleRecord,
    SimilarRule,
    SupportRecord,
)
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.summary import explain_plan
from maabo_dist.report.wording import conditions_text, rule_text
from maabo_dist.rules.rule import DisplacedLeaf, Rule, Support

AnySupport = TypeVar("AnySupport", bound=SupportRecord)


def result_document(result: MiningResult, dataset: Any) -> ResultDocument:
    """Return the document of a result; `dataset` has the table's `name`, and its `settings` if they should be kept."""
    sizes = result.plan.sizes
    subset_size = sizes[0] if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
    return ResultDocument(
        format=FORMAT,
        version=__version__,
        digest=result.digest,
        dataset=_dataset(result, dataset),
        settings=result.settings.model_dump(mode="json"),
        space=SpaceInfo(features=result.plan.features, subset_size=subset_size, size=result.plan.space_size),
        search=_search(result),
        funnel=result.funnel,
        dropping=result.pruning,
        noise=result.noise,
        repeats=None,
        notes=result.notes,
        rules=tuple(_rule(rule, result) for rule in result.rules),
    )


def _dataset(result: MiningResult, dataset: Any) -> DatasetInfo:
    return DatasetInfo(
        **dataset,
        rows=sum(result.rows.values()),
        features=result.plan.features - result.settings.probes,
        target=result.target,
        classes=result.classes,
        fingerprint=result.fingerprint,
        base_rates=dict(zip(result.classes, result.base_rates, strict=True)),
        parts=PartSizes(**result.rows),
    )


def _search(result: MiningResult) -> SearchInfo:
    plan, search = result.plan, result.search
    return SearchInfo(
        strategy=result.settings.strategy,
        planned=plan.trees,
        initial=plan.initial,
        batch=plan.batch,
        in_flight=plan.in_flight,
        top_features=plan.top_features,
        candidates=plan.candidates,
        explained=explain_plan(plan, result.settings),
        trees=search.trees,
        leaves=search.leaves,
        best_score=_finite(search.best_score),
        seconds=round(search.seconds, 3),
        stopped=search.stopped,
    )


def _rule(rule: Rule, result: MiningResult) -> RuleRecord:
    classes, similar = result.classes, None
    if rule.most_similar is not None:
        similar = SimilarRule(rule=rule.most_similar, similarity=rule.most_similar_by)
    return RuleRecord(
        id=rule.id,
        text=rule_text(rule, classes, result.target),
        conditions=_conditions(rule.conditions, rule.tests),
        label=classes[rule.label],
        n=rule.n,
        counts=_counts(rule.counts, classes),
        gini=rule.gini,
        train=_support(SupportRecord, rule.train, classes),
        validation=_support(SupportRecord, rule.validation, classes),
        holdout=None if rule.holdout is None else _support(HoldoutRecord, rule.holdout, classes),
        unique=rule.unique,
        most_similar=similar,
        source=rule.source,
        displaced=tuple(_displaced(leaf, classes) for leaf in rule.displaced),
        displaced_total=rule.displaced_total,
        dropped=_conditions(rule.dropped, rule.dropped_tests),
        stability=None,
    )


def _conditions(
    conditions: Sequence[Condition], tests: Sequence[ConditionTest | None] = ()
) -> tuple[ConditionRecord, ...]:
    """Conditions with their tests, where there are any."""
    return tuple(
        ConditionRecord(**asdict(condition), test=test)
        for condition, test in zip(conditions, tests or [None] * len(conditions), strict=True)
    )


def _counts(counts: Iterable[int], classes: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(classes, counts, strict=True))


def _support(kind: type[AnySupport], support: Support, classes: tuple[str, ...]) -> AnySupport:
    """The record of a support, or of one on held-out rows; None where JSON has no number for a value."""
    values = {name: _finite(value) for name, value in asdict(support).items()}
    return kind(**values | {"counts": _counts(support.counts, classes)})


def _displaced(leaf: DisplacedLeaf, classes: tuple[str, ...]) -> DisplacedRecord:
    return DisplacedRecord(
        text=conditions_text(leaf.conditions),
        conditions=_conditions(leaf.conditions),
        label=classes[leaf.label],
        n=leaf.n,
        gini=leaf.gini,
        similarity=leaf.similarity,
    )


def _finite(value: Any) -> Any:
    """The value; None for a float that JSON has no number for."""
    return value if not isinstance(value, float) or isfinite(value) else None
