"""`Service`: what the routes of one server share. It keeps nothing that another server would need to know."""

from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from scheduler.api.http_meters import HttpMeters
from scheduler.api.settings import ServiceSettings
from scheduler.api.tables import Tables
from scheduler.resources import Parts


@dataclass(slots=True)
class Service:
    """The parts of the cluster, and the settings of this server."""

    parts: Parts
    settings: ServiceSettings
    tables: Tables
    meters: HttpMeters
    _tokens: bool = field(default=False, repr=False)

    def needs_tokens(self) -> bool:
        """Whether a token was ever made. Once one was, that stays so: revoking all of them opens nothing."""
        if not self._tokens:
            self._tokens = self.settings.require_token or self.parts.ledger.registry.any_token()
        return self._tokens


def service_of(request: Request) -> Service:
    """The server that a request came to."""
    state: Any = request.app.state
    service: Service = state.service
    return service
