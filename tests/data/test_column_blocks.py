"""Blocks of columns are encoded as their cells are one by one."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist._util.text import format_count, format_list, format_names
from maabo_dist.data.column_blocks import BlockEncoder
from maabo_dist.data.encoder import TableEncoder, read_column
from maabo_dist.data.target import Target
from maabo_dist.settings import TableSettings
from tests.reference import encoding as slow

KINDS = {
    "number": (st.integers(-3, 12).map(float), "float64"),
    "decimal": (st.sampled_from([-2.5, 0.1, 0.3, 1e9, 3.0]), "float64"),
    "text": (st.sampled_from(["a", "b", "c", "d", "e", "another"]), "object"),
    "string": (st.sampled_from(["x", "y", "z"]), "string"),
    "few": (st.sampled_from(["no", "yes"]), "object"),
    "category": (st.sampled_from(["low", "mid", "high"]), "category"),
    "date": (
        st.datetimes(dt.datetime(2023, 1, 1), dt.datetime(2024, 12, 31)).map(lambda time: time.replace(microsecond=0)),
        "datetime64[ns]",
    ),
}


@st.composite
def tables(draw):
    rows = draw(st.integers(10, 25))
    columns = {}
    for number, name in enumerate(draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))):
        cells, dtype = KINDS[name]
        gaps = draw(st.booleans())
        column = draw(st.lists(st.one_of(st.none(), cells) if gaps else cells, min_size=rows, max_size=rows))
        columns[f"{name}{number}"] = pd.Series(column, dtype=dtype)
        if draw(st.booleans()):
            columns[f"copy{number}"] = columns[f"{name}{number}"].copy()
    return pd.DataFrame(columns)


def encoded(frame, readings):
    labels = (np.arange(len(frame)) % 2).astype(np.int32)
    encoder = BlockEncoder(Target(labels, ("no", "yes"), "y"), len(readings))
    for start in range(0, len(readings), 3):
        block = readings[start : start + 3]
        encoder.add(block, {each.name: frame[each.name] for each in block})
    return encoder.join([])


def notes_on(left_out):
    constant = [name for name, other in left_out.items() if other is None]
    equal = [f"{name!r} (as {other!r})" for name, other in left_out.items() if other is not None]
    if constant:
        yield f"Left out {format_count(len(constant), 'constant feature')}: {format_names(constant)}."
    if equal:
        yield f"Left out {format_count(len(equal), 'feature')} with the same content as another: {format_list(equal)}."


@settings(max_examples=150, deadline=None)
@given(
    tables(),
    st.builds(
        TableSettings,
        target=st.just("y"),
        max_levels=st.integers(2, 5),
        missing_indicator=st.booleans(),
        impute=st.sampled_from(["median", "mean"]),
    ),
)
def test_blocks_are_encoded_as_by_the_slow_twin(frame, options):
    readings = [each for each in (read_column(frame[name], options) for name in frame) if each.features]
    features = [feature for each in readings for feature in each.features]
    cells = {name: [None if pd.isna(cell) else cell for cell in frame[name].astype(object)] for name in frame}
    kept, left_out = slow.encode_block(features, cells)
    if not kept:
        return

    columns, notes = encoded(frame, readings)

    assert columns.features == tuple(kept)
    for index, values in enumerate(kept.values()):
        low, high = columns.offsets[index : index + 2]
        assert columns.values[low:high].tolist() == sorted(set(values))
        assert columns.column(index).tolist() == values
    assert columns.codes.dtype == np.uint16
    assert notes == list(notes_on(left_out))
    raw = slow.raw_codes(features, cells)
    assert [(each.column, list(each.levels)) for each in columns.raw] == [(name, raw[name][0]) for name in raw]
    assert columns.raw_codes.tolist() == [raw[name][1] for name in raw]
    assert columns.raw_codes.dtype == np.uint8
    # New rows are encoded in the same way.
    assert TableEncoder(columns.features).encode(frame).tolist() == list(kept.values())


@pytest.mark.parametrize("levels", [254, 255, 256, 300])
def test_many_levels_have_codes_of_two_bytes(levels):
    frame = pd.DataFrame({"town": [f"t{number % levels:03d}" for number in range(5 * levels)]})
    reading = read_column(frame["town"], TableSettings(target="y", max_levels=1000))

    columns, _ = encoded(frame, [reading])

    assert columns.raw_codes.dtype == (np.uint8 if levels < 255 else np.uint16)
    assert columns.raw_codes[0].tolist() == [number % levels + 1 for number in range(5 * levels)]
    assert [columns.column(3).sum(), columns.count] == [5, levels]
