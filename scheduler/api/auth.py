"""Who calls, and what they may do.

Tokens look like `maabo_<id>_<secret>`. The ledger has the SHA-256 of the whole token: it is long and random, so that a
hash without salt says nothing of it. Every request looks its token up, so that one that was revoked stops at once.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from maabo_dist._util.hosts import is_loopback
from maabo_dist.errors import SettingsError
from scheduler.api.problems import ForbiddenError, UnauthorizedError
from scheduler.api.state import api_state
from scheduler.ledger.tenants import Registry, TokenRow

SCOPES = ("read", "submit", "admin")
"""Each but admin, which is about tokens and quotas, includes those before it."""
DEFAULT_TENANT = "default"
_TOKEN = re.compile(r"maabo_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant, and what it may do. `token` is None where none is needed."""

    tenant: str
    scopes: frozenset[str]
    token: str | None = None

    def may(self, scope: str) -> bool:
        """Whether this is permitted."""
        return scope in self.scopes or (scope == "read" and "submit" in self.scopes)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token as it is made: the only moment at which its text is known."""

    text: str
    row: TokenRow


def make_token(tenant: str, scopes: frozenset[str], now: float, *, name: str, seconds: float | None) -> NewToken:
    """A token that expires after so many seconds, or never."""
    unknown = sorted(scopes - set(SCOPES))
    if unknown or not scopes:
        named = ", ".join(unknown) or "none"
        raise SettingsError(
            f"Scopes are {', '.join(SCOPES)}; {named} was asked for.", field="scopes", remedy="Name some of these."
        )
    number = token_hex(6)
    text = f"maabo_{number}_{token_urlsafe(32)}"
    expires = None if seconds is None else now + seconds
    return NewToken(text, TokenRow(number, tenant, name, _hash(text), scopes, now, expires, None))


def find_caller(registry: Registry, authorization: str | None, now: float) -> Caller:
    """The caller of this `Authorization` header; one error for all that is wrong with a token."""
    kind, _, text = (authorization or "").partition(" ")
    if not authorization or kind.lower() != "bearer":
        raise UnauthorizedError(
            "No token came with the request.", remedy="Send the header `Authorization: Bearer maabo_…`."
        )
    row = registry.token_by_hash(_hash(text)) if _TOKEN.fullmatch(text.strip()) else None
    if row is None or not hmac.compare_digest(row.hash, _hash(text)) or not _valid(row, now):
        raise UnauthorizedError(
            "The token is not valid: it is unknown, was revoked or has expired.",
            remedy="Ask the operator for a new one; `maabo token create` makes it.",
        )
    return Caller(row.tenant, row.scopes, row.id)


def still_valid(registry: Registry, authorization: str | None, now: float) -> bool:
    """For answers that take long."""
    try:
        find_caller(registry, authorization, now)
    except UnauthorizedError:
        return False
    return True


def caller_of(request: Request) -> Caller:
    """Whoever calls. Where nobody ever made a token, that is anyone on this machine."""
    api = api_state(request)
    registry = api.parts.ledger.registry
    if api.needs_tokens():
        return find_caller(registry, request.headers.get("authorization"), api.parts.clock())
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


def _valid(row: TokenRow, now: float) -> bool:
    return row.revoked is None and (row.expires is None or now < row.expires)


def _hash(text: str) -> str:
    return sha256(text.strip().encode()).hexdigest()


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
