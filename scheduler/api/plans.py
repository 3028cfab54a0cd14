"""`/v1/plans`: what a job would be, for whoever is about to ask for one. Nothing is queued and nothing kept."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from maabo_dist.report.plan_summary import explained
from maabo_dist.report.wording import large_number
from maabo_dist.search.plan import SearchPlan, core_seconds, round_trip_seconds
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.auth import Submitter
from scheduler.api.models import JOB_EXAMPLE, DatasetId
from scheduler.api.problems import NotFoundError, documented
from scheduler.api.state import api_state
from scheduler.api.tables import PreparedColumns

router = APIRouter(prefix="/v1/plans", tags=["jobs"])

_PROBLEMS = documented(
    *("invalid-document", "invalid-settings", "invalid-dataset", "unauthorized", "forbidden", "not-found", "too-large")
)


class PlanRequest(BaseModel):
    """A job that might be asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()


class Plan(BaseModel):
    """What it would be."""

    features: int
    """That the table gives, probes included."""
    rows: int
    classes: int
    space: str
    """How many subsets of features there are, in all digits: more than most languages' numbers hold."""
    space_text: str
    """The same for people: `161,700`, `1.3×10¹²`."""
    subset_sizes: list[int]
    trees: int
    batch: int
    initial: int
    screened: bool
    """Whether pairs of features are looked at first."""
    core_seconds: float
    """About how long one core is busy with it."""
    round_trip_seconds: float
    """About how long it waits for messages on their way, beside that."""
    explained: list[str]
    """What was chosen, and why."""
    notes: list[str]
    """What became of the table, and what of the settings does not fit it."""

    @classmethod
    def of(cls, plan: SearchPlan, columns: PreparedColumns, settings: MiningSettings) -> "Plan":
        """From what the settings become for these columns."""
        return cls(
            features=plan.features,
            rows=columns.rows,
            classes=columns.classes,
            space=str(plan.space_size),
            space_text=large_number(plan.space_size),
            subset_sizes=list(plan.sizes),
            trees=plan.trees,
            batch=plan.batch,
            initial=plan.initial,
            screened=plan.screened,
            core_seconds=core_seconds(plan, settings, rows=columns.rows, classes=columns.classes),
            round_trip_seconds=round_trip_seconds(plan),
            explained=list(explained(plan, settings)),
            notes=[*columns.notes, *plan.notes],
        )


@router.post("", responses=_PROBLEMS)
def make_plan(request: Request, asked: PlanRequest, caller: Submitter) -> Plan:
    """What a job would be: the size of its search, the choices made for it, about how long it takes.

    Refused is what `POST /v1/jobs` would refuse, quotas aside.
    """
    api = api_state(request)
    table = api.resources.ledger.datasets.get(caller.tenant, asked.dataset)
    if table is None:
        raise NotFoundError(
            f"There is no table {asked.dataset}.", field="dataset", remedy="Upload it with POST /v1/datasets."
        )
    columns = api.tables.prepared(table, asked.table, keep=False)
    plan = SearchPlan.settle(asked.settings, columns.features + asked.settings.probes)
    return Plan.of(plan, columns, asked.settings)
