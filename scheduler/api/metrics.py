"""`/metrics`: the cluster's numbers and this server's own, for Prometheus."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from scheduler.api.callers import require
from scheduler.api.problems import documented
from scheduler.api.state import service_of

router = APIRouter(tags=["health"])

_TEXT = {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _TEXT, **documented("unauthorized", "forbidden")})
def metrics(request: Request) -> Response:
    """All metrics. They are the whole cluster's, and so the operator's, unless the server was told otherwise."""
    service = service_of(request)
    if not service.settings.open_metrics:
        require(request, "admin")
    return Response(service.meters.text(), media_type=CONTENT_TYPE_LATEST)
