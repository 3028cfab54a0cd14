"""The queries of alerts, dashboard and autoscaling, and what each of them needs to find."""

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
"""Metrics that Prometheus itself makes."""
VARIABLES = {"$__rate_interval": "1m"}


@dataclass(frozen=True, slots=True)
class Needed:
    """A metric, and the labels by which it is chosen and grouped."""

    metric: str
    labels: frozenset[str]


def alerts():
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard():
    return json.loads((MONITORING / "grafana" / "dashboards" / "maabo.json").read_text())


def queries():
    """All of them, by where they stand."""
    (trigger,) = yaml.safe_load(AUTOSCALING.read_text())["spec"]["triggers"]
    found = {"autoscaling": trigger["metadata"]["query"]}
    found |= {f"alert {name}": rule["expr"] for name, rule in alerts().items()}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            found[f"panel {panel['title']} {target['refId']}"] = _filled(target["expr"])
    return found


def needed(query):
    """What a query asks Prometheus for."""
    return list(_needed(promql_parser.parse(query), frozenset()))


def _filled(expression):
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
    """Debian's package prometheus brings promtool and prometheus."""
    found = shutil.which(name)
    if found is None:
        complain = pytest.fail if os.environ.get("MAABO_TEST_PROMETHEUS") == "1" else pytest.skip
        complain(f"there is no {name} here")
    return found
