"""Tables of twelve rows, and what becomes of them."""

import pandas as pd
import pytest

from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

ROWS = 12
VARYING = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0]


def table(**columns):
    """Twelve rows: the given columns, repeated to that length, and a target of two classes."""
    repeated = {name: [values[row % len(values)] for row in range(ROWS)] for name, values in columns.items()}
    return pd.DataFrame({**repeated, "y": ["no", "yes"] * (ROWS // 2)})


def prepared(frame, **settings):
    return prepare(frame, TableSettings(target="y", **settings))


def names(result):
    return [feature.name for feature in result.columns.features]


def refusal(frame, **settings):
    with pytest.raises(DatasetError) as caught:
        prepared(frame, **settings)
    return str(caught.value)
