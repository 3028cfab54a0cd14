"""The result document of a `MiningResult`. The terminal report and all exports are made from it.

A stored document can be shown and exported in the same way as a new result. What repeats found is added by `stability`.
"""

from typing import Any

from maabo_dist._version import __version__
from maabo_dist.contract.conditions import condition_records
from maabo_dist.contract.result import FORMAT, DatasetInfo, PartSizes, ResultDocument, SpaceInfo
from maabo_dist.contract.rules import RuleRecord, SimilarRule
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.summary import no_rules_reason
from maabo_dist.rules.rule import Rule, rule_text


def result_document(result: MiningResult, dataset: Any) -> ResultDocument:
    """Return the document of a result; `dataset` has the table's `name`, and its `settings` if they should be kept."""
    sizes = result.plan.sizes
    subset_size = sizes[0] if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
    document = ResultDocument(
        format=FORMAT,
        version=__version__,
        digest=result.digest,
        dataset=_dataset(result, dataset),
        settings=result.settings.model_dump(mode="json"),
        space=SpaceInfo(features=result.plan.features, subset_size=subset_size, size=result.plan.space_size),
        search=result.search,
        funnel=result.funnel,
        dropping=result.pruning,
        noise=result.noise,
        certificate=result.certificate,
        missing_classes=result.missing_classes,
        no_rules_reason=None,
        repeats=None,
        notes=result.notes,
        rules=tuple(_rule(rule, result) for rule in result.rules),
    )
    return document if document.rules else document.model_copy(update={"no_rules_reason": no_rules_reason(document)})


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
        design_effect=None if result.design_effect == 1 else result.design_effect,
    )


def _rule(rule: Rule, result: MiningResult) -> RuleRecord:
    classes, similar = result.classes, None
    if rule.most_similar is not None:
        similar = SimilarRule(rule=rule.most_similar, similarity=rule.most_similar_by)
    return RuleRecord(
        id=rule.id,
        text=rule_text(rule, classes, result.target),
        conditions=condition_records(rule.conditions, rule.tests),
        label=classes[rule.label],
        n=rule.n,
        counts=dict(zip(classes, rule.counts, strict=True)),
        gini=rule.gini,
        train=rule.train,
        validation=rule.validation,
        holdout=rule.holdout,
        unique=rule.unique,
        most_similar=similar,
        source=rule.source,
        displaced=rule.displaced,
        displaced_total=rule.displaced_total,
        dropped=condition_records(rule.dropped, rule.dropped_tests),
        stability=None,
        verdict=rule.verdict,
        certificate=rule.certificate,
        stand_ins=rule.stand_ins,
    )
