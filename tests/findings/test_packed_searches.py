"""Packed searches come back as they were, and damaged ones are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.errors import FormatError
from maabo_dist.findings.certificate import MAX_REPORTED, ShuffledSearch
from maabo_dist.findings.wire import pack_searches, unpack_searches

LOGIC = st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(lambda literals: tuple(sorted(literals)))


@st.composite
def searches(draw):
    logic = tuple(draw(st.lists(LOGIC, max_size=6, unique=True)))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    return ShuffledSearch(tuple(sorted(draw(finite) for _ in logic)), logic)


@given(st.lists(searches(), max_size=4))
def test_searches_come_back_as_they_were(some):
    assert unpack_searches(pack_searches(some), len(some)) == tuple(some)


SEARCH = ShuffledSearch((-3.0, 1.5), ((0, 5), (2,)))


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        (ShuffledSearch((1.5, -3.0), SEARCH.logic), "not in order"),
        (ShuffledSearch((np.nan, 1.0), SEARCH.logic), "not finite"),
        (ShuffledSearch((-np.inf, 1.0), SEARCH.logic), "not finite"),
        (ShuffledSearch((-3.0, 1.5), ((2,), (2,))), "a rule twice"),
        (ShuffledSearch((-3.0, 1.5), ((5, 0), (2,))), "out of order"),
        (ShuffledSearch((-3.0, 1.5), ((), (2,))), "without conditions"),
        (ShuffledSearch((0.0,) * (MAX_REPORTED + 1), tuple((i,) for i in range(MAX_REPORTED + 1))), "too long"),
    ],
)
def test_an_invalid_search_is_refused(search, reason):
    with pytest.raises(FormatError, match=reason):
        unpack_searches(pack_searches([search]), 1)


@given(st.binary(max_size=80), st.integers(0, 3))
def test_any_bytes_are_searches_or_refused(data, count):
    try:
        unpack_searches(data, count)
    except FormatError:
        return
    assert count or not data


@pytest.mark.parametrize("length", range(len(pack_searches([SEARCH, SEARCH]))))
def test_bytes_that_are_cut_off_are_refused(length):
    data = pack_searches([SEARCH, SEARCH])

    with pytest.raises(FormatError):
        unpack_searches(data[:length], 2)
    with pytest.raises(FormatError, match="expected"):
        unpack_searches(data + b"x", 2)
