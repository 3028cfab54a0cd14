"""Recipes for property tests, and a reader of tables that is independent of the library."""

import csv
import io

from hypothesis import strategies as st

from maabo_dist.research.synthetic.recipe import Recipe


@st.composite
def recipes(draw, **fixed):
    """A strategy of small tables of every kind; `fixed` fields are not drawn."""
    sizes = draw(st.lists(st.integers(1, 4), max_size=4))
    chosen = {
        "rows": draw(st.integers(400, 1500)),
        "features": 40,
        "conjunctions": sizes,
        "xor": draw(st.integers(0, 2)),
        "parity": draw(st.integers(0, 1)),
        "xor_share": draw(st.sampled_from([0.5, 0.9, 1.0])),
        "classes": draw(st.integers(2, 5)),
        "imbalance": draw(st.sampled_from([None, 0.6, 0.9])),
        "background_noise": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "label_noise": draw(st.sampled_from([0.0, 0.05, 0.2])),
        "coverage": draw(st.sampled_from([(), (0.1,), (0.05, 0.15)])),
        "decoys": draw(st.integers(0, 5)),
        "categorical": draw(st.sampled_from([0.0, 0.3, 0.5])),
        "missing": draw(st.sampled_from([0.0, 0.1])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }
    return Recipe(**chosen | fixed)


def slowly_covered(text, conditions):
    """Return the numbers of the rows of a CSV text that satisfy all conditions, cell by cell."""
    return [
        number
        for number, row in enumerate(csv.DictReader(io.StringIO(text)))
        if all(_satisfies(row[condition.feature], condition.op.value, condition.value) for condition in conditions)
    ]


def _satisfies(cell, op, value):
    if cell == "":
        return False
    return {
        "<=": lambda: float(cell) <= value,
        ">": lambda: float(cell) > value,
        "=": lambda: cell == value,
    }[op]()
