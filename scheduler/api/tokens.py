"""`/v1/tokens` and `/v1/quotas`: who may call, and how much a tenant may have. For operators."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.job import Name
from scheduler.api.auth import Admin, Reader
from scheduler.api.problems import NotFoundError, documented
from scheduler.api.state import api_state
from scheduler.ledger.quotas import QuotaRow
from scheduler.ledger.tokens import SCOPES, TokenRow, make_token

router = APIRouter(prefix="/v1", tags=["access"])

LONGEST = 10 * 366 * 86400.0
TokenPath = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", examples=["0123456789ab"])]
TenantPath = Annotated[str, Path(min_length=1, max_length=200)]
Bound = Annotated[int, Field(ge=0, le=2**53, strict=True)]
_PROBLEMS = documented("invalid-document", "invalid-settings", "unauthorized", "forbidden")


class TokenRequest(BaseModel):
    """A token that is asked for."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"tenant": "sales", "scopes": ["read", "submit"], "expires_seconds": 2592000}]},
    )

    tenant: Name = "default"
    name: Annotated[str, Field(max_length=200)] = ""
    """For people: what it is used for."""
    scopes: Annotated[list[Literal["read", "submit", "admin"]], Field(min_length=1, max_length=len(SCOPES))] = [
        "read",
        "submit",
    ]
    expires_seconds: Annotated[float, Field(gt=0, le=LONGEST)] | None = None
    """From now; None for a token that does not expire."""


class Token(BaseModel):
    """What is known of a token. Its text is known to whoever made it, and to nobody else."""

    id: str
    tenant: str
    name: str
    scopes: list[str]
    created: float
    expires: float | None
    revoked: float | None

    @classmethod
    def of(cls, row: TokenRow) -> "Token":
        """From the ledger's row."""
        return cls(**_told(row))


class MadeToken(Token):
    """A token as it is made."""

    token: str
    """Shown this once."""


class Quota(BaseModel):
    """What a tenant may have; null for no limit."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"queued": 100, "running": 4}]})

    queued: Bound | None = None
    """Jobs that wait, paused ones too."""
    running: Bound | None = None
    """Jobs that run side by side; more of them wait."""
    bytes: Bound | None = None
    """Of tables."""
    trees: Bound | None = None
    """In one job."""


class QuotaUse(Quota):
    """What a tenant may have, and what it has."""

    tenant: str
    bytes_stored: int


@router.post("/tokens", status_code=201, responses=_PROBLEMS)
def create_token(request: Request, asked: TokenRequest, _admin: Admin) -> MadeToken:
    """Make a token. The first one ends the time in which anyone on the machine may call."""
    resources = api_state(request).resources
    scopes = frozenset(asked.scopes)
    made = make_token(asked.tenant, scopes, resources.clock(), name=asked.name, seconds=asked.expires_seconds)
    resources.ledger.tokens.add(made.row)
    return MadeToken(**_told(made.row), token=made.text)


@router.get("/tokens", responses=_PROBLEMS)
def list_tokens(
    request: Request, _admin: Admin, tenant: Annotated[str | None, Query(max_length=200)] = None
) -> list[Token]:
    """All tokens that were made, the oldest first."""
    return [Token.of(row) for row in api_state(request).resources.ledger.tokens.of_tenant(tenant)]


@router.delete("/tokens/{token}", status_code=204, responses=_PROBLEMS | documented("not-found"))
def revoke_token(request: Request, token: TokenPath, _admin: Admin) -> None:
    """From now on the token is of no use."""
    resources = api_state(request).resources
    if not resources.ledger.tokens.revoke(token, resources.clock()):
        raise NotFoundError(f"There is no token {token} that is valid.", field="token", remedy="GET /v1/tokens.")


@router.get("/quota", responses=_PROBLEMS)
def get_quota(request: Request, caller: Reader) -> QuotaUse:
    """What the caller's tenant may have, and what it has."""
    ledger = api_state(request).resources.ledger
    return _use(ledger.quotas.get(caller.tenant), ledger.datasets.bytes_stored(caller.tenant))


@router.put("/quotas/{tenant}", responses=_PROBLEMS)
def set_quota(request: Request, tenant: TenantPath, quota: Quota, _admin: Admin) -> QuotaUse:
    """Say what a tenant may have; what it has already stays."""
    ledger = api_state(request).resources.ledger
    row = QuotaRow(tenant, quota.queued, quota.running, quota.bytes, quota.trees)
    ledger.quotas.set(row)
    return _use(row, ledger.datasets.bytes_stored(tenant))


def _use(row: QuotaRow, stored: int) -> QuotaUse:
    return QuotaUse(
        tenant=row.tenant,
        queued=row.queued,
        running=row.running,
        bytes=row.bytes,
        trees=row.trees,
        bytes_stored=stored,
    )


def _told(row: TokenRow) -> dict[str, object]:
    return {
        "id": row.id,
        "tenant": row.tenant,
        "name": row.name,
        "scopes": sorted(row.scopes, key=SCOPES.index),
        "created": row.created,
        "expires": row.expires,
        "revoked": row.revoked,
    }
