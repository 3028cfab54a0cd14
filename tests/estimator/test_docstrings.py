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
    each for name, each in inspect.getmembers(RuleMiner, inspect.isfunction) if each.__module__ == estimator.__name__
]
PUBLIC = [each for each in METHODS if not each.__name__.startswith("_")]


@pytest.mark.parametrize("module", [estimator, local, repeats, result, stability, rule], ids=lambda each: each.__name__)
def test_the_examples_run(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("each", [RuleMiner, mine, mine_with_repeats, *PUBLIC], ids=lambda each: each.__qualname__)
def test_every_parameter_is_documented(each):
    text = inspect.getdoc(each)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^(\w+) : ", section[1], re.MULTILINE) if section else []

    assert named == [name for name in inspect.signature(each).parameters if name != "self"]
    assert ">>> " in text


def test_every_public_name_can_be_imported():
    assert all(getattr(maabo_dist, name) is not None for name in maabo_dist.__all__)
