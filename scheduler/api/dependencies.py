"""Dependencies of the routes: the state of the API process, the caller with its permissions, and pages of lists.

A token that was looked up within the last second is not looked up again. A token that is revoked through this process
stops working immediately.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from maabo_dist._util.network import is_loopback
from maabo_dist.contract.job import Obstacle
from maabo_dist.errors import SettingsError
from scheduler.api.lookups import SharedCalls
from scheduler.api.problems import ForbiddenError, UnauthorizedError, correlation_of
from scheduler.api.rates import RateLimits, TokenUses
from scheduler.api.settings import ApiSettings
from scheduler.api.tables import Tables
from scheduler.ledger import Ledger
from scheduler.ledger.audit import AuditEntry
from scheduler.ledger.tenants import SCOPES, TokenRow
from scheduler.resources import Resources

if TYPE_CHECKING:
    from scheduler.api.details import Rendered  # which imports this module
    from scheduler.api.monitoring import ApiMetrics  # which imports this module


DEFAULT_TENANT = "default"
OUTAGE_SECONDS = 1.0
REST_SECONDS = 0.02  # between calls for which nobody waits
KEEP_SECONDS = 0.1  # that values are remembered under load
Key = TypeVar("Key")
Value = TypeVar("Value")
Loader = Callable[["ApiState", Sequence[Key]], Mapping[Key, Value | Exception]]


@dataclass(slots=True)
class ApiState:
    """Connections to the cluster and the settings of this process; nothing that other API processes need."""

    resources: Resources
    settings: ApiSettings
    tables: Tables
    metrics: "ApiMetrics"
    limits: RateLimits
    uses: TokenUses
    funnels: dict[str, dict[str, Any] | None] = field(default_factory=dict, repr=False)  # of jobs that are done
    statuses: "dict[str, Rendered]" = field(default_factory=dict, repr=False)  # by job
    details: "dict[str, Rendered]" = field(default_factory=dict, repr=False)
    _outages: tuple[float, dict[str, Obstacle]] = field(default=(0.0, {}), repr=False)
    _tokens_exist: bool = field(default=False, repr=False)
    _calls: dict[Any, SharedCalls[Any, Any]] = field(default_factory=dict, repr=False)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the cluster."""
        return self.resources.ledger

    def current_outages(self) -> dict[str, Obstacle]:
        """Return what schedulers cannot use, by scheduler; at most a second old."""
        if monotonic() - self._outages[0] > OUTAGE_SECONDS:
            self._outages = monotonic(), self.ledger.outages.by_owner()
        return self._outages[1]

    async def needs_tokens(self) -> bool:
        """True once any token has been created, even if all tokens have been revoked since."""
        if not self._tokens_exist:
            self._tokens_exist = self.settings.require_token or bool(await self.call(_find_any_token, None))
        return self._tokens_exist

    async def call(self, load: Loader[Key, Value], key: Key, *, at_once: bool = False) -> Value | None:
        """Return the value that `load` finds for a key, together with the keys of other requests.

        A call that takes long, compared with the handling of requests, should begin `at_once`.
        """
        shared = self._shared(load, turns=0) if at_once else self._shared(load)
        value: Value | None = await shared.get(key)
        return value

    async def read(self, load: Loader[Key, Value], key: Key) -> Value | None:
        """Like `call`, but under load the value may be up to `KEEP_SECONDS` old.

        It is not older than the last `forget`, which follows every request that may have written something.
        """
        value: Value | None = await self._shared(load, keep=KEEP_SECONDS).get(key)
        return value

    def forget(self) -> None:
        """Have everything read again: no later `read` returns what was loaded, or began to be loaded, before."""
        for shared in self._calls.values():
            shared.forget()

    def start(self, load: Loader[Key, Value], key: Key) -> None:
        """Have `load` called with a key, together with those of other requests, without waiting for it.

        It is called at once, but not again within `REST_SECONDS`, so that many requests share a call.
        """
        self._shared(load, rest=REST_SECONDS).start(key)

    def _shared(self, load: Loader[Key, Value], **options: Any) -> SharedCalls[Key, Value]:
        if load not in self._calls:
            self._calls[load] = SharedCalls(partial(load, self), **options)
        return self._calls[load]


def _find_any_token(api: ApiState, keys: Sequence[None]) -> dict[None, bool]:
    return dict.fromkeys(keys, api.ledger.tokens.any_exist())


def _find_tokens(api: ApiState, texts: Sequence[str]) -> dict[str, TokenRow]:
    return api.ledger.tokens.find_many(texts)


def api_state(request: Request) -> ApiState:
    """Return the state of the application that handles this request."""
    state: ApiState = request.app.state.api
    return state


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant that sent a request, its permissions, and the API that it called."""

    tenant: str
    scopes: frozenset[str]
    api: ApiState
    token: str | None = None  # ID of the token, if tokens are needed
    address: str | None = None
    correlation: str | None = None

    def entry(self, action: str, object_id: str) -> AuditEntry:
        """Return an entry for the audit log."""
        now = self.api.resources.clock()
        return AuditEntry(now, action, object_id, self.tenant, self.token, self.address, self.correlation)

    def record(self, action: str, object_id: str) -> None:
        """Add an entry to the audit log."""
        self.api.ledger.audit.add(self.entry(action, object_id))

    def may(self, scope: str) -> bool:
        """True if the caller has this scope."""
        return scope in self.scopes or (scope == "read" and "submit" in self.scopes)


def find_token(ledger: Ledger, authorization: str | None, now: float) -> TokenRow:
    """Return the token of an `Authorization` header."""
    return _check_token(ledger.tokens.find(_token_text(authorization)), now)


def _token_text(authorization: str | None) -> str:
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthorizedError("The request has no token.", remedy="Send the header `Authorization: Bearer maabo_…`.")
    return text


def _check_token(row: TokenRow | None, now: float) -> TokenRow:
    """Return a valid token; the error does not reveal why it is not valid."""
    if row is None or not row.is_valid(now):
        raise UnauthorizedError(
            "The token is not valid: it is unknown, revoked or expired.",
            remedy="Ask the operator for a new one, created with `maabo token create`.",
        )
    return row


async def authorize(request: Request, scope: str) -> Caller:
    """Return the caller of a request, who must have this scope; `request.state.caller` is set for later use.

    Until the first token is created, every request from this machine has all permissions.
    """
    caller = request.state.caller = await _find_caller(request)
    caller.api.limits.check(caller.tenant)
    if not caller.may(scope):
        raise ForbiddenError(
            f"This needs the scope {scope!r}; the token has {', '.join(sorted(caller.scopes))}.",
            remedy=f"Use a token created with --scopes {scope}.",
        )
    return caller


async def _find_caller(request: Request) -> Caller:
    api = api_state(request)
    address, correlation = request.client.host if request.client else None, correlation_of(request)
    if not await api.needs_tokens():
        _check_local(request)
        return Caller(DEFAULT_TENANT, frozenset(SCOPES), api, None, address, correlation)
    text = _token_text(request.headers.get("authorization"))
    found = api.ledger.tokens.find_recent(text) or await api.call(_find_tokens, text)
    row = _check_token(found, api.resources.clock())
    caller = Caller(row.tenant, row.scopes, api, row.id, address, correlation)
    if api.uses.is_new(row.id, address):
        await run_in_threadpool(caller.record, "token.use", row.id)
    return caller


@dataclass(frozen=True, slots=True)
class CallerDependency:
    """Declares that a route needs a scope. The route itself has checked it (`routing.AuthorizedRoute`)."""

    scope: str

    async def __call__(self, request: Request) -> Caller:
        """Return the caller."""
        caller: Caller = request.state.caller
        return caller


Reader = Annotated[Caller, Depends(CallerDependency("read"))]
Submitter = Annotated[Caller, Depends(CallerDependency("submit"))]
Admin = Annotated[Caller, Depends(CallerDependency("admin"))]


def _check_local(request: Request) -> None:
    """Reject other hosts, and web pages of other sites that are open in a browser on this machine."""
    host = request.url.hostname
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if not is_loopback(host or "") or foreign:
        raise ForbiddenError(
            f"No token has been created yet: only this machine has access, not {origin or host!r}.",
            remedy="Create a token with `maabo token create`.",
        )


MAX_PAGE = 200
Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Items per page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]


def cut_page(
    items: Sequence[Item], limit: int, position: Callable[[Item], tuple[float | str, ...]]
) -> tuple[list[Item], str | None]:
    """Return the first items, up to the limit, and a cursor if there are more.

    A cursor contains the position of the last item: its sort key, which stays valid when items are added.
    """
    page = list(items[:limit])
    if len(items) <= limit:
        return page, None
    return page, urlsafe_b64encode(json.dumps(position(page[-1])).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *types: type) -> tuple[Any, ...] | None:
    """Return the position of a cursor; its values must have these types."""
    if cursor is None:
        return None
    try:
        position = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        position = None
    if not isinstance(position, list) or [type(part) for part in position] != list(types):
        raise SettingsError(
            f"cursor: {cursor[:50]!r} is not a valid cursor.", field="cursor", remedy="Give `next` of a page."
        )
    return tuple(position)
