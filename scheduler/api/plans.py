"""`/v1/plans`: preview a job."""

from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool

from maabo_dist.contract.wording import large_number
from maabo_dist.search.explanation import explain_plan
from maabo_dist.search.plan import SearchPlan, core_seconds, round_trip_seconds
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import check_classes
from scheduler.api.datasets import DatasetId, find_dataset
from scheduler.api.dependencies import Submitter
from scheduler.api.estimates import count_processes, estimate_seconds, read_slowdown
from scheduler.api.problems import documented
from scheduler.api.received import require_file
from scheduler.api.routing import Router, run_while_connected
from scheduler.api.tables import ColumnsRequest, PreparedColumns
from scheduler.resources import Resources

router = Router(prefix="/v1", tags=["jobs"])

_PROBLEMS = documented("invalid-settings", "invalid-dataset", "not-found", "too-large")
JOB_EXAMPLE: dict[str, Any] = {
    "dataset": "d41f0c9be4a1",
    "table": {"target": "survived", "exclude": ["name", "ticket"]},
    "settings": {"seed": 5, "trees": 200, "holdout": 0.2},
}


class PlanRequest(BaseModel):
    """A table and settings. Names are those of the options of `maabo mine`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId  # ID of an uploaded table
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()


class Plan(BaseModel):
    """The search that a job would run."""

    features: int  # number of features, including probes
    rows: int
    classes: int
    space: str  # number of subsets of features, as text because it can exceed the integers of most languages
    space_text: str  # the same, abbreviated: `161,700`, `1.3×10¹²`
    subset_sizes: list[int]
    trees: int
    batch: int
    initial: int
    screened: bool  # True if pairs of features are screened before the search
    core_seconds: float  # estimated work, in seconds of one core
    round_trip_seconds: float  # estimated additional time for messages between scheduler and workers
    processes: int | None  # tasks that the workers can run at the same time; null if that is not known
    seconds: float  # estimated time from the start to the end if these workers have nothing else to do
    explained: list[str]  # the choices made for this search, with their reasons
    leaks: list[str]  # columns that nearly repeat the target: what they say may only be known after it
    notes: list[str]  # changes made to the table, and settings that do not fit it


@router.post("/plans", responses=_PROBLEMS)
async def make_plan(request: Request, body: PlanRequest, caller: Submitter) -> Plan:
    """Preview a job: the size of its search, the choices made for it and its estimated duration.

    Rejects whatever `POST /v1/jobs` would reject, except for quotas.
    """
    table = require_file(await run_in_threadpool(find_dataset, caller, body.dataset), "a plan")
    names = body.settings.names_columns
    preparation = caller.api.tables.prepare(ColumnsRequest(table, body.table, keep=False, names=names))
    columns = await run_while_connected(request, preparation)
    return await run_in_threadpool(_explain, body, columns, caller.api.resources)


def settle(body: PlanRequest, columns: PreparedColumns) -> SearchPlan:
    """Check the settings against the table, and return the search that they describe."""
    check_classes(columns.classes, body.settings)
    return SearchPlan.settle(
        body.settings,
        columns.features + body.settings.probes,
        columns.column_names,
        rows=columns.rows,
        classes=len(columns.classes),
        rarest=columns.rarest,
        independent=columns.independent,
    )


def count_trees(body: PlanRequest, columns: PreparedColumns) -> int:
    """Check the settings against the table, and return the number of trees that the job would grow.

    Faster than `settle`, which also decides what the screens count: they have no effect on the number of trees.
    """
    check_classes(columns.classes, body.settings)
    features = columns.features + body.settings.probes
    return SearchPlan.settle(body.settings, features, columns.column_names).trees


def _explain(body: PlanRequest, columns: PreparedColumns, resources: Resources) -> Plan:
    plan, processes = settle(body, columns), count_processes(resources)
    return Plan(
        features=plan.features,
        rows=columns.rows,
        classes=len(columns.classes),
        space=str(plan.space_size),
        space_text=large_number(plan.space_size),
        subset_sizes=list(plan.sizes),
        trees=plan.trees,
        batch=plan.batch,
        initial=plan.initial,
        screened=plan.screened,
        core_seconds=core_seconds(plan, body.settings, rows=columns.rows, classes=len(columns.classes)),
        round_trip_seconds=round_trip_seconds(plan),
        processes=processes,
        seconds=estimate_seconds(plan, body.settings, columns, processes, read_slowdown(resources)),
        explained=list(
            explain_plan(
                plan,
                body.settings,
                rows=columns.rows,
                classes=len(columns.classes),
                independent=columns.independent,
            )
        ),
        leaks=list(columns.leaks),
        notes=[*columns.notes, *plan.notes],
    )
