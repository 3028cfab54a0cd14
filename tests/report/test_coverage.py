"""What findings explain together equals a count row by row."""

import json
from collections import Counter

import pytest
from jsonschema import Draft202012Validator

from maabo_dist.contract.result import ResultDocument, StopReason, load_schema
from maabo_dist.contract.rules import Verdict
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.coverage import MAX_COMPARED, with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.rules.matching import match_cells
from maabo_dist.settings import MiningSettings


@pytest.fixture(scope="module")
def mined():
    frame, settings = load_bundled("wine")
    columns = prepare(frame, settings).columns
    result = mine(columns, MiningSettings(trees=60, holdout=0.25))
    return frame.to_dict("records"), columns, result_document(result, {"name": "wine"})


def test_explained_rows_and_overlaps_are_those_of_the_rows_one_by_one(mined):
    rows, columns, document = mined
    covered = match_cells([rule.premise for rule in document.rules], rows)
    labels = [columns.classes[label] for label in columns.labels]

    coverage = with_coverage(document, columns).coverage

    for each in coverage.classes:
        own = [number for number, rule in enumerate(document.rules) if rule.label == each.label]
        of_class = [row for row, label in enumerate(labels) if label == each.label]
        assert each.rows == len(of_class)
        assert each.explained == sum(any(covered[number, row] for number in own) for row in of_class)
    ids = [rule.id for rule in document.rules]
    combinations = Counter(tuple(name for name, hit in zip(ids, column, strict=True) if hit) for column in covered.T)
    assert len(ids) <= MAX_COMPARED
    assert {each.rules: each.rows for each in coverage.overlaps} == combinations
    assert all(sum(each.counts.values()) == each.rows for each in coverage.overlaps)
    assert [each.rows for each in coverage.overlaps] == sorted(combinations.values(), reverse=True)


def test_findings_that_failed_explain_nothing(mined):
    _, columns, document = mined
    failed = tuple(rule.model_copy(update={"verdict": Verdict.FAILED}) for rule in document.rules)

    coverage = with_coverage(document.model_copy(update={"rules": failed}), columns).coverage

    assert [each.explained for each in coverage.classes] == [0, 0, 0]
    assert coverage.compared == ()


def test_the_document_with_its_coverage_follows_the_schema_and_reads_back(mined):
    _, columns, document = mined

    covered = with_coverage(document, columns)

    Draft202012Validator(load_schema()).validate(json.loads(covered.to_text()))
    assert ResultDocument.parse_text(covered.to_text()) == covered
    assert "coverage" not in json.loads(document.to_text())


def test_a_running_search_is_not_counted(mined):
    _, columns, document = mined
    running = document.search.model_copy(update={"stopped": StopReason.RUNNING})

    assert with_coverage(document.model_copy(update={"search": running}), columns).coverage is None
