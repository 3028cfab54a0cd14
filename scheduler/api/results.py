"""The results of a job: rules, trees, score history, explanations, report and comparison with another job."""

import gzip
import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.cluster.store import load_figures
from maabo_dist.contract.api import ExplainedRow, Explanation, MatchingRule, Page, Tree
from maabo_dist.contract.result import ResultDocument
from maabo_dist.report.diff import diff_documents
from maabo_dist.report.html import content_policy, report_page
from maabo_dist.report.sql import SqlDialect, SqlForm, to_sql
from maabo_dist.report.tables import to_csv, to_markdown
from maabo_dist.rules.matching import match_cells, predicted_classes
from scheduler.api.dependencies import Caller, Cursor, Limit, Reader, cut_page, decode_cursor
from scheduler.api.details import find_document
from scheduler.api.jobs import JobPath, find_job
from scheduler.api.problems import ConflictError, NoRulesYetError, NotAcceptableError, NotFoundError, documented
from scheduler.api.routing import Router
from scheduler.api.tree_reader import TreeReader
from scheduler.ledger.jobs import JobRow

router = Router(prefix="/v1/jobs", tags=["results"])


class RulesFormat(StrEnum):
    """The values of the parameter `format`."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    SQL = "sql"


MEDIA_TYPES = {
    RulesFormat.JSON: "application/json",
    RulesFormat.CSV: "text/csv",
    RulesFormat.MARKDOWN: "text/markdown",
    RulesFormat.SQL: "application/sql",
}
TABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_$.-]{0,127}$"
PARTIAL = "Maabo-Partial"
MAX_ROWS = 1000
Cell = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None
HISTORY_TREES = 1000  # maximum number of trees in a score history
_QUALITY = re.compile(r"[01](\.\d{0,3})?")
_JOB_PROBLEMS = documented("not-found")
_RULES_PROBLEMS = documented("not-found", "conflict", "no-rules-yet", "not-acceptable")
_LIST_PROBLEMS = documented("invalid-settings", "not-found")
_HEADERS: dict[str, Any] = {
    PARTIAL: {"schema": {"enum": ["true", "false"]}, "description": "`true` if the search was still running"},
    "ETag": {"schema": {"type": "string"}, "description": "For final rules"},
}


def _document_response(description: str, content: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"description": description, "headers": _HEADERS, "content": content},
        304: {"description": "The client has the current version", "headers": {"ETag": _HEADERS["ETag"]}},
        **_RULES_PROBLEMS,
    }


_TEXTS = {media_type: {"schema": {"type": "string"}} for media_type in MEDIA_TYPES.values()}
_JSON = {"application/json": {"schema": {"type": "object", "required": ["format", "digest", "partial", "rules"]}}}

IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


class RowsToExplain(BaseModel):
    """Rows with the columns of the table; null for a missing cell."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"rows": [{"sex": "female", "fare": 71.3, "age": None}]}]}
    )

    rows: Annotated[list[dict[str, Cell]], Field(min_length=1, max_length=MAX_ROWS)]


class ScoreHistory(BaseModel):
    """Scores of trees in the order of the search."""

    trees: int  # number of trees so far
    numbers: list[int]  # indexes of the trees shown, in increasing order, without failed ones
    scores: list[float]  # their macro F1 on the validation rows


@router.get(
    "/{job}/rules",
    response_class=Response,
    responses=_document_response("The rules, final or preliminary", _TEXTS | _JSON),
)
def get_rules(
    request: Request,
    job: JobPath,
    caller: Reader,
    format_: Annotated[RulesFormat | None, Query(alias="format", description="Instead of Accept.")] = None,
    table_name: Annotated[str, Query(pattern=TABLE_NAME, description="Name of the table in SQL.")] = "data",
    sql_dialect: Annotated[SqlDialect, Query(description="Database that the SQL is for.")] = "standard",
    sql_form: Annotated[SqlForm, Query(description="A query for each rule, or one CASE expression.")] = "queries",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return the rules of a job, final or preliminary, as JSON, CSV, Markdown or SQL."""
    row = find_job(caller, job)
    chosen = format_ or choose_format(request.headers.get("accept"))
    document = get_document(caller, row)
    variant = f"{chosen.value} {table_name} {sql_dialect} {sql_form}"
    headers = _headers(document, variant) | {"Vary": "Accept, Authorization, Accept-Encoding"}
    content = partial(_format_rules, document, chosen, lambda: to_sql(document, table_name, sql_dialect, sql_form))
    return _respond(request, content, MEDIA_TYPES[chosen], headers, if_none_match)


@router.get("/{job}/trees", responses=_LIST_PROBLEMS)
def list_trees(
    job: JobPath,
    caller: Reader,
    order: Annotated[
        Literal["search", "best"], Query(description="In the order of the search, or by score.")
    ] = "search",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Tree]:
    """List the trees of a job. `best` reads all trees for each page."""
    by_score = order == "best"
    after = decode_cursor(cursor, float, int) if by_score else decode_cursor(cursor, int)

    def read(reader: TreeReader) -> list[Tree]:
        if by_score:
            return reader.best(after, limit + 1)
        return reader.in_order(0 if after is None else after[0] + 1, limit + 1)

    _, trees = _read_trees(caller, job, read)
    page, following = cut_page(
        trees, limit, lambda tree: (float(tree.score or 0.0), tree.number) if by_score else (tree.number,)
    )
    return Page[Tree](items=page, next=following)


@router.get("/{job}/score-history", responses=_JOB_PROBLEMS)
def get_score_history(job: JobPath, caller: Reader) -> ScoreHistory:
    """Return the scores of trees in the order of the search; of more than 1000 trees, evenly spaced samples."""
    row, trees = _read_trees(caller, job, lambda reader: reader.sample(HISTORY_TREES))
    scores = {tree.number: tree.score for tree in trees if tree.score is not None}
    return ScoreHistory(trees=row.trees, numbers=list(scores), scores=list(scores.values()))


@router.post("/{job}/explain", responses=_RULES_PROBLEMS | documented("invalid-dataset", "too-large"))
def explain_rows(job: JobPath, caller: Reader, body: RowsToExplain) -> Explanation:
    """Return the rules that match each of up to 1000 rows."""
    row = find_job(caller, job)
    table, document = row.spec.dataset.settings, get_document(caller, row)
    rules, classes = document.rules, document.dataset.classes
    missing = frozenset(table.na_values if table else ())
    covered = match_cells([rule.premise for rule in rules], body.rows, missing)
    predictions = predicted_classes(covered, [[rule.counts[name] for name in classes] for rule in rules])
    return Explanation(
        partial=document.running,
        digest=document.digest,
        rules={
            rule.id: MatchingRule(text=rule.text, predicts=rule.label, n=rule.n, gini=rule.gini)
            for rule, matches in zip(rules, covered, strict=True)
            if matches.any()
        },
        rows=tuple(
            ExplainedRow(
                rules=tuple(rules[index].id for index in matches.nonzero()[0]),
                predicts=None if label is None else classes[label],
            )
            for matches, label in zip(covered.T, predictions, strict=True)
        ),
    )


@router.get(
    "/{job}/report",
    response_class=Response,
    responses=_document_response("The report", {"text/html": {"schema": {"type": "string"}}}),
)
def get_report(request: Request, job: JobPath, caller: Reader, if_none_match: IfNoneMatch = None) -> Response:
    """Return the report of a job: one HTML file that loads nothing else."""
    document = get_document(caller, find_job(caller, job))
    headers = _headers(document, "html") | {
        "Content-Security-Policy": f"{content_policy()}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "Vary": "Authorization, Accept-Encoding",
    }

    def page() -> str:
        figures = None if document.running else load_figures(caller.api.resources.store, job)
        return report_page(document, figures)

    return _respond(request, page, "text/html", headers, if_none_match)


@router.get("/{job}/figures", responses=_RULES_PROBLEMS)
def get_figures(job: JobPath, caller: Reader) -> dict[str, Any]:
    """Return the data of the report's figures: histograms, trees, covered rows and the score history."""
    get_document(caller, find_job(caller, job))
    figures = load_figures(caller.api.resources.store, job)
    if figures is None:
        raise NotFoundError(f"Job {job} has no figures yet.", remedy="They are available once the job is done.")
    return figures


@router.get("/{job}/diff/{other}", responses=_RULES_PROBLEMS)
def diff_jobs(job: JobPath, other: JobPath, caller: Reader) -> dict[str, Any]:
    """Compare the rules of two jobs: rules of only one, and rules with different thresholds or evidence."""
    one, two = (get_document(caller, find_job(caller, name)) for name in (job, other))
    diff = diff_documents(one, two)
    for side, name, document in (("one", job, one), ("other", other, two)):
        diff[side] |= {"job": name, "partial": document.running}
    return diff


def get_document(caller: Caller, row: JobRow) -> ResultDocument:
    """Return the result document of a job, final or preliminary; raise an error if it has none."""
    text = find_document(caller.api.resources, row)
    if text is not None:
        return ResultDocument.parse_text(text)
    if row.state.ended:
        raise ConflictError(
            f"Job {row.id} is {row.state.value} and has no rules.", remedy="GET /v1/jobs/{id} returns the reason."
        )
    raise NoRulesYetError(
        f"Job {row.id} is {row.state.value} and has no rules yet.",
        remedy="Follow GET /v1/jobs/{id}/events, or try again soon.",
    )


def _read_trees(caller: Caller, job: str, read: Callable[[TreeReader], list[Tree]]) -> tuple[JobRow, list[Tree]]:
    row = find_job(caller, job)
    trees = read(TreeReader(caller.api.resources, row))
    if not row.state.ended and (ended := find_job(caller, job)).state.ended:  # its trees have moved to the store
        row, trees = ended, read(TreeReader(caller.api.resources, ended))
    return row, trees


def _headers(document: ResultDocument, variant: str) -> dict[str, str]:
    """Final rules never change, but access to them can, so caches must revalidate."""
    headers = {"X-Content-Type-Options": "nosniff", PARTIAL: "true" if document.running else "false"}
    if document.running:
        return headers | {"Cache-Control": "no-store"}
    tag = sha256(f"{document.version} {document.digest} {variant}".encode()).hexdigest()[:32]
    return headers | {"Cache-Control": "private, no-cache", "ETag": f'"{tag}"'}


def _respond(
    request: Request, content: Callable[[], str], media_type: str, headers: dict[str, str], tags: IfNoneMatch
) -> Response:
    """Return a text, compressed if the client accepts it, or 304 if it has the current version; weak tags match too."""
    compressed = "gzip" in request.headers.get("accept-encoding", "")
    if compressed and "ETag" in headers:  # another representation has another tag
        headers = headers | {"ETag": f'{headers["ETag"][:-1]}-gzip"'}
    cached = [tag.strip().removeprefix("W/") for tag in (tags or "").split(",")]
    if "ETag" in headers and (headers["ETag"] in cached or "*" in cached):
        return Response(status_code=304, headers=headers)
    text = content()
    if not compressed:
        return Response(text, media_type=media_type, headers=headers)
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return Response(packed, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"})


def _format_rules(document: ResultDocument, format_: RulesFormat, write_sql: Callable[[], str]) -> str:
    """Return the rules as text; preliminary ones are marked if the format has comments."""
    match format_:
        case RulesFormat.JSON:
            return document.model_copy(update={"partial": document.running}).to_text()
        case RulesFormat.CSV:
            return to_csv(document)
        case RulesFormat.MARKDOWN:
            note = "*Rules so far: the search is still running.*\n\n" if document.running else ""
            return note + to_markdown(document)
        case RulesFormat.SQL:
            note = "-- partial: rules so far, the search is still running\n" if document.running else ""
            return note + write_sql()


def choose_format(accept: str | None) -> RulesFormat:
    """Return the format that `Accept` prefers; among equals, the first of `RulesFormat`."""
    ranges = _parse_accept(accept or "*/*")
    qualities: dict[RulesFormat, float] = {}
    for each, media_type in MEDIA_TYPES.items():
        candidates = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")  # the most specific range counts
        qualities[each] = next((ranges[name] for name in candidates if name in ranges), 0.0)
    best = max(RulesFormat, key=lambda each: qualities[each])
    if qualities[best] <= 0:
        raise NotAcceptableError(
            f"Rules are available as {', '.join(MEDIA_TYPES.values())}; Accept is {(accept or '')[:200]!r}.",
            field="Accept",
            remedy="Accept one of these, or give ?format=json, csv, markdown or sql.",
        )
    return best


def _parse_accept(accept: str) -> dict[str, float]:
    """Return the quality of each media range; 0 if it is not a valid number."""
    ranges: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        text = options.get("q", "1").strip()
        quality = min(1.0, float(text)) if _QUALITY.fullmatch(text) else 0.0
        ranges[name] = max(quality, ranges.get(name, 0.0))
    return ranges
