"""`/v1/jobs/{job}/apply` and `/check`: the rules of a job on another stored table, in a reader process."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from maabo_dist.contract.checks import CheckReport
from maabo_dist.contract.result import ResultDocument
from scheduler.api import reader_process
from scheduler.api.datasets import DatasetId, find_dataset
from scheduler.api.dependencies import Caller, Submitter
from scheduler.api.jobs import JobPath, find_job
from scheduler.api.problems import documented
from scheduler.api.received import require_file
from scheduler.api.results import PARTIAL, get_document
from scheduler.api.routing import Router, run_while_connected
from scheduler.api.uploads import MAX_NAME, PARQUET_TYPE
from scheduler.ledger.tenants import DatasetRow

router = Router(prefix="/v1/jobs", tags=["results"])

MAX_KEPT = 1000
CHUNK_BYTES = 1 << 18
MEDIA_TYPES = {"csv": "text/csv", "parquet": PARQUET_TYPE}
ROWS, MATCHED = "Maabo-Rows", "Maabo-Matched"
_PROBLEMS = documented(
    "invalid-settings", "invalid-dataset", "not-found", "conflict", "no-rules-yet", "too-large", "busy"
)
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_COUNT = {"schema": {"type": "integer"}}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A row for each row of the table: `row`, the columns to keep, `matches`, `decided_by`, "
        "`predicted` and `reason`",
        "content": dict.fromkeys(MEDIA_TYPES.values(), _BINARY),
        "headers": {
            ROWS: {**_COUNT, "description": "Rows of the table"},
            MATCHED: {**_COUNT, "description": "Rows that at least one rule matches"},
            PARTIAL: {"schema": {"enum": ["true", "false"]}, "description": "`true` if the search was still running"},
        },
    },
    **_PROBLEMS,
}
ColumnName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class RulesApplication(BaseModel):
    """A stored table to apply rules to."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [{"dataset": "d41f0c9be4a1", "keep": ["id"]}]}
    )

    dataset: DatasetId
    format: Literal["parquet", "csv"] = "parquet"
    # Columns of the table to copy.
    keep: Annotated[tuple[ColumnName, ...], Field(max_length=MAX_KEPT)] = ()


class RulesCheck(BaseModel):
    """A stored table with known classes to check rules on."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"dataset": "d41f0c9be4a1", "target": "survived"}]},
    )

    dataset: DatasetId
    # The column that holds the classes; by default the target of the job.
    target: ColumnName | None = None
    # Level of the tests, which are corrected for the number of rules.
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.05


@router.post("/{job}/apply", responses=_FILE, response_class=StreamingResponse)
async def apply_rules(request: Request, job: JobPath, caller: Submitter, body: RulesApplication) -> StreamingResponse:
    """Return which rules match each row of a stored table, the predicted class and the reason, as a file."""
    table, document = await run_in_threadpool(_find, caller, job, body.dataset)
    with caller.api.tables.scratch.new_folder() as folder:
        _write_rules(Path(folder), document)
        work = caller.api.tables.run("apply", table, Path(folder), format=body.format, keep=list(body.keep))
        answer = await run_while_connected(request, work)
        # An open file can be read after its folder is removed, so that nothing remains if the client goes away.
        file = (Path(folder) / reader_process.MATCHES_FILE).open("rb")
    headers = {
        "Content-Length": str(os.fstat(file.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="matches.{body.format}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        ROWS: str(answer["rows"]),
        MATCHED: str(answer["matched"]),
        PARTIAL: "true" if document.running else "false",
    }
    return StreamingResponse(_read_chunks(file), media_type=MEDIA_TYPES[body.format], headers=headers)


@router.post("/{job}/check", responses=_PROBLEMS)
async def check_rules(request: Request, job: JobPath, caller: Submitter, body: RulesCheck) -> CheckReport:
    """Measure the rules on a stored table with known classes: which still hold, which drifted and which failed."""
    table, document = await run_in_threadpool(_find, caller, job, body.dataset)
    with caller.api.tables.scratch.new_folder() as folder:
        _write_rules(Path(folder), document)
        options = {"target": body.target, "significance": body.significance, "title": table.name}
        answer = await run_while_connected(request, caller.api.tables.run("check", table, Path(folder), **options))
    return CheckReport.model_validate(answer["report"] | {"notes": answer["notes"]})


def _find(caller: Caller, job: str, dataset: str) -> tuple[DatasetRow, ResultDocument]:
    table = require_file(find_dataset(caller, dataset), "a check of rules")
    return table, get_document(caller, find_job(caller, job))


def _write_rules(folder: Path, document: ResultDocument) -> None:
    (folder / reader_process.RULES_FILE).write_text(document.to_text(), encoding="utf-8")


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
