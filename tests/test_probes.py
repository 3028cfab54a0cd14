"""Mining with probes: they take part in everything, and are never shown."""

import json
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from maabo_dist.contract.result import load_schema
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.columns import Feature, FeatureKind, add_probes
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.tables import to_csv, to_markdown
from maabo_dist.rules.publishing import rules_digest
from maabo_dist.settings import MiningSettings
from tests import factories

WAYS = {
    "paper": {},
    "supported": {"literals": "supported", "significance": 0.5},
    "screened": {"preset": "auto", "trees": 150, "probes": 60},
    "by rows": {"similarity_by": "rows"},
    "single": {"strategy": "single"},
    "patient": {"patience": 40},
}


def a_table(signal=0.9, rows=600, features=12, seed=4):
    """Return a table in which feature 0 large and feature 1 small mostly give yes; the others are noise."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(features, rows))
    right = (matrix[0] > 0) & (matrix[1] < 0.3)
    return factories.columns_of(matrix, rng.random(rows) < np.where(right, signal, 0.2))


def with_columns(columns, count):
    """Return the columns together with probes as ordinary columns."""
    probed = add_probes(columns, count, 0)
    features = (Feature(f"x{index}", f"x{index}", FeatureKind.NUMBER) for index in range(probed.count))
    return replace(probed, features=tuple(features))


def mined(columns, **settings):
    return mine(columns, MiningSettings(**{"probes": 24, "min_samples": 20, "gini": 0.5, "trees": 400, **settings}))


@pytest.mark.parametrize("settings_kind", WAYS)
def test_no_probe_is_ever_shown(settings_kind):
    columns = a_table()

    result = mined(columns, **WAYS[settings_kind])

    document = result_document(result, {"name": "table"})
    Draft202012Validator(load_schema()).validate(json.loads(document.to_text()))
    assert result.rules
    assert result.noise.probes == WAYS[settings_kind].get("probes", 24)
    assert all(feature < columns.count for rule in result.rules for feature, _ in rule.logic)
    assert "probe " not in json.dumps(document.to_json()["rules"]) + to_csv(document) + to_markdown(document)
    assert document.dataset.fingerprint == columns.fingerprint
    assert document.dataset.features == 12


def test_the_search_is_the_same_as_if_probes_were_columns():
    columns = a_table()

    with_them, as_columns = mined(columns), mined(with_columns(columns, 24), probes=0)

    assert with_them.plan == as_columns.plan
    assert with_them.search.best_score == as_columns.search.best_score
    assert with_them.funnel.distinct == as_columns.funnel.distinct
    assert with_them.noise.rules == len(as_columns.rules)


def test_where_no_rule_uses_a_probe_the_rules_are_those_of_the_same_leaves():
    columns = a_table()

    result = mined(columns, literals="supported", significance=0.01)
    as_columns = mined(with_columns(columns, 24), probes=0, literals="supported", significance=0.01)

    assert (result.noise.with_probe, result.noise.share, result.noise.low) == (0, 0.0, 0.0)
    assert rules_digest(result.rules, result.classes) == as_columns.digest


def test_probes_show_that_a_table_without_signal_has_none():
    result = mined(a_table(signal=0.2), gini=0.9, literals="paper")

    assert result.rules
    assert result.noise.high == 1.0
    assert result.noise.share > 0.5


def test_without_probes_nothing_is_estimated():
    assert mined(a_table(), probes=0).noise is None


def test_a_bundled_table_is_mined_with_probes_on_any_number_of_threads():
    columns = prepare(*load_bundled("diabetes")).columns
    settings = MiningSettings(probes=10, trees=60, seed=3)

    results = [mine(columns, settings, jobs=jobs) for jobs in (1, 3)]

    assert results[0].digest == results[1].digest
    assert results[0].noise == results[1].noise
