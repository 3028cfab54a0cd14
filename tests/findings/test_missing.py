"""Classes without a finding: the reasons are true, and the settings that are named show the rule."""

from functools import cache
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.reasons import option_texts
from maabo_dist.contract.selection import MissingReason
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.findings.missing import scaled_log_p
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.rules.rule import rule_text
from maabo_dist.settings import MiningSettings
from tests import factories
from tests.reference import findings as reference


def weak_table(seed, strength, rows=200, classes=2):
    """A table in which large values of the first column make the last class a little more frequent."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((5, rows)).round(2)
    labels = rng.integers(0, classes, rows)
    labels = np.where((matrix[0] > 0.7) & (rng.random(rows) < strength), classes - 1, labels)
    return factories.columns_of(matrix, labels, classes)


def texts(result):
    return {rule_text(rule, result.classes, result.target) for rule in result.rules}


def check_that_named_settings_show_the_rule(columns, options):
    """Mine with each setting that is named; return how many there were."""
    result = mine(columns, MiningSettings(**options))
    named = [record.nearest for record in result.missing_classes if record.nearest and record.nearest.shown_by]
    for nearest in named:
        shown = mine(columns, MiningSettings(**{**options, **nearest.shown_by}))
        assert nearest.text not in texts(result)
        assert nearest.text in texts(shown), (nearest, options)
    return len(named)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0, 0.7),
    st.integers(60, 300),
    st.integers(2, 3),
    st.sampled_from([{}, {"certify": "off"}, {"min_precision": 0.9}, {"max_p": 0.01}, {"all": True}, {"probes": 3}]),
)
def test_settings_that_are_named_show_the_rule(seed, strength, rows, classes, options):
    check_that_named_settings_show_the_rule(weak_table(seed, strength, rows, classes), options)


def test_weak_rules_have_settings_that_show_them():
    named = [check_that_named_settings_show_the_rule(weak_table(seed, 0.55), {"certify": "off"}) for seed in range(6)]

    assert sum(named) >= 6


@cache
def bundled(name):
    return prepare(*load_bundled(name)).columns


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("diabetes", {"min_precision": 0.995}, MissingReason.EXCLUDED),
        ("breast_cancer", {"min_lift": 2.6}, MissingReason.EXCLUDED),
        ("wine", {"min_samples": 110}, None),
        ("diabetes", {"gini": 0.01}, MissingReason.EXCLUDED),
        ("diabetes", {"gini": 0.01, "min_samples": 200, "min_precision": 0.99}, MissingReason.EXCLUDED),
        ("wine", {"max_rules": 1}, MissingReason.NOT_CHOSEN),
        ("wine", {"max_rules": 1, "all": True}, MissingReason.NOT_CHOSEN),
        ("wine", {"max_p": 1e-30}, MissingReason.UNCERTIFIED),
    ],
)
def test_limits_that_leave_a_class_out_are_named_with_a_value_that_shows_it(name, options, reason):
    options = {"trees": 60, "certify": "off", **options}
    result = mine(bundled(name), MiningSettings(**options))

    assert result.missing_classes
    assert {record.reason for record in result.missing_classes} <= ({reason} if reason else set(MissingReason))
    assert all(record.nearest.shown_by for record in result.missing_classes)
    assert check_that_named_settings_show_the_rule(bundled(name), options) == len(result.missing_classes)


def test_every_class_has_a_finding_or_a_reason():
    for name in ("wine", "breast_cancer", "diabetes"):
        result = mine(bundled(name), MiningSettings(trees=30))
        labels = {result.classes[rule.label] for rule in result.rules}

        missing = [record.label for record in result.missing_classes]
        assert sorted([*labels, *missing]) == sorted(result.classes)


def test_only_the_classes_that_were_asked_for_are_missing():
    result = mine(bundled("wine"), MiningSettings(trees=30, for_class=("class_1",), min_precision=1.0, min_lift=3.0))

    assert [record.label for record in result.missing_classes] == ["class_1"]


def test_a_class_of_few_rows_is_called_rare():
    rng = np.random.default_rng(3)
    matrix = rng.random((4, 120))
    labels = np.where(np.arange(120) < 2, 2, (matrix[0] > 0.5).astype(int))

    result = mine(factories.columns_of(matrix, labels, 3), MiningSettings(stratify=False))

    record = result.missing_classes[-1]
    assert (record.reason, record.rows) == (MissingReason.RARE, 2)
    assert "it has 2 mined rows, too few to certify even a rule without exceptions." in record.text


def test_a_rule_too_close_to_the_limit_is_said_to_be():
    columns = weak_table(13, 0.55, 150)
    result = mine(columns, MiningSettings(certify=24))

    close = [record.nearest for record in result.missing_classes if record.nearest and record.nearest.lacks_margin]
    for nearest in close:
        assert nearest.p <= 0.05 * (1 + 1e-9)
        assert nearest.shown_by["max_p"] == 0.05


def test_settings_of_a_search_that_may_differ_are_not_tried():
    columns = weak_table(2, 0.3)

    result = mine(columns, MiningSettings(certify="off", patience=5))

    assert result.missing_classes
    assert not any(record.nearest.shown_by for record in result.missing_classes if record.nearest)


def test_the_text_names_the_figures_the_options_and_the_rows():
    result = mine(weak_table(1, 0.55), MiningSettings(certify="off"))
    record = next(each for each in result.missing_classes if each.nearest and each.nearest.rows_needed)

    for part in (
        record.nearest.text,
        f"precision {record.nearest.precision:.2f} on {record.nearest.n} rows",
        f"{' '.join(option_texts(record.nearest.shown_by))} shows it.",
        f"If it holds at the same rate, about {record.nearest.rows_needed:,} rows would be enough.",
    ):
        assert part in record.text
    document = result_document(result, {"name": "weak"})
    assert [each.text for each in document.missing_classes] == [each.text for each in result.missing_classes]


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 80), st.integers(0, 80), st.floats(1, 20))
@settings(max_examples=60, deadline=None)
def test_evidence_of_a_larger_table_is_that_of_its_counts(hits, misses, other_hits, other_misses, factor):
    counts = [hits, hits + misses, hits + other_hits, hits + misses + other_hits + other_misses]

    expected = reference.log_p(*(int(factor * count) for count in counts))

    assert scaled_log_p(np.array(counts, float), factor) == pytest.approx(expected, abs=1e-8)


def test_about_as_many_rows_as_estimated_are_enough():
    """Rows are repeated, so that the rule holds at the same rate among as many possible rules."""
    checked = 0
    for seed in range(8):
        columns = weak_table(seed, 0.55)
        options = MiningSettings(certify="off", holdout=0)
        for record in mine(columns, options).missing_classes:
            if not record.nearest or not record.nearest.rows_needed or record.nearest.rows_needed > 2000:
                continue
            times = -(-record.nearest.rows_needed // columns.rows)
            larger = factories.columns_of(
                np.repeat(
                    [columns.values[columns.offsets[f] : columns.offsets[f + 1]][columns.codes[f]] for f in range(5)],
                    times,
                    axis=1,
                ),
                np.repeat(columns.labels, times),
                2,
            )
            result = mine(larger, options.model_copy(update={"all": True}))
            labels = {result.classes[rule.label] for rule in result.rules}
            assert record.label in labels
            checked += 1
    assert checked >= 3


def test_a_greatest_p_shows_rules_up_to_it():
    columns = weak_table(1, 0.7, 300)
    every = mine(columns, MiningSettings(certify="off", max_p=1.0, all=True))
    p_values = sorted(rule.certificate.p for rule in every.rules)

    some = mine(columns, MiningSettings(certify="off", max_p=p_values[0] * (1 + 1e-9), all=True))

    assert len(every.rules) == every.funnel.supported == every.funnel.certified
    assert 0 < len(some.rules) < len(every.rules)
    assert max(rule.certificate.p for rule in some.rules) <= p_values[0] * (1 + 1e-9)
    assert some.certificate.level == p_values[0] * (1 + 1e-9)
    assert exp(0) == every.certificate.level
