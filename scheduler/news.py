"""`News`: what changed of a job since it was shown last, as events for whoever follows it.

    record   ──► state      its state changed: the record
             ──► progress   anything else but its seconds changed: the record
    document ──► rules      the rules changed: how many there are, and the new ones

An event is one JSON object on one line. Each process remembers what it showed itself, so that a job that goes to
another scheduler is told of once more; nobody is told less for it.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from maabo_dist.contract.record import JobRecord

STATE, PROGRESS, RULES = "state", "progress", "rules"
REMEMBERED = 5000
"""Jobs; one that was forgotten is told of as if it were new."""
MOST_RULES = 20
"""New rules in one event; the document has them all."""
LONGEST_TEXT = 500

Event = tuple[str, str]
"""Its kind, and its data as JSON."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown of a job."""

    record: JobRecord | None = None
    """Without its seconds, which always change."""
    rules: tuple[str, bool] | None = None
    """Their digest, and whether they are partial."""
    texts: frozenset[int] = frozenset()
    """Hashes of the rules' sentences."""


@dataclass(slots=True)
class News:
    """Finds events, and remembers what was told once it has been."""

    _shown: OrderedDict[str, Shown] = field(default_factory=OrderedDict)
    _found: dict[str, Shown] = field(default_factory=dict)

    def of_record(self, record: JobRecord) -> Event | None:
        """The event that a record makes."""
        known, plain = self._known(record.id), record.model_copy(update={"seconds": 0.0})
        if plain == known.record:
            return None
        self._found[record.id] = replace(known, record=plain)
        moved = known.record is None or known.record.state is not record.state
        return (STATE if moved else PROGRESS), record.model_dump_json()

    def of_document(self, job: str, document: str | bytes) -> Event | None:
        """The event that rules make, so far or final; none if they are of a form that only another version knows."""
        try:
            return self._of_rules(job, json.loads(document))
        except (KeyError, TypeError, ValueError):
            return None

    def _of_rules(self, job: str, document: Mapping[str, Any]) -> Event | None:
        known, digest, partial = self._known(job), document["digest"], is_partial(document)
        if known.rules == (digest, partial):
            return None
        texts = [hash(rule["text"]) for rule in document["rules"]]
        fresh = [rule for rule, text in zip(document["rules"], texts, strict=True) if text not in known.texts]
        said = {
            "rules": len(texts),
            "partial": partial,
            "digest": digest,
            "new": [_told(rule) for rule in fresh[:MOST_RULES]],
            "new_total": len(fresh),
            "gone": len(known.texts.difference(texts)),
        }
        data = json.dumps(said, allow_nan=False)
        self._found[job] = replace(known, rules=(digest, partial), texts=frozenset(texts))
        return RULES, data

    def told(self) -> None:
        """What was found has reached Redis."""
        for job, shown in self._found.items():
            self._shown[job] = shown
            self._shown.move_to_end(job)
        self._found.clear()
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)

    def untold(self) -> None:
        """It has not, and is to be found again."""
        self._found.clear()

    def forget(self, job: str) -> None:
        """The job is gone."""
        self._shown.pop(job, None)

    def _known(self, job: str) -> Shown:
        return self._found.get(job) or self._shown.get(job) or Shown()


def is_partial(document: Mapping[str, Any]) -> bool:
    """Whether a document has the rules of a search that was not over."""
    return bool(document["search"]["stopped"] == "running")


def _told(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": rule["id"],
        "text": rule["text"][:LONGEST_TEXT],
        "class": rule["class"][:LONGEST_TEXT],
        "n": rule["n"],
        "gini": rule["gini"],
        "precision": rule["validation"]["precision"],
    }
