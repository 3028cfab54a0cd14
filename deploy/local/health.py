"""Health checks of the components of a local cluster. A component that does not answer is not healthy."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from deploy.local.plan import LOOPBACK, Component, Plan, worker_node
from deploy.local.supervisor import Process
from deploy.shared import http_problem
from maabo_dist.cluster.broker import BROKER_ERRORS, make_celery
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names

PING_SECONDS = 0.25
HTTP_SECONDS = 0.5
_REACHABLE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104 - to connect to, not to listen on  # nosec B104


class HealthChecks:
    """Checks the components of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Without retries, because the supervisor must not block.
        self._redis: Any = open_redis(plan.settings, timeout=1, retries=0)
        self._celery = make_celery(plan.settings)
        self._scheduler_pid: int | None = None

    def __call__(self, components: Sequence[tuple[Component, Process]]) -> set[str]:
        """Return the names of the healthy ones among these components."""
        healthy = {component.name for component, process in components if self._answers_http(component, process)}
        with suppress(*BROKER_ERRORS):
            self._redis.ping()  # all others need Redis
            for component, process in components:
                if component.role == "redis" or (component.role == "scheduler" and self._scheduler_ready(process)):
                    healthy.add(component.name)
            healthy |= self._answering_workers([c.name for c, _ in components if c.role == "worker"])
        return healthy

    def _answers_http(self, component: Component, process: Process) -> bool:
        host, port, path = LOOPBACK, self._plan.http_port, "/healthz"
        if component.role == "flower":
            host = _REACHABLE.get(self._plan.flower_host, self._plan.flower_host)
            port, path = self._plan.flower_port, "/healthcheck"
        elif component.role != "service" or "listening on" not in process.output():
            return False  # without that line in the log, another program may answer at this port
        return not http_problem(host, port, path, HTTP_SECONDS)

    def _scheduler_ready(self, process: Process) -> bool:
        """True once its record is in Redis, or its log says so. The record of an earlier process is deleted first."""
        key = self._plan.settings.key(names.CLUSTER)
        if process.pid != self._scheduler_pid:
            self._redis.delete(key)
            self._scheduler_pid = process.pid
        return bool(self._redis.exists(key)) or "ready as" in process.output()

    def _answering_workers(self, workers: Sequence[str]) -> set[str]:
        if not workers:
            return set()
        nodes = {worker_node(name): name for name in workers}
        replies = self._celery.control.ping(destination=list(nodes), timeout=PING_SECONDS)
        return {nodes[node] for reply in replies or () for node in reply if node in nodes}
