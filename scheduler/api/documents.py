"""The result of a job as the cluster has it: final from the ledger, or so far from Redis."""

import json
from dataclasses import dataclass
from typing import Any

from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from scheduler.ledger.jobs import JobRow
from scheduler.resources import Parts


@dataclass(frozen=True, slots=True)
class Result:
    """The rules of a job, as the JSON document of `maabo mine`."""

    document: dict[str, Any]
    final: bool


def result_of(parts: Parts, row: JobRow) -> Result | None:
    """What there is of a job's rules; None before anyone has looked."""
    if row.state is JobState.DONE and (text := parts.ledger.document(row.id)) is not None:
        return Result(json.loads(text), final=True)
    found = parts.redis.get(parts.settings.key(f"{names.JOB_DOCUMENT}:{row.id}"))
    return None if found is None else Result(json.loads(found), final=False)
