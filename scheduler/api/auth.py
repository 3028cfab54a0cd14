"""Who calls, and what they may do.

Every request looks its token up, so a revoked token stops working immediately.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from maabo_dist._util.hosts import is_loopback
from scheduler.api.problems import ForbiddenError, UnauthorizedError
from scheduler.api.state import api_state
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.tokens import SCOPES

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant, and what it may do. `token` is None where none is needed."""

    tenant: str
    scopes: frozenset[str]
    token: str | None = None

    def may(self, scope: str) -> bool:
        """Whether this is permitted."""
        return scope in self.scopes or (scope == "read" and "submit" in self.scopes)


def find_caller(ledger: Ledger, authorization: str | None, now: float) -> Caller:
    """The caller of this `Authorization` header; one error for all that is wrong with a token."""
    kind, _, text = (authorization or "").partition(" ")
    if not authorization or kind.lower() != "bearer":
        raise UnauthorizedError(
            "No token came with the request.", remedy="Send the header `Authorization: Bearer maabo_…`."
        )
    row = ledger.tokens.find(text)
    if row is None or not row.is_valid(now):
        raise UnauthorizedError(
            "The token is not valid: it is unknown, was revoked or has expired.",
            remedy="Ask the operator for a new one; `maabo token create` makes it.",
        )
    return Caller(row.tenant, row.scopes, row.id)


def still_valid(ledger: Ledger, authorization: str | None, now: float) -> bool:
    """For answers that take long."""
    try:
        find_caller(ledger, authorization, now)
    except UnauthorizedError:
        return False
    return True


def caller_of(request: Request) -> Caller:
    """Whoever calls. Where nobody ever made a token, that is anyone on this machine."""
    api = api_state(request)
    ledger = api.resources.ledger
    if api.needs_tokens():
        return find_caller(ledger, request.headers.get("authorization"), api.resources.clock())
    _check_local(request)
    return Caller(DEFAULT_TENANT, frozenset(SCOPES))


def needs(scope: str) -> Callable[..., Any]:
    """A dependency: the caller, who must have this scope. One, and not two: each costs a change of threads."""

    def permitted(request: Request) -> Caller:
        return require(request, scope)

    return permitted


def require(request: Request, scope: str) -> Caller:
    """The caller, who must have this scope."""
    caller = caller_of(request)
    if not caller.may(scope):
        raise ForbiddenError(
            f"This needs the scope {scope!r}; the token has {', '.join(sorted(caller.scopes))}.",
            remedy=f"Use a token made with --scopes {scope}.",
        )
    return caller


Reader = Annotated[Caller, Depends(needs("read"))]
Submitter = Annotated[Caller, Depends(needs("submit"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


def _check_local(request: Request) -> None:
    """Without tokens, a page in a browser on this machine must not be able to call for somebody elsewhere."""
    host = request.url.hostname
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if not is_loopback(host or "") or foreign:
        raise ForbiddenError(
            f"No token has been made: only this machine may call, not {origin or host!r}.",
            remedy="Make a token with `maabo token create`.",
        )
