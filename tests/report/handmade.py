"""Results put together by hand, for reports about rules that no small table would yield."""

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.result import FunnelCounts, StopReason
from maabo_dist.contract.rules import ConditionRecord, ConsensusRecord, RepeatsRecord, SourceRecord, StabilityRecord
from maabo_dist.mining.result import MiningResult, SearchSummary
from maabo_dist.report.document import result_document
from maabo_dist.rules.rule import DisplacedLeaf, HeldOut, Rule, Support
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings

AGE = Condition("age", Op.AT_MOST, 27.5)


def make_record(kind, *values):
    """A record with these values, in the order of its fields."""
    return kind(**dict(zip(kind.model_fields, values, strict=True)))


def make_support(counts=(2, 8), label=1, rows=100):
    n = sum(counts)
    return Support(rows, n, tuple(counts), counts[label] / n if n else None, 0.25, 1.75)


def make_held_out(counts=(1, 9), label=1, q=0.01, rows=100):
    part = make_support(counts, label, rows)
    return HeldOut(rows, part.n, part.counts, part.precision, part.recall, part.lift, 0.6, 0.98, q / 2, q)


def make_rule(*conditions, number=1, label=1, counts=(2, 8), holdout=None, displaced=(), **more):
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
        **more,
    )


def make_displaced(*conditions):
    return DisplacedLeaf(conditions, label=1, n=9, gini=0.2, similarity=0.75)


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
    **settings,
):
    chosen = MiningSettings(**settings)
    return MiningResult(
        rules=rules,
        digest="ab" * 32,
        settings=chosen,
        plan=SearchPlan.settle(chosen, features),
        search=SearchSummary(trees=35, leaves=400, best_score=0.75, seconds=1.25, stopped=StopReason.BUDGET),
        funnel=funnel or make_record(FunnelCounts, 400, 120, 44, 31, 31, len(rules)),
        classes=tuple(classes),
        target=target,
        rows={"train": 70, "validation": 30, "holdout": holdout},
        base_rates=(1 / len(classes),) * len(classes),
        fingerprint="cd" * 32,
        notes=tuple(notes),
        forest=None,
        pruning=dropping,
        noise=noise,
    )


def make_document(*rules, name="table.csv", **made):
    return result_document(make_result(*rules, **made), {"name": name})


def make_stability(returns=9, repeats=10):
    return StabilityRecord(share=returns / repeats, returns=returns, repeats=repeats, precision=0.875)


def make_repeated(document, *returns, consensus=(), threshold=0.5):
    """A document with repeats: how often each rule came back of ten times, and consensus rules by their rule's id."""
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
        asked=10, done=10, seeds=tuple(range(10)), rows=50, threshold=threshold, consensus=found_again
    )
    return document.model_copy(update={"rules": rules, "repeats": repeats})
