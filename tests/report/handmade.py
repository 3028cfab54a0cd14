"""Results constructed by hand, for reports about rules that no small table would yield."""

from dataclasses import replace

from maabo_dist.contract.conditions import Condition, ConditionRecord, Op, condition_records
from maabo_dist.contract.result import SearchInfo, StopReason
from maabo_dist.contract.rules import (
    CertificateRecord,
    ConsensusRecord,
    DisplacedRecord,
    HoldoutRecord,
    RepeatsRecord,
    SourceRecord,
    StabilityRecord,
    SupportRecord,
    Verdict,
)
from maabo_dist.contract.selection import CertificateInfo, FunnelCounts
from maabo_dist.contract.wording import conditions_text
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.document import result_document
from maabo_dist.rules.rule import Rule
from maabo_dist.search.completeness import describe_completeness
from maabo_dist.search.explanation import explain_plan
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings

AGE = Condition("age", Op.AT_MOST, 27.5)


def make_record(kind, *values):
    """Return a record with these values, in the order of its fields."""
    return kind(**dict(zip(kind.model_fields, values, strict=True)))


def make_support(counts=(2, 8), label=1, rows=100):
    n = sum(counts)
    by_class = {str(number): count for number, count in enumerate(counts)}
    return make_record(SupportRecord, rows, n, by_class, counts[label] / n if n else None, 0.25, 1.75)


def make_held_out(counts=(1, 9), label=1, q=0.01, rows=100):
    part = make_support(counts, label, rows)
    return HoldoutRecord(**dict(part), precision_low=0.6, precision_high=0.98, p=q / 2, q=q)


def make_rule(*conditions, number=1, label=1, counts=(2, 8), holdout=None, displaced=(), **fields):
    fields.setdefault("verdict", Verdict.HELD_UP if holdout else Verdict.NOT_TESTED)
    return Rule(
        id=f"R{number}",
        conditions=conditions,
        label=label,
        n=sum(counts),
        counts=tuple(counts),
        gini=0.125,
        logic=((0, True),),
        bounds=(0.5,),
        train=make_support(counts, label),
        validation=make_support(counts, label),
        holdout=holdout,
        unique=3,
        most_similar=None if number == 1 else "R1",
        most_similar_by=0.0 if number == 1 else 1 / 3,
        source=SourceRecord(tree=7, subset=tuple(condition.feature for condition in conditions), depth=2, score=0.75),
        displaced=displaced,
        displaced_total=len(displaced),
        **fields,
    )


def make_displaced(*conditions):
    records = condition_records(conditions)
    return make_record(DisplacedRecord, conditions_text(conditions), records, "1", 9, 0.2, 0.75)


def with_class_names(rule, classes):
    """Return the rule with these class names instead of numbers in its records."""

    def rename(support):
        counts = dict(zip(classes, support.counts.values(), strict=True))
        return support.model_copy(update={"counts": counts})

    return replace(
        rule,
        **{part: rename(getattr(rule, part)) for part in ("train", "validation", "holdout") if getattr(rule, part)},
        displaced=tuple(leaf.model_copy(update={"label": classes[int(leaf.label)]}) for leaf in rule.displaced),
    )


def make_certified(rule, p=0.0012):
    return replace(rule, certificate=CertificateRecord(p=p, method="bound"))


def make_search(plan, settings, trees=35, leaves=400, best_score=0.75, seconds=1.25, stopped=StopReason.BUDGET):
    choices = [plan.trees, plan.initial, plan.batch, plan.in_flight, plan.top_features, plan.candidates]
    outcome = [trees, leaves, best_score, seconds, stopped, describe_completeness(plan, settings, trees)]
    return make_record(SearchInfo, settings.strategy, *choices, explain_plan(plan, settings), *outcome)


def make_result(
    *rules,
    classes=("0", "1"),
    target="survived",
    holdout=0,
    features=7,
    notes=(),
    funnel=None,
    dropping=None,
    noise=None,
    shuffles=0,
    **settings,
):
    """Return a result; unless the settings ask for the paper's selection, its rules are certified findings."""
    chosen = MiningSettings(**settings)
    plan = SearchPlan.settle(chosen, features)
    certificate = None
    if chosen.publishes_findings:
        certificate = CertificateInfo(
            level=0.05, shuffles=shuffles, planned=shuffles, seconds=1.25 if shuffles else 0.0, stopped=False
        )
        rules = [rule if rule.certificate else make_certified(rule) for rule in rules]
    return MiningResult(
        rules=tuple(with_class_names(rule, classes) for rule in rules),
        digest="ab" * 32,
        settings=chosen,
        plan=plan,
        search=make_search(plan, chosen),
        funnel=funnel or make_record(FunnelCounts, 400, 120, 44, 31, 31, 12 if certificate else None, len(rules)),
        classes=tuple(classes),
        target=target,
        rows={"train": 70, "validation": 30, "holdout": holdout},
        base_rates=(1 / len(classes),) * len(classes),
        fingerprint="cd" * 32,
        notes=tuple(notes),
        forest=None,
        pruning=dropping,
        noise=noise,
        certificate=certificate,
    )


def make_document(*rules, name="table.csv", **fields):
    return result_document(make_result(*rules, **fields), {"name": name})


def make_stability(returns=9, repeats=10):
    return StabilityRecord(share=returns / repeats, returns=returns, repeats=repeats, precision=0.875)


def make_repeated(document, *returns, consensus=(), threshold=0.5):
    """Return a document with ten repeats: how many returned each rule, and consensus rules by their rule's id."""
    rules = tuple(
        rule.model_copy(update={"stability": make_stability(count)})
        for rule, count in zip(document.rules, returns, strict=True)
    )
    found_again = tuple(
        ConsensusRecord(
            rule=name,
            text="IF …",
            conditions=(ConditionRecord(feature="age", op=Op.AT_MOST, value=27.5),),
            label="1",
            rows=1234,
            stability=make_stability(),
        )
        for name in consensus
    )
    repeats = RepeatsRecord(
        asked=10, done=10, seeds=tuple(range(10)), rows=50, same_rows=0.5, threshold=threshold, consensus=found_again
    )
    return document.model_copy(update={"rules": rules, "repeats": repeats})
