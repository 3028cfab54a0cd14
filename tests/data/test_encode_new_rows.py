"""New rows, encoded by the features of a prepared table."""

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.columns import Feature
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.errors import DatasetError
from tests.data.small_tables import VARYING, names, prepared, table


def test_the_encoder_gives_back_the_prepared_table():
    frame = table(n=[1.0, None, 3.0], s=["a", "b", "c", None], p=["u", "v"], z=VARYING)
    result = prepared(frame, missing_indicator=True)

    matrix = result.encoder.encode(frame)

    columns = [result.columns.column(index) for index in range(result.columns.count)]
    np.testing.assert_array_equal(matrix, np.stack(columns))
    assert matrix.dtype == np.float64


def test_new_rows_are_encoded_by_the_features_of_the_old():
    result = prepared(table(n=[1.0, 2.0, 4.0], s=["a", "b", "c"], p=["u", "v"]))
    new = pd.DataFrame({"p": ["v", "u"], "s": ["unseen", None], "n": [None, 7], "more": [0, 0]})

    matrix = result.encoder.encode(new)

    assert names(result) == ["n", "s = a", "s = b", "s = c", "p"]
    assert matrix.tolist() == [[2.0, 7.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": ["x", "z"]}, r"Column 'n' holds text \('x', 'z'\) where numbers are expected"),
        ({"n": [[1], [2]]}, "Column 'n' holds list values, which cannot be mined. Convert column 'n' to numbers"),
    ],
)
def test_new_rows_that_cannot_be_encoded_are_refused(change, message):
    encoder = prepared(table(n=[1.0, 2.0, 4.0], p=["u", "v"])).encoder
    new = pd.DataFrame({"n": [1.0, 2.0], "p": ["u", "v"]} | change)

    with pytest.raises(DatasetError, match=message):
        encoder.encode(new)


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"p": ["w", "u"]}, [[1.0, 2.0], [np.nan, 0.0]]),
        ({"p": [None, "u"]}, [[1.0, 2.0], [np.nan, 0.0]]),
        ({"n": [np.inf, 1]}, [[2.0, 1.0], [0.0, 1.0]]),
        ({"n": ["x", "1"]}, [[2.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_new_values_are_not_an_error(change, values):
    encoder = prepared(table(n=[1.0, 2.0, 4.0], p=["u", "v"])).encoder

    matrix = encoder.encode(pd.DataFrame({"n": [1.0, 2.0], "p": ["u", "v"]} | change))

    np.testing.assert_array_equal(matrix, values)


def test_an_unseen_level_is_another_level():
    encoder = prepared(table(x=["c", "b", "c", "a", "b", "d"]), max_levels=2).encoder

    assert encoder.encode(pd.DataFrame({"x": ["new", None, "b"]})).tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_a_new_table_that_lacks_columns_is_refused_with_their_names():
    encoder = prepared(table(age=VARYING, p=["u", "v"])).encoder

    with pytest.raises(DatasetError, match=r"lacks 1 column .*: 'age'\. Did you mean 'Age'\?"):
        encoder.encode(pd.DataFrame({"Age": [1.0], "p": ["u"]}))


def test_an_encoder_survives_json():
    frame = table(n=[1.0, None, 3.0], s=["a", "b", "c", None], z=VARYING)
    features = prepared(frame, missing_indicator=True).encoder.features

    again = TableEncoder(tuple(Feature.from_json(feature.to_json()) for feature in features))

    np.testing.assert_array_equal(again.encode(frame), TableEncoder(features).encode(frame))
