"""The stability of rules: combines the documents of a table and of its repeats into one.

    document of the table  ┐
    documents of repeats   ┼─► with_repeats ──► document: a stability for each rule, and the consensus rules
    columns of the table   ┘

A rule comes back where a repeat publishes a rule of the same class on about the same rows: of the rows of the whole
table that either covers, both cover at least half (a Jaccard coefficient of 0.5). Its words may differ: where columns
say nearly the same, each repeat may choose another of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import ConsensusRecord, RepeatsRecord, RuleRecord, StabilityRecord
from maabo_dist.contract.wording import predicted_text, statement_text
from maabo_dist.data.columns import Columns
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import RepeatProgress, check_repeats, mine_repeats, progress_of_run, repeat_settings
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.rules.column_matching import match_columns
from maabo_dist.settings import MiningSettings, RepeatSettings

# Rules of a class with at least this Jaccard coefficient of their rows are the same rule.
SAME_ROWS = 0.5
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
    (4, 1.0)
    """
    settings_of_repeats = repeat_settings(settings, repeats.repeats, columns.rows)
    check_repeats(columns, settings_of_repeats)
    result = mine(columns, settings, jobs=jobs, progress=progress_of_run(progress, 0), keep_records=keep_records)
    results = [] if result.search.stopped.cut_short else mine_repeats(columns, settings_of_repeats, jobs, progress)
    documents = [result_document(each, {"name": name}) for each in results]
    document = with_coverage(result_document(result, {"name": name}), columns)
    return result, with_repeats(document, documents, repeats, columns) if repeats.repeats else document


def with_repeats(
    document: ResultDocument, documents: Sequence[ResultDocument], settings: RepeatSettings, columns: Columns
) -> ResultDocument:
    """Add to a document the stability of each rule in the documents of its repeats, and the consensus rules.

    `columns` are those of the whole table.
    """
    done, parts = len(documents), documents[0].dataset.parts if documents else None
    own, *repeats = [_Rules.of(each.rules, columns) for each in (document, *documents)]
    returned = [_find_again(own, number, repeats) for number in range(len(own))]
    record = RepeatsRecord(
        asked=settings.repeats,
        done=done,
        seeds=tuple(each.settings["split_seed"] for each in documents),
        rows=None if parts is None else parts.train + parts.validation,
        same_rows=SAME_ROWS,
        threshold=settings.consensus,
        consensus=tuple(_consensus(own, returned, repeats, document, settings.consensus)),
    )
    rules = tuple(
        rule.model_copy(update={"stability": _stability(again, done)})
        for rule, again in zip(document.rules, returned, strict=True)
    )
    notes = document.notes
    if done < settings.repeats:
        notes += (f"Only {done:,} of {settings.repeats:,} repeats were done; stability is based on these.",)
    return document.model_copy(update={"rules": rules, "repeats": record, "notes": notes})


@dataclass(frozen=True)
class _Rules:
    """The rules of one run, and the rows of the whole table that each covers, as bits."""

    rules: tuple[RuleRecord, ...]
    covered: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, rules: tuple[RuleRecord, ...], columns: Columns) -> "_Rules":
        covered = match_columns([rule.premise for rule in rules], columns)
        return cls(rules, np.packbits(covered, axis=1))

    def __len__(self) -> int:
        return len(self.rules)

    def find(self, bits: npt.NDArray[np.uint8], label: str) -> int | None:
        """The rule of this class that shares most of its rows with these, the first of equals; None if too few."""
        same_class = np.array([rule.label == label for rule in self.rules], np.bool_)
        similarity = np.where(same_class, _jaccard(bits, self.covered), 0.0)
        best = int(similarity.argmax()) if len(self) else -1
        return best if best >= 0 and similarity[best] >= SAME_ROWS else None


# A rule of a repeat, and the rows that it covers.
_Returned = tuple[RuleRecord, npt.NDArray[np.uint8]]


def _find_again(run: _Rules, number: int, repeats: Sequence[_Rules]) -> list[_Returned]:
    """Return the rule of each repeat in which the rule of this number comes back."""
    bits, label = run.covered[number], run.rules[number].label
    found = [(repeat, repeat.find(bits, label)) for repeat in repeats]
    return [(repeat.rules[index], repeat.covered[index]) for repeat, index in found if index is not None]


def _jaccard(bits: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """(others): the rows that both cover over the rows that either covers; 1 where neither covers any."""
    shared = np.bitwise_count(others & bits).sum(axis=1, dtype=np.int64)
    either = np.bitwise_count(others | bits).sum(axis=1, dtype=np.int64)
    similarity: npt.NDArray[np.float64] = np.where(either > 0, shared / np.maximum(either, 1), 1.0)
    return similarity


def _stability(returned: Sequence[_Returned], repeats: int) -> StabilityRecord:
    unseen = [(rule.holdout, rule.label) for rule, _ in returned if rule.holdout is not None]
    covered = sum(holdout.n for holdout, _ in unseen)
    right = sum(holdout.counts[label] for holdout, label in unseen)
    return StabilityRecord(
        share=len(returned) / repeats if repeats else None,
        returns=len(returned),
        repeats=repeats,
        precision=right / covered if covered else None,
    )


def _consensus(
    own: _Rules,
    returned: Sequence[list[_Returned]],
    repeats: Sequence[_Rules],
    document: ResultDocument,
    threshold: float,
) -> list[ConsensusRecord]:
    """Fewest conditions first, then most rows covered. The table's own rules come before others on the same rows."""
    needed = max(1, threshold * len(repeats) - _ROUNDING)
    candidates: list[tuple[str | None, _Returned, list[_Returned]]] = [
        (rule.id, (rule, bits), again) for rule, bits, again in zip(own.rules, own.covered, returned, strict=True)
    ]
    candidates += [(None, _most_typical(again), again) for again in _others(own, repeats)]
    records = [
        _consensus_rule(rule, typical, again, document, len(repeats))
        for rule, typical, again in candidates
        if len(again) >= needed
    ]
    return sorted(records, key=lambda record: (len(record.conditions), -record.rows, record.label, record.text))


def _others(own: _Rules, repeats: Sequence[_Rules]) -> Iterator[list[_Returned]]:
    """Yield the rules of all repeats in which a rule comes back that is on the rows of no rule of the table."""
    known = own
    for repeat in repeats:
        for number, rule in enumerate(repeat.rules):
            bits = repeat.covered[number]
            if known.find(bits, rule.label) is None:
                known = _Rules((*known.rules, rule), np.concatenate([known.covered, bits[None]]))
                yield _find_again(repeat, number, repeats)


def _most_typical(returned: Sequence[_Returned]) -> _Returned:
    """The rule whose rows are most similar to those of all others, the first of equals."""
    covered = np.array([bits for _, bits in returned])
    return returned[int(np.argmax([_jaccard(bits, covered).sum() for bits in covered]))]


def _consensus_rule(
    own: str | None, typical: _Returned, returned: Sequence[_Returned], document: ResultDocument, repeats: int
) -> ConsensusRecord:
    """Build a consensus rule in the words of a typical one; `own` is its id in the document, if it is there."""
    rule, bits = typical
    return ConsensusRecord(
        rule=own,
        text=statement_text(rule.premise, predicted_text(rule, document.dataset)),
        conditions=tuple(record.model_copy(update={"test": None}) for record in rule.conditions),
        label=rule.label,
        rows=int(np.bitwise_count(bits).sum()),
        stability=_stability(returned, repeats),
    )
