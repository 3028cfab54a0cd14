"""`/v1/audit`: who did what, for operators."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse

from maabo_dist.contract.api import AuditRecord, Page
from scheduler.api.dependencies import Admin, Cursor, Limit, cut_page, decode_cursor
from scheduler.api.problems import documented
from scheduler.api.routing import Router
from scheduler.ledger.audit import AuditFilter, AuditRow

router = Router(prefix="/v1/audit", tags=["access"])

LINES = "application/x-ndjson"
_PROBLEMS = documented("invalid-settings")
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "One JSON object per line", "content": {LINES: {"schema": {"type": "string"}}}},
    **_PROBLEMS,
}
Text = Annotated[str | None, Query(max_length=200)]
Moment = Annotated[float | None, Query(allow_inf_nan=False, description="Seconds since the epoch.")]


def _filter(
    tenant: Text = None,
    token: Text = None,
    action: Text = None,
    object: Text = None,  # noqa: A002 - the name in the log
    since: Moment = None,
    until: Moment = None,
) -> AuditFilter:
    return AuditFilter(tenant, token, action, object, since, until)


Chosen = Annotated[AuditFilter, Depends(_filter)]


@router.get("", responses=_PROBLEMS)
def list_audit(admin: Admin, chosen: Chosen, limit: Limit = 50, cursor: Cursor = None) -> Page[AuditRecord]:
    """List actions, newest first."""
    position = decode_cursor(cursor, int)
    before = None if position is None else position[0]
    rows = admin.api.ledger.audit.page(chosen, before=before, limit=limit + 1)
    page, following = cut_page(rows, limit, lambda row: (row.number,))
    return Page[AuditRecord](items=[AuditRecord(**asdict(row)) for row in page], next=following)


@router.get("/export", response_class=StreamingResponse, response_model=None, responses=_EXPORT)
def export_audit(admin: Admin, chosen: Chosen) -> StreamingResponse:
    """Return all actions as JSON lines, oldest first."""
    return StreamingResponse(_lines(admin.api.ledger.audit.export(chosen)), media_type=LINES)


def _lines(rows: Iterator[AuditRow]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(asdict(row)) + "\n"
