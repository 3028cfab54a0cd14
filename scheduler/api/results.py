"""The formats that rules come in, and which of them a client wants."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from maabo_dist.cluster.store import load_figures
from maabo_dist.report import diff_documents, dump_document, fired, report_page, to_csv, to_markdown, to_sql
from maabo_dist.report.firing import predicted
from maabo_dist.report.html import content_policy
from scheduler.api.auth import Caller, Reader
from scheduler.api.jobs import JobPath, Result, owned, result_of
from scheduler.api.models import (
    Course,
    Cursor,
    ExplainedRow,
    Explanation,
    FiredRule,
    Limit,
    Page,
    RowsToExplain,
    Tree,
    cursor_of,
    place_of,
)
from scheduler.api.problems import ConflictError, NoRulesYetError, NotAcceptableError, NotFoundError, documented
from scheduler.api.state import ApiState, api_state
from scheduler.api.tree_reader import GrownTree, TreeReader
from scheduler.ledger.jobs import JobRow


class RulesFormat(StrEnum):
    """As `format` names them."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    SQL = "sql"

    @property
    def media_type(self) -> str:
        """As `Accept` names them."""
        return MEDIA_TYPES[self]


MEDIA_TYPES = {
    RulesFormat.JSON: "application/json",
    RulesFormat.CSV: "text/csv",
    RulesFormat.MARKDOWN: "text/markdown",
    RulesFormat.SQL: "application/sql",
}
_QUALITY = re.compile(r"[01](\.\d{0,3})?")


@dataclass(frozen=True, slots=True)
class _Range:
    """One of the things that a client takes: `text/csv`, `text/*`, `*/*`."""

    kind: str
    form: str
    quality: float

    def fits(self, media_type: str) -> int:
        """How exactly it names the type; 0 if it does not."""
        kind, form = media_type.split("/")
        if (self.kind, self.form) == (kind, form):
            return 3
        return {(kind, "*"): 2, ("*", "*"): 1}.get((self.kind, self.form), 0)


def wanted_format(accept: str | None, asked: RulesFormat | None = None) -> RulesFormat:
    """What was asked for by name, or else what `Accept` likes best; of equals the first of ours."""
    if asked is not None:
        return asked
    ranges = [found for part in (accept or "*/*").split(",") if (found := _read(part)) is not None]
    qualities = {each: _quality(each.media_type, ranges) for each in RulesFormat}
    best = max(RulesFormat, key=lambda each: qualities[each])
    if qualities[best] <= 0:
        raise NotAcceptableError(
            f"Rules come as {', '.join(MEDIA_TYPES.values())}; Accept is {(accept or '')[:200]!r}.",
            field="Accept",
            remedy="Accept one of these, or give ?format=json, csv, markdown or sql.",
        )
    return best


def _quality(media_type: str, ranges: Sequence[_Range]) -> float:
    """Of the range that names the type most exactly."""
    fitting = [(found.fits(media_type), found.quality) for found in ranges if found.fits(media_type)]
    return max(fitting, default=(0, 0.0))[1]


def _read(text: str) -> _Range | None:
    """A part of the header; None where it is not one."""
    name, *parameters = (part.strip() for part in text.lower().split(";"))
    kind, sign, form = name.partition("/")
    if not (kind and sign and form):
        return None
    given = dict(parameter.partition("=")[::2] for parameter in parameters)
    quality = given.get("q", "1").strip()
    return _Range(kind, form, min(1.0, float(quality)) if _QUALITY.fullmatch(quality) else 0.0)


router = APIRouter(prefix="/v1/jobs", tags=["results"])

TABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_$.-]{0,127}$"
PARTIAL = "Maabo-Partial"
COURSE = 1000
"""Trees that a search's course is told by."""
_SAFE = {"X-Content-Type-Options": "nosniff"}
_ONE = documented("invalid-document", "unauthorized", "forbidden", "not-found")
_OF_RULES = documented(
    "invalid-document", "unauthorized", "forbidden", "not-found", "conflict", "no-rules-yet", "not-acceptable"
)
_PAGE_PROBLEMS = documented("invalid-document", "invalid-settings", "unauthorized", "forbidden", "not-found")
_HEADERS: dict[str, Any] = {
    PARTIAL: {"schema": {"enum": ["true", "false"]}, "description": "Whether the search was not over"},
    "ETag": {"schema": {"type": "string"}, "description": "Of final rules"},
}
_RULES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rules: final, or those so far",
        "headers": _HEADERS,
        "content": {MEDIA_TYPES[each]: {"schema": {"type": "string"}} for each in RulesFormat}
        | {"application/json": {"schema": {"type": "object", "required": ["format", "digest", "partial", "rules"]}}},
    },
    304: {"description": "The client has these rules already", "headers": {"ETag": _HEADERS["ETag"]}},
    **_OF_RULES,
}

_HTML: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The page", "headers": _HEADERS, "content": _HTML},
    304: _RULES[304],
    **_OF_RULES,
}

Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


@router.get("/{job}/rules", response_class=Response, responses=_RULES)
def get_rules(
    request: Request,
    job: JobPath,
    caller: Reader,
    form: Annotated[RulesFormat | None, Query(alias="format", description="Instead of Accept.")] = None,
    table_name: Annotated[str, Query(pattern=TABLE_NAME, description="In SQL.")] = "data",
    known: Known = None,
) -> Response:
    """The rules of a job, final or so far, as JSON, CSV, Markdown or SQL."""
    api = api_state(request)
    row = owned(api, caller, job)
    chosen = wanted_format(request.headers.get("accept"), form)
    result = _result(api, row)
    headers = _headers(result, f"{chosen.value} {table_name}") | {"Vary": "Accept, Authorization"}
    if "ETag" in headers and _knows(known, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(_written(result, chosen, table_name), media_type=chosen.media_type, headers=headers)


@router.get("/{job}/trees", responses=_PAGE_PROBLEMS)
def list_trees(
    request: Request,
    job: JobPath,
    caller: Reader,
    order: Annotated[Literal["search", "best"], Query(description="As they were proposed, or by score.")] = "search",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Tree]:
    """The trees that were grown so far. `best` goes through all of them for each page."""
    api = api_state(request)
    row = owned(api, caller, job)
    trees = _trees(api, row, order, cursor, limit + 1)
    if not row.state.ended and (now := owned(api, caller, job)).state.ended:  # they went to the store meanwhile
        trees = _trees(api, now, order, cursor, limit + 1)
    shown = trees[:limit]
    place = cursor_of(*_place(shown[-1], order)) if len(trees) > limit else None
    return Page[Tree](items=[Tree.of(tree) for tree in shown], next=place)


@router.get("/{job}/course", responses=_ONE)
def get_course(request: Request, job: JobPath, caller: Reader) -> Course:
    """How the search went: the scores of its trees, of very many those of up to 1000 from all over it."""
    api = api_state(request)
    row = owned(api, caller, job)
    found = TreeReader(api.resources, row).spread(COURSE)
    if not row.state.ended and (now := owned(api, caller, job)).state.ended:  # they went to the store meanwhile
        row, found = now, TreeReader(api.resources, now).spread(COURSE)
    return Course.of(row.trees, found)


@router.post("/{job}/explain", responses=_OF_RULES | documented("invalid-document", "invalid-dataset", "too-large"))
def explain_rows(request: Request, job: JobPath, caller: Reader, asked: RowsToExplain) -> Explanation:
    """Which rules fire for each of up to 1000 rows."""
    api = api_state(request)
    row = owned(api, caller, job)
    result = _result(api, row)
    table, document = row.spec.dataset.settings, result.document
    found = fired(document, asked.rows, frozenset(table.na_values if table else ()))
    rules = [document["rules"][place] for place in sorted({place for places in found for place in places})]
    return Explanation(
        partial=not result.final,
        digest=document["digest"],
        rules={
            rule["id"]: FiredRule(text=rule["text"], predicts=rule["class"], n=rule["n"], gini=rule["gini"])
            for rule in rules
        },
        rows=[
            ExplainedRow(
                rules=[document["rules"][place]["id"] for place in places], predicts=predicted(document, places)
            )
            for places in found
        ],
    )


@router.get("/{job}/report", response_class=Response, responses=_PAGE)
def get_report(request: Request, job: JobPath, caller: Reader, known: Known = None) -> Response:
    """The rules as a page for people, in one file that loads nothing."""
    api = api_state(request)
    row = owned(api, caller, job)
    result = _result(api, row)
    headers = _headers(result, "html") | {
        "Content-Security-Policy": f"{content_policy()}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
    }
    if "ETag" in headers and _knows(known, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    exhibits = load_figures(api.resources.store, row.id) if result.final else None
    page = report_page(result.document, exhibits)
    return Response(page, media_type="text/html", headers=headers)


@router.get("/{job}/exhibits", responses=_OF_RULES)
def get_exhibits(request: Request, job: JobPath, caller: Reader) -> dict[str, Any]:
    """What the pictures of the report are drawn from: histograms, trees, covered rows, the search's course."""
    api = api_state(request)
    row = owned(api, caller, job)
    _result(api, row)
    exhibits = load_figures(api.resources.store, row.id)
    if exhibits is None:
        raise NotFoundError(f"There are no exhibits of job {job}.", remedy="They come with the final rules.")
    return exhibits


@router.get("/{job}/diff/{other}", responses=_OF_RULES)
def diff_jobs(request: Request, job: JobPath, other: JobPath, caller: Reader) -> dict[str, Any]:
    """What is different between the rules of two jobs: those only in one, those whose thresholds or evidence moved."""
    api = api_state(request)
    one, two = (_side(api, caller, name) for name in (job, other))
    found = diff_documents(one.document, two.document)
    for name, side, result in (("one", job, one), ("other", other, two)):
        found[name] |= {"job": side, "partial": not result.final}
    return found


def _side(api: ApiState, caller: Caller, job: str) -> Result:
    return _result(api, owned(api, caller, job))


def _result(api: ApiState, row: JobRow) -> Result:
    result = result_of(api.resources, row)
    if result is not None:
        return result
    if row.state.ended:
        raise ConflictError(
            f"Job {row.id} is {row.state.value}, and has no rules.", remedy="GET /v1/jobs/{id} says why it ended."
        )
    raise NoRulesYetError(
        f"Job {row.id} is {row.state.value}: nobody has looked for rules yet.",
        remedy="Follow GET /v1/jobs/{id}/events, or ask again soon.",
    )


def _headers(result: Result, form: str) -> dict[str, str]:
    """Final rules never change, but may only be shown to who may see them: caches have to ask."""
    headers = _SAFE | {PARTIAL: "false" if result.final else "true"}
    if not result.final:
        return headers | {"Cache-Control": "no-store"}
    tag = sha256(f"{result.document['version']} {result.document['digest']} {form}".encode()).hexdigest()[:32]
    return headers | {"Cache-Control": "private, no-cache", "ETag": f'"{tag}"'}


def _knows(known: str | None, tag: str) -> bool:
    """Whether the client has it; weak tags do, since nothing is sent."""
    given = [each.strip().removeprefix("W/") for each in (known or "").split(",")]
    return tag in given or "*" in given


def _written(result: Result, form: RulesFormat, table_name: str) -> str:
    """Rules so far say so themselves where the format has room for it."""
    match form:
        case RulesFormat.JSON:
            return dump_document(result.document | {"partial": not result.final})
        case RulesFormat.CSV:
            return to_csv(result.document)
        case RulesFormat.MARKDOWN:
            said = "" if result.final else "*Rules so far: the search is not over.*\n\n"
            return said + to_markdown(result.document)
        case RulesFormat.SQL:
            said = "" if result.final else "-- partial: rules so far, the search is not over\n"
            return said + to_sql(result.document, table_name)


def _trees(api: ApiState, row: JobRow, order: str, cursor: str | None, most: int) -> list[GrownTree]:
    if order == "best":
        place = place_of(cursor, float, int)
        return TreeReader(api.resources, row).best(None if place is None else (float(place[0]), int(place[1])), most)
    after = place_of(cursor, int)
    return TreeReader(api.resources, row).in_order(0 if after is None else int(after[0]) + 1, most)


def _place(tree: GrownTree, order: str) -> tuple[float | str, ...]:
    return (tree.number,) if order == "search" else (float(tree.score or 0.0), tree.number)
