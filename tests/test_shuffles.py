"""Searches on shuffled labels in one process: the same in threads, with progress, and stopped as a whole."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from time import monotonic, sleep

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.result import StopReason
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining import run as run_module
from maabo_dist.mining import shuffles
from maabo_dist.mining.local import mine
from maabo_dist.mining.result import collect_evidence
from maabo_dist.mining.run import SearchRun, drive
from maabo_dist.mining.shuffles import ShufflePlan, plan_shuffles, run_shuffles, search_shuffled
from maabo_dist.rules.publishing import TreePool
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from tests import factories

CERTIFIED = MiningSettings(trees=60, certify=30)
LENIENT = {"trees": 56, "significance": 0.9}


@cache
def diabetes():
    return prepare(*load_bundled("diabetes")).columns


@cache
def noise():
    """A table in which shuffled searches have rules as strong as its own."""
    rng = np.random.default_rng(7)
    return factories.columns_of(rng.integers(0, 4, (8, 200)), rng.normal(size=200) > 0)


def outcome(result):
    return (
        result.digest,
        [rule.certificate for rule in result.rules],
        result.certificate.shuffles,
        result.missing_classes,
    )


@pytest.mark.parametrize(
    ("columns", "certify"),
    [(diabetes, 30), (diabetes, "auto"), pytest.param(noise, 30, marks=pytest.mark.slow), (noise, "auto")],
)
def test_the_certificate_does_not_depend_on_the_number_of_threads(columns, certify):
    options = MiningSettings(**LENIENT, certify=certify)

    alone = mine(columns(), options)
    assert outcome(mine(columns(), options, jobs=3)) == outcome(alone)


def evidence_of(study):
    pool = TreePool(study)
    drive(SearchRun(study, pool, factories.screen_of(study)), study)
    return collect_evidence(study, pool)


def test_auto_stops_where_shuffles_can_certify_nothing_and_a_number_does_not():
    auto, all_of_them = (mine(noise(), MiningSettings(**LENIENT, certify=each)) for each in ("auto", 24))

    assert 0 < auto.certificate.shuffles < auto.certificate.planned == 24
    assert (all_of_them.certificate.shuffles, all_of_them.certificate.planned) == (24, 24)
    assert auto.digest == all_of_them.digest
    assert not auto.rules


def test_searches_that_are_known_in_another_order_are_the_same(monkeypatch):
    study = Study.build(noise(), MiningSettings(**LENIENT))
    plan = plan_shuffles(study, evidence_of(study), StopReason.BUDGET)
    expected = run_shuffles(study, plan)
    last_first = [threading.Event() for _ in range(plan.count + 1)]
    last_first[-1].set()

    def delayed(of_study, number, should_stop):
        if number < 4:  # the first searches are known only after later ones
            last_first[number + 1].wait(5)
        result = search_shuffled(of_study, number, should_stop)
        last_first[number].set()
        return result

    monkeypatch.setattr(shuffles, "search_shuffled", delayed)
    with ThreadPoolExecutor(6) as threads:
        result = run_shuffles(study, plan, threads=threads, jobs=6)

    assert result.searches == expected.searches


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3), st.integers(0, 3))
def test_a_shuffled_search_is_the_whole_search_with_other_labels(seed, classes, number):
    columns = factories.make_planted(np.random.default_rng(seed), 120, 5, classes)
    study = Study.build(columns, MiningSettings(trees=10, significance=0.95, patience=2, min_samples=2))
    shuffled = study.with_shuffled_labels(number)
    patient = replace(shuffled, settings=shuffled.settings.model_copy(update={"patience": None}))

    search, _ = search_shuffled(study, number)

    assert search == evidence_of(patient).strongest()
    assert np.array_equal(np.bincount(shuffled.columns.labels), np.bincount(columns.labels))


@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_counts_the_searches(jobs):
    reports = []
    mine(diabetes(), CERTIFIED.model_copy(update={"certify": 12}), jobs=jobs, progress=reports.append)

    counts = [report.shuffles for report in reports if report.shuffles is not None]
    assert counts == sorted(counts)
    assert counts[-1] == 12
    assert {report.planned_shuffles for report in reports if report.shuffles is not None} == {12}
    assert reports[0].shuffles is None


@pytest.mark.parametrize("jobs", [1, 3])
def test_searches_that_are_stopped_count_for_nothing(jobs):
    stopped = mine(diabetes(), CERTIFIED, jobs=jobs, progress=lambda report: (report.shuffles or 0) >= 5)
    by_bound = mine(diabetes(), CERTIFIED.model_copy(update={"certify": 1}))  # too few to certify anything

    assert stopped.digest == by_bound.digest
    assert [rule.certificate for rule in stopped.rules] == [rule.certificate for rule in by_bound.rules]
    assert (stopped.certificate.shuffles, stopped.certificate.planned, stopped.certificate.stopped) == (0, 30, True)
    assert "The searches on shuffled labels were stopped; rules are certified by the bound alone." in stopped.notes
    assert stopped.search.stopped is StopReason.BUDGET


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_interrupt_during_the_searches_keeps_the_rules_of_the_bound(jobs):
    def interrupt(report):
        if (report.shuffles or 0) >= 2:
            raise KeyboardInterrupt

    before = threading.active_count()
    stopped = mine(diabetes(), CERTIFIED, jobs=jobs, progress=interrupt)

    assert stopped.certificate.stopped
    assert stopped.rules
    deadline = monotonic() + 10
    while threading.active_count() > before and monotonic() < deadline:
        sleep(0.05)
    assert threading.active_count() <= before, "no search goes on"


def test_nothing_is_searched_again_where_there_is_nothing_to_certify():
    study = Study.build(noise(), MiningSettings(trees=60, significance=1e-9, certify=50))

    assert plan_shuffles(study, evidence_of(study), StopReason.BUDGET) == ShufflePlan()


@pytest.mark.parametrize("stopped", [StopReason.RUNNING, StopReason.REQUESTED, StopReason.INTERRUPTED])
def test_rules_so_far_need_no_searches(stopped):
    study = Study.build(diabetes(), CERTIFIED)

    assert plan_shuffles(study, evidence_of(study), stopped) == ShufflePlan()


def test_a_patient_search_looks_for_new_rules_a_few_times_and_before_it_ends(monkeypatch):
    looks, original = [], run_module.choose
    monkeypatch.setattr(run_module, "choose", lambda *each: looks.append(1) or original(*each))

    result = mine(diabetes(), MiningSettings(batch=1, patience=40, certify="off"))

    assert result.search.stopped in {StopReason.PATIENCE, StopReason.BUDGET}
    assert 1 < len(looks) <= 2 + result.search.trees // (40 // run_module.LOOKS_PER_PATIENCE)
    assert len(looks) < result.search.trees / 2
