"""The options of findings do what they say, and noise is not published."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import SettingsError
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from tests import factories

pytestmark = pytest.mark.xdist_group("options")

# Each option with values from tight to loose.
LOOSER = {
    "min_samples": (120, 60, 40, 20, 5, None),
    "gini": (0.05, 0.2, 0.4, 0.7, 1.0, None),
    "min_precision": (0.99, 0.95, 0.9, 0.8, 0.6, 0.0),
    "min_lift": (2.6, 2.0, 1.8, 1.5, 1.2, 1.0),
    "max_rules": (1, 2, 3, 7, 50, None),
    "max_p": (1e-30, 1e-12, 1e-4, 0.05, 0.3, 1.0),
}


@cache
def bundled(name):
    return prepare(*load_bundled(name)).columns


def mined(name="breast_cancer", **options):
    """Return the result with these options; equal ones are mined once for all tests of this file."""
    return mined_once(name, MiningSettings(**{"trees": 60, "certify": "off", **options}))


@cache
def mined_once(name, options):
    return mine(bundled(name), options)


def keys(result):
    """The rules of a result, by their conditions and classes."""
    return {(rule.logic, rule.bounds, rule.label) for rule in result.rules}


@pytest.mark.parametrize("name", [pytest.param("breast_cancer", marks=pytest.mark.slow), "wine"])
@pytest.mark.parametrize("option", LOOSER)
def test_a_looser_option_loses_no_rule(name, option):
    results = [mined(name, all=True, **{option: value}) for value in LOOSER[option]]

    for tighter, looser in pairwise(results):
        assert keys(tighter) <= keys(looser)


@pytest.mark.parametrize("name", [pytest.param("breast_cancer", marks=pytest.mark.slow), "wine"])
@pytest.mark.parametrize("option", LOOSER)
def test_each_option_has_an_effect(name, option):
    counts = [len(mined(name, all=True, **{option: value}).rules) for value in LOOSER[option]]

    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_all_shows_every_certified_rule():
    short, everything = mined(), mined(all=True)

    assert len(everything.rules) == everything.funnel.certified == short.funnel.certified
    assert len(short.rules) < len(everything.rules)
    assert keys(short) <= keys(everything)


def test_a_greater_p_value_than_that_of_a_certificate_is_noted():
    shown, certified = mined("diabetes", max_p=0.5), mined("diabetes", max_p=0.05)

    assert any("--max-p 0.5" in note for note in shown.notes)
    assert not any("--max-p" in note for note in (*certified.notes, *mined("diabetes").notes))


def test_published_rules_meet_the_limits():
    precise, lifted = mined(min_precision=0.95, all=True), mined(min_lift=2.0, all=True)
    rows = bundled("breast_cancer").rows

    assert precise.rules
    assert lifted.rules
    for rule in precise.rules:
        assert _correct(rule, precise) / (rule.train.n + rule.validation.n) >= 0.95
    shares = np.bincount(bundled("breast_cancer").labels) / rows
    for rule in lifted.rules:
        assert _correct(rule, lifted) / (rule.train.n + rule.validation.n) >= 2.0 * shares[rule.label] - 1e-9


def _correct(rule, result):
    name = result.classes[rule.label]
    return rule.train.counts[name] + rule.validation.counts[name]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_rules_than_max_rules_are_published_and_no_class_is_left_out_without_need(limit):
    result, unlimited = mined("wine", max_rules=limit), mined("wine")

    assert len(result.rules) == limit
    assert len({rule.label for rule in unlimited.rules}) == 3
    assert len({rule.label for rule in result.rules}) == limit
    assert keys(result) <= keys(unlimited)


def test_for_class_keeps_the_findings_of_these_classes():
    result, unlimited = mined("wine", for_class=("class_1",)), mined("wine")

    assert keys(result) == {key for key in keys(unlimited) if key[2] == 1}
    assert result.funnel.certified == unlimited.funnel.certified


def test_an_unknown_class_is_an_error_that_names_the_classes():
    with pytest.raises(SettingsError, match=r"--for-class 'grape'.*class_0.*class_1.*class_2"):
        mined("wine", for_class=("class_1", "grape"))


def test_precise_findings_are_more_precise_and_broad_ones_cover_more_rows():
    firsts = {}
    for prefer in ("precision", "balanced", "coverage"):
        result = mined("diabetes", prefer=prefer, trees=None)
        rules = [next(rule for rule in result.rules if rule.label == label) for label in (0, 1)]
        covered = [rule.train.n + rule.validation.n for rule in rules]
        precision = [_correct(rule, result) / n for rule, n in zip(rules, covered, strict=True)]
        firsts[prefer] = np.mean(precision), np.mean(covered)

    assert firsts["precision"][0] > firsts["coverage"][0]
    assert firsts["precision"][1] < firsts["coverage"][1]
    assert firsts["precision"][0] >= firsts["balanced"][0] >= firsts["coverage"][0]


def test_a_number_of_shuffled_searches_is_run_and_none_if_switched_off():
    off, some = mined("diabetes"), mined("diabetes", certify=30)

    assert off.certificate.shuffles == 0
    assert {rule.certificate.method for rule in off.rules} == {"bound"}
    assert some.certificate.shuffles == 30
    assert some.funnel.certified >= off.funnel.certified
    assert keys(mined("diabetes", all=True)) <= keys(mined("diabetes", all=True, certify=30))


def test_too_few_shuffled_searches_certify_nothing_more():
    assert mined("diabetes", certify=10).digest == mined("diabetes").digest


@pytest.mark.slow  # test_shuffles compares threads too
def test_threads_and_shuffled_searches_give_one_digest():
    options = MiningSettings(trees=60, certify=30)
    columns = bundled("diabetes")

    runs = [mine(columns, options, jobs=jobs) for jobs in (1, 2, 1)]

    assert runs[0].rules
    assert len({run.digest for run in runs}) == 1
    assert len({tuple(rule.certificate.p for rule in run.rules) for run in runs}) == 1


KINDS = {
    "numbers": (("continuous",), 2, 150),
    "few values": (("few", "rounded"), 2, 250),
    "three classes": (("continuous", "few"), 3, 200),
}


def test_shuffled_labels_publish_nothing_in_95_of_100_runs():
    published = []
    for number in range(42):
        kinds, classes, rows = list(KINDS.values())[number % len(KINDS)]
        rng = np.random.default_rng(number)
        matrix = np.array([factories.KINDS[rng.choice(kinds)](rng, rows) for _ in range(6)])
        columns = factories.columns_of(matrix, rng.integers(0, classes, rows), classes)
        published.append(bool(mine(columns, MiningSettings(seed=number, trees=20)).rules))

    # With a rate of 5 %, 42 runs have more than 5 of them with a probability of 2 %.
    assert sum(published) <= 5
