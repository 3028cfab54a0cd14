"""The documentation of the public API names every parameter, and its examples run."""

import doctest
import inspect
import re

import pytest

import maabo_dist
from maabo_dist import RuleMiner, estimator, mine, mine_with_repeats
from maabo_dist.mining import local, repeats, result
from maabo_dist.report import stability
from maabo_dist.rules import rule

METHODS = [
    function
    for name, function in inspect.getmembers(RuleMiner, inspect.isfunction)
    if function.__module__ == estimator.__name__
]
PUBLIC = [function for function in METHODS if not function.__name__.startswith("_")]


@pytest.mark.parametrize(
    "module", [estimator, local, repeats, result, stability, rule], ids=lambda function: function.__name__
)
def test_the_examples_run(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    "function", [RuleMiner, mine, mine_with_repeats, *PUBLIC], ids=lambda function: function.__qualname__
)
def test_every_parameter_is_documented(function):
    text = inspect.getdoc(function)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^(\w+) : ", section[1], re.MULTILINE) if section else []

    assert named == [name for name in inspect.signature(function).parameters if name != "self"]
    assert ">>> " in text


def test_every_public_name_can_be_imported():
    assert all(getattr(maabo_dist, name) is not None for name in maabo_dist.__all__)
