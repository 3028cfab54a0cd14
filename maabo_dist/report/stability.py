"""How stable rules are: the documents of a table and of its repeats in, one document with both out.

    document of the table  ┐
    documents of repeats   ┴─► with_repeats ──► document: a stability for each rule, and the consensus rules

A rule comes back where a repeat publishes one with the same `RuleKey`: the same class and the same conditions, whatever
their thresholds are.
"""

from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import Any

from maabo_dist.data.columns import Columns
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import RepeatProgress, check_repeats, mine_repeats, progress_of_run, repeat_settings
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.document import Document, conditions_of, predicted_text, result_document
from maabo_dist.report.wording import statement_text
from maabo_dist.settings import MiningSettings, RepeatSettings

Key = tuple[str, frozenset[tuple[str, str, str | None]]]
"""What is the same in a rule that comes back: its class, and of each condition the column, the sign and the level."""
_ROUNDING = 1e-9  # 0.3 · 10 is not 3, quite


def mine_with_repeats(
    columns: Columns,
    settings: MiningSettings,
    wanted: RepeatSettings,
    *,
    name: str = "table",
    jobs: int = 1,
    progress: RepeatProgress | None = None,
    keep_records: bool = False,
) -> tuple[MiningResult, Document]:
    """Mine a table and its repeats: the result of the table itself, and the document with what came back.

    When `progress` or an interrupt stops a repeat, those before it count.
    """
    repeats = repeat_settings(settings, wanted.repeats)
    check_repeats(columns, repeats)
    result = mine(columns, settings, jobs=jobs, progress=progress_of_run(progress, 0), keep_records=keep_records)
    results = [] if result.search.stopped.cut_short else mine_repeats(columns, repeats, jobs, progress)
    repeated = [result_document(each, {"name": name}) for each in results]
    document = result_document(result, {"name": name})
    return result, with_repeats(document, repeated, wanted) if wanted.repeats else document


def with_repeats(document: Document, repeated: Sequence[Document], wanted: RepeatSettings) -> Document:
    """The document with a stability for each rule, and the consensus rules of the repeats."""
    found = _returns(repeated)
    rules = [
        rule | {"stability": _stability(found.get(rule_key(rule), []), len(repeated))} for rule in document["rules"]
    ]
    parts = repeated[0]["dataset"]["parts"] if repeated else None
    record = {
        "asked": wanted.repeats,
        "done": len(repeated),
        "seeds": [each["settings"]["split_seed"] for each in repeated],
        "rows": None if parts is None else parts["train"] + parts["validation"],
        "threshold": wanted.consensus,
        "consensus": _consensus(document, found, len(repeated), wanted.consensus),
    }
    notes = [*document["notes"], *_notes(len(repeated), wanted.repeats)]
    return document | {"rules": rules, "repeats": record, "notes": notes}


def rule_key(rule: Document) -> Key:
    """What must be the same in a rule of a document for it to have come back."""
    literals = ((each["feature"], each["op"], _level(each)) for each in rule["conditions"])
    return rule["class"], frozenset(literals)


def _level(condition: Document) -> str | None:
    return condition["value"] if isinstance(condition["value"], str) else None


def _returns(repeated: Sequence[Document]) -> dict[Key, list[Document]]:
    """For each key, the rules of the repeats that have it; one a repeat."""
    found: dict[Key, list[Document]] = {}
    for document in repeated:
        # Where rules are told apart by their rows, several may have the same key: the first is the better one.
        first = {rule_key(rule): rule for rule in reversed(document["rules"])}
        for key, rule in first.items():
            found.setdefault(key, []).append(rule)
    return found


def _stability(returned: Sequence[Document], repeats: int) -> Document:
    held = [rule["holdout"] for rule in returned]
    covered = sum(part["n"] for part in held)
    right = sum(part["counts"][rule["class"]] for part, rule in zip(held, returned, strict=True))
    return {
        "share": len(returned) / repeats if repeats else None,
        "returns": len(returned),
        "repeats": repeats,
        "precision": right / covered if covered else None,
    }


def _consensus(
    document: Document, found: dict[Key, list[Document]], repeats: int, threshold: float
) -> list[dict[str, Any]]:
    """Fewest conditions first; of equally many, what covers most rows over all repeats, none where it is not back."""
    own = {rule_key(rule): rule for rule in reversed(document["rules"])}
    enough = [key for key, returned in found.items() if len(returned) >= threshold * repeats - _ROUNDING]
    entries = {key: _entry(own.get(key), found[key], repeats, document) for key in enough}
    covered = {key: sum(map(_table_rows, found[key])) for key in enough}
    order = sorted(enough, key=lambda key: (len(key[1]), -covered[key], key[0], sorted(map(str, key[1]))))
    return [entries[key] for key in order]


def _table_rows(rule: Document) -> int:
    """Rows of the table that a rule of a repeat covers."""
    return int(sum(rule[part]["n"] for part in ("train", "validation", "holdout")))


def _entry(own: Document | None, returned: Sequence[Document], repeats: int, document: Document) -> Document:
    """A consensus rule, put together from those that came back; `own` is the table's own, if it has it."""
    rule = {"class": returned[0]["class"], "conditions": _typical(returned)}
    return {
        "rule": None if own is None else own["id"],
        "text": statement_text(conditions_of(rule), predicted_text(rule, document)),
        **rule,
        "rows": median_low(map(_table_rows, returned)),
        "stability": _stability(returned, repeats),
    }


def _typical(returned: Sequence[Document]) -> list[Document]:
    """The conditions, each with the lower median of its thresholds: one that a repeat has."""
    conditions = []
    for first in returned[0]["conditions"]:
        same = [each for rule in returned for each in rule["conditions"] if _same_literal(each, first)]
        if _level(first) is None and first["value"] is not None:
            same.sort(key=lambda each: each["value"])
        conditions.append(_untested(same[(len(same) - 1) // 2]))
    return conditions


def _same_literal(one: Document, other: Document) -> bool:
    return (one["feature"], one["op"], _level(one)) == (other["feature"], other["op"], _level(other))


def _untested(condition: Document) -> Document:
    return {name: value for name, value in condition.items() if name != "test"}


def _notes(done: int, asked: int) -> Iterator[str]:
    if done < asked:
        yield f"Only {done:,} of {asked:,} repeats were done; how often rules come back is told from these."
