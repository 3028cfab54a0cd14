"""The configuration of Prometheus, the alerts and the dashboard, checked with promtool."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.queries import MONITORING, alerts, dashboard, needed, program, queries
from tests.servers import ROOT


def promtool(*arguments, **where):
    return subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False, **where)


def test_prometheus_accepts_the_configuration(tmp_path):
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    for name in ("metrics/token", "flower/password"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("only-for-tests")
    text = (MONITORING / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/maabo/", f"{tmp_path}/"))

    run = promtool("check", "config", "prometheus.yml", cwd=tmp_path)

    assert run.returncode == 0, run.stderr
    assert f"{len(alerts())} rules found" in run.stdout


def test_alerts_fire_when_they_should_and_not_before():
    run = promtool("test", "rules", "alerts.test.yml", cwd=MONITORING)

    assert run.returncode == 0, run.stderr + run.stdout


def test_every_alert_has_a_test():
    text = (MONITORING / "alerts.test.yml").read_text()

    assert [name for name in alerts() if f'alertname="{name}"' not in text] == []


@pytest.mark.parametrize("name", alerts())
def test_an_alert_has_a_description_and_a_link_to_instructions(name):
    rule = alerts()[name]

    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{name.lower()}"


def test_there_are_instructions_for_every_alert_and_no_others():
    text = (ROOT / "docs" / "operations.md").read_text()

    assert re.findall(r"^### (Maabo\w+)$", text, re.MULTILINE) == list(alerts())


def test_queries_count_a_value_once_however_many_servers_expose_it():
    """Check that sums are over `max by`."""
    for where, query in queries().items():
        for part in needed(query):
            ours = part.metric.startswith("maabo_") and not part.metric.startswith("maabo_http_")
            if ours and "sum" in query and "NoProgress" not in where:  # which asks only whether there was any
                assert "max by" in query or "max(" in query, where


def test_panels_of_the_dashboard_do_not_overlap_and_have_unique_names():
    panels = dashboard()["panels"]
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels) == len({panel["title"] for panel in panels})
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels if panel["type"] != "row")


def _cells(position):
    columns, rows = (
        range(position["x"], position["x"] + position["w"]),
        range(position["y"], position["y"] + position["h"]),
    )
    return [(x, y) for x in columns for y in rows]


def test_grafana_finds_the_dashboard_and_its_prometheus():
    provisioning = MONITORING / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "maabo.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "maabo.yml").read_text())["providers"]
    (variable,) = dashboard()["templating"]["list"]

    assert (variable["type"], variable["current"]["value"]) == ("datasource", source["uid"])
    assert (source["type"], provider["type"]) == ("prometheus", "file")
