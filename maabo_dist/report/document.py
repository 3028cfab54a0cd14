"""The result document of a `MiningResult`. The terminal report and all exports are made from it.

So a stored document can be shown and exported as well as a fresh result. What repeats found is added by `stability`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from maabo_dist._version import __version__
from maabo_dist.contract.conditions import Condition
from maabo_dist.contract.result import (
    FORMAT,
    DatasetInfo,
    DroppingInfo,
    FunnelCounts,
    NoiseInfo,
    PartSizes,
    ResultDocument,
    SearchInfo,
    SpaceInfo,
)
from maabo_dist.contract.rules import (
    ConditionRecord,
    ConditionTest,
    DisplacedRecord,
    HoldoutRecord,
    RuleRecord,
    SimilarRule,
    SourceRecord,
    SupportRecord,
)
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.plan_summary import explain_plan
from maabo_dist.report.wording import conditions_text, rule_text
from maabo_dist.rules import rule as rules
from maabo_dist.rules.noise import NoiseEstimate


def result_document(result: MiningResult, dataset: Any) -> ResultDocument:
    """Return the document of a result; `dataset` has the table's `name`, and its `settings` if they should be kept."""
    return ResultDocument(
        format=FORMAT,
        version=__version__,
        digest=result.digest,
        dataset=_dataset(result, dataset),
        settings=result.settings.model_dump(mode="json"),
        space=SpaceInfo(
            features=result.plan.features,
            subset_size=_subset_size(result.plan.sizes),
            size=result.plan.space_size,
        ),
        search=_search(result),
        funnel=FunnelCounts(**{name: int(count) for name, count in asdict(result.funnel).items()}),
        dropping=None if result.pruning is None else DroppingInfo(**asdict(result.pruning)),
        noise=None if result.noise is None else _noise(result.noise),
        repeats=None,
        notes=result.notes,
        rules=tuple(_rule(rule, result) for rule in result.rules),
    )


def _dataset(result: MiningResult, dataset: Any) -> DatasetInfo:
    return DatasetInfo(
        **dataset,
        rows=sum(int(rows) for rows in result.rows.values()),
        features=result.plan.features - result.settings.probes,
        target=result.target,
        classes=result.classes,
        fingerprint=result.fingerprint,
        base_rates=dict(zip(result.classes, map(_number, result.base_rates), strict=True)),
        parts=PartSizes(**{part: int(rows) for part, rows in result.rows.items()}),
    )


def _subset_size(sizes: tuple[int, ...]) -> int | str:
    """A number, or a range as the settings have it."""
    return sizes[0] if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


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
        trees=int(search.trees),
        leaves=int(search.leaves),
        best_score=_number(search.best_score),
        seconds=round(float(search.seconds), 3),
        stopped=search.stopped,
    )


def _noise(noise: NoiseEstimate) -> NoiseInfo:
    return NoiseInfo(
        probes=int(noise.probes),
        rules=int(noise.rules),
        with_probe=int(noise.with_probe),
        share=_number(noise.share),
        low=_number(noise.low),
        high=_number(noise.high),
    )


def _rule(rule: rules.Rule, result: MiningResult) -> RuleRecord:
    classes = result.classes
    return RuleRecord(
        id=rule.id,
        text=rule_text(rule, classes, result.target),
        conditions=_conditions(rule.conditions, rule.tests),
        label=classes[rule.label],
        n=int(rule.n),
        counts=_counts(rule.counts, classes),
        gini=float(rule.gini),
        train=SupportRecord(**_support(rule.train, classes)),
        validation=SupportRecord(**_support(rule.validation, classes)),
        holdout=None if rule.holdout is None else _holdout(rule.holdout, classes),
        unique=int(rule.unique),
        most_similar=_most_similar(rule),
        source=_source(rule.source),
        displaced=tuple(_displaced(leaf, classes) for leaf in rule.displaced),
        displaced_total=int(rule.displaced_total),
        dropped=_conditions(rule.dropped, rule.dropped_tests),
        stability=None,
    )


def _conditions(
    conditions: Iterable[Condition], tests: Sequence[rules.ConditionTest] = ()
) -> tuple[ConditionRecord, ...]:
    """Conditions with their tests, where there are any."""
    conditions = tuple(conditions)
    records = [_test(test) for test in tests] if tests else [None] * len(conditions)
    return tuple(
        ConditionRecord(
            feature=condition.feature,
            op=condition.op,
            value=condition.value
            if condition.value is None or isinstance(condition.value, str)
            else float(condition.value),
            or_missing=condition.or_missing,
            test=test,
        )
        for condition, test in zip(conditions, records, strict=True)
    )


def _test(test: rules.ConditionTest) -> ConditionTest:
    return ConditionTest(training=_number(test.training), validation=_number(test.validation), p=_number(test.p))


def _counts(counts: Iterable[int], classes: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(classes, map(int, counts), strict=True))


def _support(support: rules.Support, classes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "rows": int(support.rows),
        "n": int(support.n),
        "counts": _counts(support.counts, classes),
        "precision": _number(support.precision),
        "recall": _number(support.recall),
        "lift": _number(support.lift),
    }


def _holdout(holdout: rules.HeldOut, classes: tuple[str, ...]) -> HoldoutRecord:
    return HoldoutRecord(
        **_support(holdout, classes),
        precision_low=_number(holdout.precision_low),
        precision_high=_number(holdout.precision_high),
        p=_number(holdout.p),
        q=_number(holdout.q),
    )


def _most_similar(rule: rules.Rule) -> SimilarRule | None:
    if rule.most_similar is None:
        return None
    return SimilarRule(rule=rule.most_similar, similarity=_number(rule.most_similar_by))


def _source(source: rules.Source) -> SourceRecord:
    return SourceRecord(
        tree=int(source.tree), subset=tuple(source.subset), depth=int(source.depth), score=_number(source.score)
    )


def _displaced(leaf: rules.DisplacedLeaf, classes: tuple[str, ...]) -> DisplacedRecord:
    return DisplacedRecord(
        text=conditions_text(leaf.conditions),
        conditions=_conditions(leaf.conditions),
        label=classes[leaf.label],
        n=int(leaf.n),
        gini=float(leaf.gini),
        similarity=_number(leaf.similarity),
    )


def _number(value: float | None) -> float | None:
    """A plain float; None where JSON has no number for it."""
    return float(value) if value is not None and isfinite(value) else None
