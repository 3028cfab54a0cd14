"""The queries of alerts, dashboard and autoscaling, and the metrics that they use."""

import json
import os
import shutil
from dataclasses import dataclass

import promql_parser
import pytest
import yaml

from tests.servers import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
AUTOSCALING = ROOT / "deploy" / "kubernetes" / "components" / "autoscaling" / "workers.yml"
OF_PROMETHEUS = {"up", "ALERTS"}
"""Metrics that Prometheus itself exposes."""
VARIABLES = {"$__rate_interval": "1m"}


@dataclass(frozen=True, slots=True)
class Needed:
    """A metric and the labels that a query selects or groups it by."""

    metric: str
    labels: frozenset[str]


def alerts():
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard():
    return json.loads((MONITORING / "grafana" / "dashboards" / "maabo.json").read_text())


def queries():
    """Return all queries by their location."""
    (trigger,) = yaml.safe_load(AUTOSCALING.read_text())["spec"]["triggers"]
    by_location = {"autoscaling": trigger["metadata"]["query"]}
    by_location |= {f"alert {name}": rule["expr"] for name, rule in alerts().items()}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            by_location[f"panel {panel['title']} {target['refId']}"] = _substitute_variables(target["expr"])
    return by_location


def needed(query):
    """Return the metrics that a query uses."""
    return list(_needed(promql_parser.parse(query), frozenset()))


def _substitute_variables(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"an unknown variable in {expression}"
    return expression


def _needed(node, grouped):
    if isinstance(node, promql_parser.MatrixSelector):
        node = node.vector_selector
    if isinstance(node, promql_parser.VectorSelector):
        yield Needed(node.name, grouped | {matcher.name for matcher in node.matchers.matchers})
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        grouped |= set(node.modifier.labels)
    for child in _children(node):
        yield from _needed(child, grouped)


def _children(node):
    named = (getattr(node, name, None) for name in ("expr", "lhs", "rhs"))
    return [child for child in (*named, *getattr(node, "args", ())) if child is not None]


def program(name):
    """Return the path of promtool or prometheus (Debian's package prometheus); skip the test without it."""
    path = shutil.which(name)
    if path is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_PROMETHEUS") == "1" else pytest.skip
        complain(f"{name} is not installed")
    return path
