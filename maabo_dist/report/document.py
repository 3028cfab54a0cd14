"""The result document: everything that is said of a mining run, as plain JSON values. `schema.json` describes it.

It is made once from a `MiningResult`; the terminal report and all exports are made from it, so that a stored document
can be shown and exported as well as a fresh result. What repeats say of its rules is added by `stability`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from math import isfinite
from typing import Any

from maabo_dist._version import __version__
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.plan_summary import explained
from maabo_dist.report.wording import class_text, conditions_text, rule_text
from maabo_dist.rules.noise import NoiseEstimate
from maabo_dist.rules.rule import ConditionTest, DisplacedLeaf, HeldOut, Rule, Source, Support

FORMAT = "maabo-rules/1"

Document = dict[str, Any]


def result_document(result: MiningResult, dataset: Mapping[str, Any]) -> Document:
    """The document of a result; `dataset` gives the table's `name`, and its `settings` if they should be kept."""
    return {
        "format": FORMAT,
        "version": __version__,
        "digest": result.digest,
        "dataset": _dataset(result, dataset),
        "settings": result.settings.model_dump(mode="json"),
        "space": {
            "features": result.plan.features,
            "subset_size": _sizes(result.plan.sizes),
            "size": result.plan.space_size,
        },
        "search": _search(result),
        "funnel": {sieve: int(count) for sieve, count in asdict(result.funnel).items()},
        "dropping": None if result.dropping is None else asdict(result.dropping),
        "noise": _noise(result.noise),
        "repeats": None,
        "notes": list(result.notes),
        "rules": [_rule(rule, result) for rule in result.rules],
    }


def dump_document(document: Document) -> str:
    """The document as JSON text that ends with a line break."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_schema() -> dict[str, Any]:
    """The JSON Schema of the document, draft 2020-12."""
    schema: dict[str, Any] = json.loads(files(__package__).joinpath("schema.json").read_text(encoding="utf-8"))
    return schema


def conditions_of(entry: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of a rule, or of a displaced one, in a document."""
    return tuple(
        Condition(condition["feature"], Op(condition["op"]), condition["value"], condition.get("or_missing", False))
        for condition in entry["conditions"]
    )


def dropped_of(rule: Mapping[str, Any]) -> list[tuple[Condition, float | None]]:
    """The conditions that a rule of the document lost, each with its p-value."""
    dropped = rule.get("dropped", [])
    tests = [condition.get("test") or {} for condition in dropped]
    return list(zip(conditions_of({"conditions": dropped}), (test.get("p") for test in tests), strict=True))


def predicted_text(rule: Mapping[str, Any], document: Document) -> str:
    """What a rule of the document predicts: `survived = 1`, `progression > 152.1`."""
    return class_text(rule["class"], document["dataset"]["classes"], document["dataset"]["target"])


def _dataset(result: MiningResult, dataset: Mapping[str, Any]) -> Document:
    return {
        **dataset,
        "rows": sum(int(rows) for rows in result.rows.values()),
        "features": result.plan.features - result.settings.probes,
        "target": result.target,
        "classes": list(result.classes),
        "fingerprint": result.fingerprint,
        "base_rates": dict(zip(result.classes, map(_number, result.base_rates), strict=True)),
        "parts": {part: int(rows) for part, rows in result.rows.items()},
    }


def _sizes(sizes: tuple[int, ...]) -> int | str:
    """A number, or a range as the settings have it."""
    return sizes[0] if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


def _search(result: MiningResult) -> Document:
    plan, search = result.plan, result.search
    return {
        "strategy": result.settings.strategy,
        "planned": plan.trees,
        "initial": plan.initial,
        "batch": plan.batch,
        "in_flight": plan.in_flight,
        "top_features": plan.top_features,
        "candidates": plan.candidates,
        "explained": list(explained(plan, result.settings)),
        "trees": int(search.trees),
        "leaves": int(search.leaves),
        "best_score": _number(search.best_score),
        "seconds": round(float(search.seconds), 3),
        "stopped": search.stopped,
    }


def _noise(noise: NoiseEstimate | None) -> Document | None:
    if noise is None:
        return None
    return {
        "probes": int(noise.probes),
        "rules": int(noise.rules),
        "with_probe": int(noise.with_probe),
        "share": _number(noise.share),
        "low": _number(noise.low),
        "high": _number(noise.high),
    }


def _rule(rule: Rule, result: MiningResult) -> Document:
    classes = result.classes
    similar = {"rule": rule.most_similar, "similarity": _number(rule.most_similar_by)}
    return {
        "id": rule.id,
        "text": rule_text(rule, classes, result.target),
        "conditions": _tested(rule.conditions, rule.tests),
        "class": classes[rule.label],
        "n": int(rule.n),
        "counts": _counts(rule.counts, classes),
        "gini": _number(rule.gini),
        "train": _support(rule.train, classes),
        "validation": _support(rule.validation, classes),
        "holdout": None if rule.holdout is None else _held_out(rule.holdout, classes),
        "unique": int(rule.unique),
        "most_similar": None if rule.most_similar is None else similar,
        "source": _source(rule.source),
        "displaced": [_displaced(entry, classes) for entry in rule.displaced],
        "displaced_total": int(rule.displaced_total),
        "dropped": _tested(rule.dropped, rule.dropped_tests),
        "stability": None,
    }


def _conditions(conditions: Iterable[Condition]) -> list[Document]:
    return [
        {"feature": condition.feature, "op": condition.op.value, "value": _value(condition)}
        | ({"or_missing": True} if condition.or_missing else {})
        for condition in conditions
    ]


def _tested(conditions: Iterable[Condition], tests: Sequence[ConditionTest]) -> list[Document]:
    """Conditions with their tests, where there are any."""
    plain = _conditions(conditions)
    if not tests:
        return plain
    return [entry | {"test": _test(test)} for entry, test in zip(plain, tests, strict=True)]


def _test(test: ConditionTest) -> Document:
    return {"training": _number(test.training), "validation": _number(test.validation), "p": _number(test.p)}


def _value(condition: Condition) -> float | str | None:
    return condition.value if condition.value is None or isinstance(condition.value, str) else float(condition.value)


def _counts(counts: Iterable[int], classes: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(classes, map(int, counts), strict=True))


def _support(support: Support, classes: tuple[str, ...]) -> Document:
    return {
        "rows": int(support.rows),
        "n": int(support.n),
        "counts": _counts(support.counts, classes),
        "precision": _number(support.precision),
        "recall": _number(support.recall),
        "lift": _number(support.lift),
    }


def _held_out(held: HeldOut, classes: tuple[str, ...]) -> Document:
    return _support(held, classes) | {
        "precision_low": _number(held.precision_low),
        "precision_high": _number(held.precision_high),
        "p": _number(held.p),
        "q": _number(held.q),
    }


def _source(source: Source) -> Document:
    return {
        "tree": int(source.tree),
        "subset": list(source.subset),
        "depth": int(source.depth),
        "score": _number(source.score),
    }


def _displaced(entry: DisplacedLeaf, classes: tuple[str, ...]) -> Document:
    return {
        "text": conditions_text(entry.conditions),
        "conditions": _conditions(entry.conditions),
        "class": classes[entry.label],
        "n": int(entry.n),
        "gini": _number(entry.gini),
        "similarity": _number(entry.similarity),
    }


def _number(value: float | None) -> float | None:
    """A plain float; None where JSON has no number for it."""
    return float(value) if value is not None and isfinite(value) else None
