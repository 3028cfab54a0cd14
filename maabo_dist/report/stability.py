"""The stability of rules: combines the documents of a table and of its repeats into one.

    document of the table  ┐
    documents of repeats   ┴─► with_repeats ──► document: a stability for each rule, and the consensus rules

A rule comes back where a repeat publishes one with the same `RuleKey`: the same class and the same conditions, whatever
their thresholds are.
"""

from collections.abc import Sequence
from statistics import median_low

from maabo_dist.contract.conditions import ConditionRecord, RuleKey
from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import ConsensusRecord, RepeatsRecord, RuleRecord, StabilityRecord
from maabo_dist.contract.wording import predicted_text, statement_text
from maabo_dist.data.columns import Columns
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import RepeatProgress, check_repeats, mine_repeats, progress_of_run, repeat_settings
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.document import result_document
from maabo_dist.settings import MiningSettings, RepeatSettings

_ROUNDING = 1e-9  # 0.3 · 10 ≠ 3 in floating point


def mine_with_repeats(
    columns: Columns,
    settings: MiningSettings,
    repeats: RepeatSettings,
    *,
    name: str = "table",
    jobs: int = 1,
    progress: RepeatProgress | None = None,
    keep_records: bool = False,
) -> tuple[MiningResult, ResultDocument]:
    """Mine a table and its repeats, which are random halves of its rows.

    If `progress` or an interrupt stops a repeat, only those before it count.

    Parameters
    ----------
    columns : Columns
        The prepared table, without probes.
    settings : MiningSettings
        The parameters of the method.
    repeats : RepeatSettings
        The number of repeats, and the share of them that makes a consensus rule.
    name : str, default="table"
        The name of the table in the document.
    jobs : int, default=1
        Threads that grow trees. The rules do not depend on it.
    progress : callable, optional
        Called after every batch with the number of the run, 0 for the whole table, and a `Progress`. Mining stops if
        it returns True.
    keep_records : bool, default=False
        Keep the subset, depth and score of every tree in `MiningResult.records`.

    Returns
    -------
    result : MiningResult
        The result of the whole table.
    document : ResultDocument
        Its document, with the stability of each rule and the consensus rules.

    Examples
    --------
    >>> from maabo_dist import MiningSettings, RepeatSettings, mine_with_repeats
    >>> from maabo_dist.data.bundled import load_bundled
    >>> from maabo_dist.data.preparation import prepare
    >>> columns = prepare(*load_bundled("wine")).columns
    >>> settings = MiningSettings(trees=50, min_samples=20)
    >>> result, document = mine_with_repeats(columns, settings, RepeatSettings(repeats=4))
    >>> document.repeats.done, document.rules[1].stability.share
    (4, 0.25)
    """
    settings_of_repeats = repeat_settings(settings, repeats.repeats, columns.rows)
    check_repeats(columns, settings_of_repeats)
    result = mine(columns, settings, jobs=jobs, progress=progress_of_run(progress, 0), keep_records=keep_records)
    results = [] if result.search.stopped.cut_short else mine_repeats(columns, settings_of_repeats, jobs, progress)
    documents = [result_document(each, {"name": name}) for each in results]
    document = result_document(result, {"name": name})
    return result, with_repeats(document, documents, repeats) if repeats.repeats else document


def with_repeats(
    document: ResultDocument, documents: Sequence[ResultDocument], settings: RepeatSettings
) -> ResultDocument:
    """Add to a document the stability of each rule in the documents of its repeats, and the consensus rules."""
    returned, done = _returned_rules(documents), len(documents)
    parts = documents[0].dataset.parts if documents else None
    record = RepeatsRecord(
        asked=settings.repeats,
        done=done,
        seeds=tuple(each.settings["split_seed"] for each in documents),
        rows=None if parts is None else parts.train + parts.validation,
        threshold=settings.consensus,
        consensus=tuple(_consensus(document, returned, done, settings.consensus)),
    )
    rules = tuple(
        rule.model_copy(update={"stability": _stability(returned.get(rule.key, []), done)}) for rule in document.rules
    )
    notes = document.notes
    if done < settings.repeats:
        notes += (f"Only {done:,} of {settings.repeats:,} repeats were done; stability is based on these.",)
    return document.model_copy(update={"rules": rules, "repeats": record, "notes": notes})


def _returned_rules(documents: Sequence[ResultDocument]) -> dict[RuleKey, list[RuleRecord]]:
    """For each key, the rules of the repeats that have it; one per repeat."""
    returned: dict[RuleKey, list[RuleRecord]] = {}
    for document in documents:
        # Where rules are distinguished by their rows, several may have the same key: the first is the better one.
        first = {rule.key: rule for rule in reversed(document.rules)}
        for key, rule in first.items():
            returned.setdefault(key, []).append(rule)
    return returned


def _stability(returned: Sequence[RuleRecord], repeats: int) -> StabilityRecord:
    unseen = [(rule.holdout, rule.label) for rule in returned if rule.holdout is not None]
    covered = sum(holdout.n for holdout, _ in unseen)
    right = sum(holdout.counts[label] for holdout, label in unseen)
    return StabilityRecord(
        share=len(returned) / repeats if repeats else None,
        returns=len(returned),
        repeats=repeats,
        precision=right / covered if covered else None,
    )


def _consensus(
    document: ResultDocument, returned: dict[RuleKey, list[RuleRecord]], repeats: int, threshold: float
) -> list[ConsensusRecord]:
    """Fewest conditions first, then most rows covered over all repeats."""
    own = {rule.key: rule for rule in reversed(document.rules)}
    enough = [key for key, rules in returned.items() if len(rules) >= threshold * repeats - _ROUNDING]
    covered = {key: sum(map(_table_rows, returned[key])) for key in enough}
    order = sorted(enough, key=lambda key: (len(key.literals), -covered[key], key.label, _literal_texts(key)))
    return [_consensus_rule(own.get(key), returned[key], repeats, document) for key in order]


def _literal_texts(key: RuleKey) -> list[str]:
    """The literals as texts, to order keys by."""
    return sorted(str((feature, op.value, level)) for feature, op, level in key.literals)


def _table_rows(rule: RuleRecord) -> int:
    """Rows of the table that a rule of a repeat covers."""
    return sum(support.n for support in rule.supports.values())


def _consensus_rule(
    own: RuleRecord | None, returned: Sequence[RuleRecord], repeats: int, document: ResultDocument
) -> ConsensusRecord:
    """Build a consensus rule from those that came back; `own` is the table's own, if it has it."""
    conditions = _typical_conditions(returned)
    predicted = predicted_text(returned[0], document.dataset)
    return ConsensusRecord(
        rule=None if own is None else own.id,
        text=statement_text([record.condition for record in conditions], predicted),
        conditions=conditions,
        label=returned[0].label,
        rows=median_low(map(_table_rows, returned)),
        stability=_stability(returned, repeats),
    )


def _typical_conditions(returned: Sequence[RuleRecord]) -> tuple[ConditionRecord, ...]:
    """The conditions, each with the lower median of its thresholds: one that a repeat has."""
    conditions = []
    for first in returned[0].premise:
        same = [each for rule in returned for each in rule.conditions if each.condition.literal == first.literal]
        if isinstance(first.value, float):
            same.sort(key=lambda each: each.value if isinstance(each.value, float) else 0.0)
        conditions.append(same[(len(same) - 1) // 2].model_copy(update={"test": None}))
    return tuple(conditions)
