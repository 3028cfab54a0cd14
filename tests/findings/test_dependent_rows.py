"""Rows that are not independent: whole groups are shuffled, split and counted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from maabo_dist.contract.rules import Verdict
from maabo_dist.contract.selection import CertificateInfo
from maabo_dist.findings import evidence
from maabo_dist.findings.certificate import ShuffledSearch, certify
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import repeat_settings
from maabo_dist.report.summary import certificate_text
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees.training import TrainingTable
from tests import factories


def test_chance_is_certified_row_by_row_but_not_group_by_group():
    grouped, row_by_row = 0, 0
    for seed in range(25):
        columns, mining = factories.make_people(seed), MiningSettings(seed=seed)
        grouped += bool(mine(columns, mining).rules)
        row_by_row += seed < 5 and bool(mine(replace(columns, groups=None), mining).rules)

    assert row_by_row == 5
    assert grouped <= 2


def test_an_effect_on_persons_is_found_and_tested_on_unseen_persons():
    columns = factories.make_people(1, groups=300, rows=6, effect=0.5)

    result = mine(columns, MiningSettings(seed=1))

    assert {condition.feature for rule in result.rules for condition in rule.conditions} == {"x0"}
    assert all(rule.certificate.method == "shuffles" for rule in result.rules)
    assert result.certificate.shuffles == 24
    assert result.design_effect == pytest.approx(6)
    assert {rule.verdict for rule in result.rules} <= {Verdict.HELD_UP, Verdict.WEAKER}
    split = split_for(columns, result.settings)
    mined = set(columns.groups[np.concatenate([split.train, split.validation])].tolist())
    assert not mined & set(columns.groups[split.holdout].tolist())
    rule = result.rules[0]
    plain = 1.96 * np.sqrt(rule.holdout.precision * (1 - rule.holdout.precision) / rule.holdout.n)
    assert rule.holdout.precision_high - rule.holdout.precision_low > 1.7 * 2 * plain


def test_notes_say_what_rows_are_worth_and_when_no_shuffles_were_run():
    columns = factories.make_people(1, groups=240, rows=4, effect=0.55)

    certified, uncertified = (mine(columns, MiningSettings(certify=certify)) for certify in ("auto", "off"))

    note = "In tests and intervals the 960 mined rows, of 240 groups, count as 240 independent ones."
    assert note in certified.notes
    assert not any("approximate" in note for note in certified.notes)
    assert any("p-values are approximate where rows come in groups" in note for note in uncertified.notes)
    assert "24 searches on shuffled labels" in certified.search.explained[-1]


@given(st.integers(0, 10**6), st.integers(2, 3), st.sampled_from(["balanced", "none"]))
def test_a_shuffled_study_is_the_study_of_the_shuffled_groups(seed, classes, class_weight):
    rng = np.random.default_rng(seed)
    columns = factories.make_columns(rng, 120, 3, classes)
    columns = replace(columns, groups=rng.integers(0, 30, 120).astype(np.int32))
    study = Study.build(columns, MiningSettings(class_weight=class_weight, strategy="single", seed=seed))

    shuffled = study.with_shuffled_labels(2)

    expected = TrainingTable.build(shuffled.columns, study.split, class_weight=class_weight)
    for name, array in shuffled.table._asdict().items():
        np.testing.assert_array_equal(array, getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(shuffled.columns.labels[study.split.holdout], columns.labels[study.split.holdout])


@settings(max_examples=200)
@given(st.data())
def test_tests_count_independent_rows(data):
    everything = data.draw(st.integers(2, 300))
    all_hits, rows = data.draw(st.integers(0, everything)), data.draw(st.integers(1, everything))
    hits = data.draw(st.integers(max(0, rows - (everything - all_hits)), min(rows, all_hits)))
    effect = data.draw(st.floats(1, 20))
    counts = [np.array([count]) for count in (hits, rows, all_hits, everything)]

    (value,) = evidence.log_p_values(*counts, evidence.log_factorials(everything), effect)

    hit, miss, all_hit, all_miss = (
        int(count / effect + 0.5) for count in (hits, rows - hits, all_hits, everything - all_hits)
    )
    expected = 0.0
    if hit + miss and hit * (all_hit + all_miss) > all_hit * (hit + miss):
        expected = hypergeom.logsf(hit - 1, all_hit + all_miss, all_hit, hit + miss)
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_bound_certifies_nothing_where_it_does_not_hold():
    searches = [ShuffledSearch((-5.0,), ((1,),))] * 24
    values, bounds, logic = np.array([-30.0, -4.0]), np.array([-20.0, -15.0]), [(0,), (2,)]

    certification = certify(values, bounds, logic, searches, bound_holds=False)

    assert np.exp(certification.log_p) == pytest.approx([1 / 25, 1.0])
    assert not certification.by_bound.any()
    assert certification.margins == pytest.approx([25.0, -1.0])
    assert certify(values, bounds, logic, searches).certified.all()


def test_repeats_draw_halves_of_whole_groups():
    columns, mining = factories.make_people(2), MiningSettings(seed=2)

    for repeat in repeat_settings(mining, 3, columns.rows):
        split = split_for(columns, repeat)
        mined = set(columns.groups[np.concatenate([split.train, split.validation])].tolist())
        assert not mined & set(columns.groups[split.holdout].tolist())
        assert len(split.holdout) == pytest.approx(columns.rows / 2, abs=8)


@pytest.mark.parametrize(
    ("shuffles", "planned", "method"),
    [
        (24, 24, "24 searches on shuffled labels (1.0 s)"),
        (7, 24, "7 searches on shuffled labels (1.0 s)"),
        (0, 0, "an approximate bound on the number of possible rules"),
    ],
)
def test_the_text_on_certification_does_not_name_a_bound_that_does_not_hold(shuffles, planned, method):
    certificate = CertificateInfo(
        level=0.05, shuffles=shuffles, planned=planned, seconds=1.0, stopped=False, approximate_bound=True
    )

    assert certificate_text(certificate) == f"adjusted p ≤ 0.05 by {method}"
    assert certificate.to_json()["approximate_bound"]
    assert "approximate_bound" not in certificate.model_copy(update={"approximate_bound": False}).to_json()
