"""`/v1/tokens` and `/v1/quotas`: access and limits of tenants, for operators."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from maabo_dist.contract.api import CreatedToken, Quota, Token
from maabo_dist.contract.job import Name
from scheduler.api.dependencies import Admin, ApiState, Reader
from scheduler.api.problems import NotFoundError, documented
from scheduler.api.routing import Router
from scheduler.ledger.tenants import SCOPES, QuotaRow, make_token

router = Router(prefix="/v1", tags=["access"])

MAX_SECONDS = 10 * 366 * 86400.0
TokenPath = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", examples=["0123456789ab"])]
TenantPath = Annotated[str, Path(min_length=1, max_length=200)]
Scope = Literal["read", "submit", "admin"]
Bound = Annotated[int, Field(ge=0, le=2**53, strict=True)]
_PROBLEMS = documented("invalid-settings")


class TokenRequest(BaseModel):
    """A token to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"tenant": "sales", "scopes": ["read", "submit"], "expires_seconds": 2592000}]},
    )

    tenant: Name = "default"
    name: Annotated[str, Field(max_length=200)] = ""  # A description of its purpose
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))] = ["read", "submit"]
    # Seconds from now; null for a token that does not expire.
    expires_seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None


class QuotaLimits(BaseModel):
    """The limits of a tenant; null for no limit."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"queued": 100, "running": 4}]})

    queued: Bound | None = None  # jobs that wait, including paused ones
    running: Bound | None = None  # jobs that run at the same time; further ones wait
    bytes: Bound | None = None  # total size of the tenant's tables and of the columns prepared from them
    trees: Bound | None = None  # trees of a single job


@router.post("/tokens", status_code=201, responses=_PROBLEMS)
def create_token(body: TokenRequest, admin: Admin) -> CreatedToken:
    """Create a token. Once the first one exists, every request needs a token."""
    now, scopes = admin.api.resources.clock(), frozenset(body.scopes)
    created = make_token(body.tenant, scopes, now, name=body.name, seconds=body.expires_seconds)
    admin.api.ledger.tokens.add(created.row, admin.entry("token.create", created.row.id))
    return CreatedToken(**created.row.public_fields, token=created.text)


@router.get("/tokens", responses=_PROBLEMS)
def list_tokens(admin: Admin, tenant: Annotated[str | None, Query(max_length=200)] = None) -> list[Token]:
    """List all tokens, including expired and revoked ones, oldest first."""
    return [Token(**row.public_fields) for row in admin.api.ledger.tokens.of_tenant(tenant)]


@router.delete("/tokens/{token}", status_code=204, responses=_PROBLEMS | documented("not-found"))
def revoke_token(token: TokenPath, admin: Admin) -> None:
    """Revoke a token, effective immediately."""
    entry = admin.entry("token.revoke", token)
    if not admin.api.ledger.tokens.revoke(token, admin.api.resources.clock(), entry=entry):
        raise NotFoundError(
            f"There is no valid token {token}.", field="token", remedy="GET /v1/tokens lists all tokens."
        )


@router.get("/quota", responses=_PROBLEMS)
def get_quota(caller: Reader) -> Quota:
    """Return the limits of the caller's tenant and its current use."""
    return _quota(caller.api, caller.api.ledger.quotas.get(caller.tenant))


@router.put("/quotas/{tenant}", responses=_PROBLEMS)
def set_quota(tenant: TenantPath, limits: QuotaLimits, admin: Admin) -> Quota:
    """Replace all four limits of a tenant; omit one to remove it. Existing jobs and tables are not affected.

    The limits of the tenant `*` apply to all tenants without limits of their own.
    """
    row = QuotaRow(tenant, **limits.model_dump())
    admin.api.ledger.quotas.set(row)
    admin.record("quota.set", tenant)
    return _quota(admin.api, row)


def _quota(api: ApiState, row: QuotaRow) -> Quota:
    return Quota(**asdict(row), bytes_stored=api.ledger.datasets.bytes_stored(row.tenant))
