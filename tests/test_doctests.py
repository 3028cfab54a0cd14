"""The examples in docstrings run and print the output they show.

The examples of `maabo_dist.client` need a server: `tests/cli/test_http_commands.py` runs them.
"""

import doctest
from importlib import import_module

import pytest

from tests.servers import ROOT

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules_with_examples():
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "maabo_dist").rglob("*.py"))]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths if path.parts[1] != "client"}
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in texts if ">>> " in texts[path]]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_print_what_they_show(name):
    result = doctest.testmod(import_module(name), optionflags=OPTIONS)

    assert result.attempted
    assert not result.failed
