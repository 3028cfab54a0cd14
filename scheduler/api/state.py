"""`ApiState`: what all routes of one API process share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request

from scheduler.api.settings import ApiSettings
from scheduler.api.tables import Tables
from scheduler.ledger.ledger import Ledger
from scheduler.resources import Resources

if TYPE_CHECKING:
    from scheduler.api.metrics import ApiMetrics  # which imports this module


@dataclass(slots=True)
class ApiState:
    """Connections to the cluster and the settings of this process; nothing that other API processes need."""

    resources: Resources
    settings: ApiSettings
    tables: Tables
    metrics: "ApiMetrics"
    _tokens_exist: bool = field(default=False, repr=False)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the cluster."""
        return self.resources.ledger

    def needs_tokens(self) -> bool:
        """True once any token has been created, even if all tokens have been revoked since."""
        if not self._tokens_exist:
            self._tokens_exist = self.settings.require_token or self.ledger.tokens.any_exist()
        return self._tokens_exist


def api_state(request: Request) -> ApiState:
    """Return the state of the application that handles this request."""
    state: ApiState = request.app.state.api
    return state
