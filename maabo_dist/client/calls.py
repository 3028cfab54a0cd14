"""What can be asked of a server: each call is a flow, from its arguments to the value that comes back."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from maabo_dist.client.answers import checked, json_of
from maabo_dist.client.orders import Order
from maabo_dist.client.retries import Retrying, answered
from maabo_dist.client.shapes import Dataset, Explanation, JobStatus, MadeToken, Quota, Token, Tree, parsed, read
from maabo_dist.client.steps import Answer, Emit, Flow, Request
from maabo_dist.client.stream import Event
from maabo_dist.client.uploads import Upload
from maabo_dist.client.waiting import succeeded, watched

Shape = TypeVar("Shape", bound=BaseModel)
_JSON = {"Content-Type": "application/json"}
_PAGE = 200
MOST_ROWS = 1000
"""In one call of explain."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls, each tried again as `retrying` says where that is safe."""

    retrying: Retrying = field(default_factory=Retrying)

    # Tables.

    def upload(self, table: Upload) -> Flow[Dataset]:
        """Bring a table. The same file again is the same table, so that this may be repeated."""
        headers = {"Content-Type": table.media_type}
        request = Request(
            "POST", "/v1/datasets", {"name": table.name}, headers, table.content, repeatable=True, slow=True
        )
        return read(Dataset, (yield from self._answered(request)))

    def dataset(self, dataset: str) -> Flow[Dataset]:
        """One table."""
        return read(Dataset, (yield from self._get(f"/v1/datasets/{_id(dataset)}")))

    def datasets(self) -> Flow[None]:
        """Emit all tables."""
        return self._pages("/v1/datasets", {}, Dataset)

    def delete_dataset(self, dataset: str) -> Flow[None]:
        """Forget a table."""
        return self._delete(f"/v1/datasets/{_id(dataset)}")

    # Jobs.

    def submit(self, dataset: str, order: Order) -> Flow[tuple[JobStatus, bool]]:
        """Ask for a job; the key makes it one, however often it is asked for. Also says whether it is a new one."""
        headers = _JSON | {"Idempotency-Key": order.key or uuid4().hex}
        body = json.dumps({"dataset": dataset} | order.to_json()).encode()
        request = Request("POST", "/v1/jobs", {}, headers, body, repeatable=True, slow=True)
        answer = yield from self._answered(request)
        return read(JobStatus, answer), answer.status == 202

    def jobs(self, state: str | None = None, dataset: str | None = None) -> Flow[None]:
        """Emit the status of all jobs, the newest first."""
        wanted = {"state": state, "dataset": dataset}
        return self._pages("/v1/jobs", {name: text for name, text in wanted.items() if text is not None}, JobStatus)

    def status(self, job: str) -> Flow[JobStatus]:
        """Where a job stands."""
        return read(JobStatus, (yield from self._get(_job(job))))

    def wish(self, job: str, wish: str) -> Flow[JobStatus]:
        """Ask for a change: pause, resume or cancel."""
        return read(JobStatus, (yield from self._answered(Request("POST", f"{_job(job)}/{wish}"))))

    def delete_job(self, job: str) -> Flow[None]:
        """Forget a job that has ended."""
        return self._delete(_job(job))

    def events(self, job: str, after: str | None = None) -> Flow[JobStatus]:
        """Emit what happens to a job until it has ended, from the event after this id on."""
        return watched(f"{_job(job)}/events", lambda: self.status(job), after=after)

    def wait(
        self, job: str, timeout: float | None = None, on_event: Callable[[Event], object] | None = None
    ) -> Flow[JobStatus]:
        """The status of a job when it is done. `on_event` hears what happens until then."""
        status = yield from self.status(job)
        if not status.state.ended:
            watching = watched(f"{_job(job)}/events", lambda: self.status(job), timeout)
            status = yield from _told(watching, on_event)
        return succeeded(status)

    # Results.

    def document(self, job: str) -> Flow[dict[str, Any]]:
        """The rules as the JSON of `maabo mine`: final, or so far while the job runs."""
        document: dict[str, Any] = json_of((yield from self._get(f"{_job(job)}/rules")))
        return document

    def explain(self, job: str, rows: Sequence[Mapping[str, Any]]) -> Flow[Explanation]:
        """Which rules fire for rows, asked in parts of as many as a server takes."""
        parts: list[Explanation] = []
        for start in range(0, max(1, len(rows)), MOST_ROWS):
            body = json.dumps({"rows": rows[start : start + MOST_ROWS]}).encode()
            request = Request("POST", f"{_job(job)}/explain", {}, _JSON, body, repeatable=True)
            parts.append(read(Explanation, (yield from self._answered(request))))
        return Explanation(
            partial=parts[-1].partial,
            digest=parts[-1].digest,
            rules={name: rule for part in parts for name, rule in part.rules.items()},
            rows=tuple(row for part in parts for row in part.rows),
        )

    def report(self, job: str) -> Flow[str]:
        """A page for people, as HTML."""
        return checked((yield from self._get(f"{_job(job)}/report", slow=True))).content.decode()

    def trees(self, job: str, order: str = "search") -> Flow[None]:
        """Emit all trees, in the order of the search or the best first."""
        return self._pages(f"{_job(job)}/trees", {"order": order}, Tree)

    def diff(self, job: str, other: str) -> Flow[dict[str, Any]]:
        """What is different between the rules of two jobs."""
        found: dict[str, Any] = json_of((yield from self._get(f"{_job(job)}/diff/{_id(other)}")))
        return found

    # Access.

    def create_token(
        self, tenant: str, scopes: Iterable[str], expires_seconds: float | None, name: str
    ) -> Flow[MadeToken]:
        """Make a token; not repeated, since each time makes one."""
        asked = {"tenant": tenant, "scopes": list(scopes), "expires_seconds": expires_seconds, "name": name}
        return read(MadeToken, (yield from self._answered(_post("/v1/tokens", asked))))

    def tokens(self, tenant: str | None = None) -> Flow[list[Token]]:
        """All tokens that were made."""
        answer = yield from self._get("/v1/tokens", {} if tenant is None else {"tenant": tenant})
        return [parsed(Token, item, answer) for item in json_of(answer)]

    def revoke_token(self, token: str) -> Flow[None]:
        """From now on the token is of no use."""
        return self._delete(f"/v1/tokens/{_id(token)}")

    def quota(self) -> Flow[Quota]:
        """What the caller's tenant may have, and what it has."""
        return read(Quota, (yield from self._get("/v1/quota")))

    def set_quota(self, tenant: str, limits: Mapping[str, int | None]) -> Flow[Quota]:
        """Say what a tenant may have."""
        body = json.dumps(dict(limits)).encode()
        request = Request("PUT", f"/v1/quotas/{_id(tenant)}", {}, _JSON, body, repeatable=True)
        return read(Quota, (yield from self._answered(request)))

    def ready(self) -> Flow[dict[str, str]]:
        """The parts of the cluster, each with `ok` or what is wrong."""
        answer = yield from answered(Request("GET", "/readyz"), self.retrying)
        return dict(json_of(Answer(200, answer.headers, answer.content, answer.server)).get("parts", {}))

    def _answered(self, request: Request) -> Flow[Answer]:
        return checked((yield from answered(request, self.retrying)))

    def _get(self, path: str, params: Mapping[str, str] | None = None, *, slow: bool = False) -> Flow[Answer]:
        return self._answered(Request("GET", path, params or {}, repeatable=True, slow=slow))

    def _delete(self, path: str) -> Flow[None]:
        yield from self._answered(Request("DELETE", path, repeatable=True))

    def _pages(self, path: str, params: Mapping[str, str], kind: type[Shape]) -> Flow[None]:
        cursor: dict[str, str] = {}
        while True:
            answer = yield from self._get(path, {"limit": str(_PAGE), **params, **cursor})
            page = json_of(answer)
            for item in page["items"]:
                yield Emit(parsed(kind, item, answer))
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}


def _told(watching: Flow[JobStatus], on_event: Callable[[Event], object] | None) -> Flow[JobStatus]:
    """The same without what is emitted: that is told."""
    outcome: Any = None
    while True:
        try:
            step = watching.send(outcome)
        except StopIteration as end:
            status: JobStatus = end.value
            return status
        if isinstance(step, Emit):
            outcome = None
            if on_event is not None:
                on_event(step.value)
        else:
            outcome = yield step


def _post(path: str, value: object) -> Request:
    return Request("POST", path, {}, _JSON, json.dumps(value).encode())


def _job(job: str) -> str:
    return f"/v1/jobs/{_id(job)}"


def _id(text: str) -> str:
    """As one part of a path, whatever it holds."""
    from urllib.parse import quote

    return quote(text, safe="")
