"""A table that comes in parts matches the rules of a document as the whole table matches those of the miner."""

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Condition, DatePart, Op
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.columns import FeatureKind
from maabo_dist.errors import DatasetError
from maabo_dist.report.document import result_document
from maabo_dist.rules.frame_matching import ColumnUse, FrameMatcher, match_frame, uses_of_conditions
from tests.findings.test_readable_conditions import a_frame, mined

JOINED = DatePart("weekday", "%d.%m.%Y", "2024-01-01")


def in_parts(matcher, frame, sizes):
    starts = np.cumsum([0, *sizes])
    ends = [*starts[1:], len(frame)]
    return np.concatenate([matcher.match(frame.iloc[low:high]) for low, high in zip(starts, ends, strict=True)], axis=1)


def with_dates_and_oddities(frame, rng):
    """Add dates, texts that are numbers, and levels that the mined rows do not have."""
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, len(frame)), unit="D")
    joined = pd.Series(days.strftime("%d.%m.%Y"), dtype=object).mask(rng.random(len(frame)) < 0.1)
    coded = pd.Series(rng.normal(size=len(frame)).round(2).astype(str), dtype=object)
    coded[rng.random(len(frame)) < 0.1] = "unknown"
    return frame.assign(joined=joined.to_numpy(), coded=coded.to_numpy())


@pytest.mark.parametrize("seed", range(4))
def test_parts_match_as_the_whole_table_does(seed):
    rng = np.random.default_rng(seed)
    frame = with_dates_and_oddities(a_frame(seed), rng)
    late = pd.to_datetime(frame["joined"], format="%d.%m.%Y") > "2025-01-01"
    flips = (late & (rng.random(len(frame)) < 0.7)) | (pd.to_numeric(frame["coded"], errors="coerce") > 1)
    frame["y"] = np.where(flips, "c1", frame["y"])
    prepared, result = mined(frame, max_levels=6, all=True, max_rules=60)
    document = ResultDocument.parse_text(result_document(result, {"name": "table"}).to_text())
    new = frame.sample(frac=1, random_state=seed).reset_index(drop=True)
    new.loc[:20, "text"] = "never seen"
    new.loc[5:9, "number"] = np.inf
    expected = match_frame([rule.conditions for rule in result.rules], new, prepared.encoder)

    covered = in_parts(FrameMatcher([rule.premise for rule in document.rules]), new, [1, 2, 40, 150])

    assert {"joined", "coded"} & {each.feature for rule in document.rules for each in rule.premise}
    assert (covered == expected).all()


def test_a_column_is_read_as_the_conditions_on_it_say():
    conditions = [
        Condition("a", Op.IS_MISSING, None),
        Condition("a", Op.AT_LEAST, 3.0),
        Condition("b", Op.IN, ("x", "y")),
        Condition("c", Op.ABOVE, 3.0, part=JOINED),
        Condition("d", Op.IS_PRESENT, None),
        Condition("e", Op.IS_MISSING, None, as_text=True),
    ]

    assert uses_of_conditions(conditions) == {
        "a": ColumnUse(frozenset({FeatureKind.NUMBER})),
        "b": ColumnUse(frozenset({FeatureKind.LEVEL})),
        "c": ColumnUse(frozenset({FeatureKind.DATE}), "%d.%m.%Y"),
        "d": ColumnUse(frozenset({FeatureKind.MISSING})),
        "e": ColumnUse(frozenset({FeatureKind.NUMBER})),
    }


def test_a_part_without_a_readable_cell_is_no_error_if_others_have_some():
    matcher = FrameMatcher([[Condition("x", Op.ABOVE, 1.0)]])

    covered = [matcher.match(pd.DataFrame({"x": cells})) for cells in (["?", "?"], ["2", "0"])]

    assert np.concatenate(covered, axis=1).tolist() == [[False, False, True, False]]
    assert matcher.finish() == []


@pytest.mark.parametrize(
    ("condition", "word"),
    [(Condition("x", Op.ABOVE, 1.0), "numbers are expected"), (Condition("x", Op.ABOVE, 1.0, part=JOINED), "%d.%m.%Y")],
)
def test_a_column_without_any_readable_cell_is_an_error(condition, word):
    matcher = FrameMatcher([[condition]])
    matcher.match(pd.DataFrame({"x": ["low", "high"]}))

    with pytest.raises(DatasetError, match=word):
        matcher.finish()


def test_a_table_without_a_column_of_the_rules_is_an_error():
    matcher = FrameMatcher([[Condition("colour", Op.IS, "red")]])

    with pytest.raises(DatasetError, match=r"lacks 1 column of the rules: 'colour'\. Did you mean 'color'"):
        matcher.match(pd.DataFrame({"color": ["red"]}))


def test_a_column_that_has_none_of_the_levels_is_remarked():
    matcher = FrameMatcher([[Condition("port", Op.IN, ("C", "Q"))], [Condition("deck", Op.IS_NOT, "A")]])
    matcher.match(pd.DataFrame({"port": ["Cherbourg", "Queenstown"], "deck": ["A", "B"]}))

    assert matcher.finish() == ["Column 'port' has none of the levels that rules name: 'C', 'Q'."]


def test_a_boolean_column_matches_levels_in_lower_case():
    matcher = FrameMatcher([[Condition("flag", Op.IS, "true")]])

    assert matcher.match(pd.DataFrame({"flag": [True, False, None]})).tolist() == [[True, False, False]]


def test_a_rule_without_conditions_matches_every_row():
    assert FrameMatcher([[]]).match(pd.DataFrame({"a": [1, 2]})).tolist() == [[True, True]]
