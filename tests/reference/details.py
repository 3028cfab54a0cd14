"""What the API shows of a job, built from the ledger and Redis anew each time: the twin of remembered documents."""

import json

from sqlalchemy import text

from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.details import time_left

FROM_LEDGER = ("id", "state", "created", "started", "finished", "trees", "planned", "failed", "best_score", "rules")


def slow_status(resources, job):
    """The status of a job, as a JSON object; `outages` of schedulers are read from the ledger."""
    row, spec = _read(resources, job)
    shown = {name: row[name] for name in (*FROM_LEDGER, "digest", "reason")}
    shown |= {"seconds": row["run_seconds"], "name": spec["dataset"]["name"]}
    shown |= {"tenant": spec["tenant"], "priority": spec["priority"]}
    if row["state"] == "paused":
        remedy = f"`maabo resume {job[:8]}` continues it."
        shown["obstacle"] = {"kind": "paused", "text": "paused by its owner", "remedy": remedy}
    record = JobRecord.model_validate(shown)
    if row["state"] not in {"done", "failed", "cancelled"}:
        published = resources.redis.get(resources.settings.key(f"{names.JOB_RECORD}:{job}"))
        if published is not None and published != b"not a record":
            record = JobRecord.model_validate(json.loads(published) | {"state": row["state"]})
        if row["state"] in {"running", "mining"} and row["owner"] in (outages := resources.ledger.outages.by_owner()):
            record = record.model_copy(update={"obstacle": outages[row["owner"]]})
    status = record.model_dump(mode="json") | {"progress": None, "eta_seconds": None}
    if row["state"] == "done":
        status["progress"] = 1.0
    elif record.planned:
        status["progress"] = min(1.0, record.trees / record.planned)
        if row["state"] == "running" and record.obstacle is None:
            status["eta_seconds"] = time_left(record)
    owner = {"wanted": row["command"], "dataset": spec.get("dataset_id"), "title": row["title"], "note": row["note"]}
    return status | owner


def slow_details(resources, job):
    """The details of a job, as a JSON object."""
    status, (row, spec) = slow_status(resources, job), _read(resources, job)
    table = spec["dataset"].get("settings")
    details = {
        "table": None if table is None else TableSettings.model_validate(table).model_dump(mode="json"),
        "settings": MiningSettings.model_validate(spec["settings"]).model_dump(mode="json"),
        "correlation": spec.get("correlation"),
        "funnel": None,
    }
    if status["rules"] is not None:
        document = row["document"] if row["state"] == "done" else None
        document = document or resources.redis.get(resources.settings.key(f"{names.JOB_DOCUMENT}:{job}"))
        details["funnel"] = None if document is None else json.loads(document)["funnel"]
    return status | details


def _read(resources, job):
    with resources.ledger.database.read() as connection:
        query = text("SELECT * FROM maabo_jobs WHERE id = :job")
        row = connection.execute(query, {"job": job}).mappings().one()
    return row, json.loads(row["spec"])
