"""`ApiState`: what the routes of one server share. It keeps nothing that another server would need to know."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import Request

from scheduler.api.settings import ApiSettings
from scheduler.api.tables import Tables
from scheduler.resources import Resources

if TYPE_CHECKING:
    from scheduler.api.metrics import ApiMetrics  # which imports this module


@dataclass(slots=True)
class ApiState:
    """The parts of the cluster, and the settings of this server."""

    resources: Resources
    settings: ApiSettings
    tables: Tables
    meters: "ApiMetrics"
    _tokens: bool = field(default=False, repr=False)

    def needs_tokens(self) -> bool:
        """Whether a token was ever made. Once one was, that stays so: revoking all of them opens nothing."""
        if not self._tokens:
            self._tokens = self.settings.require_token or self.resources.ledger.tokens.any_exist()
        return self._tokens


def api_state(request: Request) -> ApiState:
    """The server that a request came to."""
    state: Any = request.app.state
    api: ApiState = state.api
    return api
