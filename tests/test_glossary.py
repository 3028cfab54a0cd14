"""The glossary names code that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_PATHS = list((ROOT / "maabo_dist").rglob("*.py"))
_MODULES = {path.stem for path in _PATHS}
_SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in _PATHS)


def _code_names():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    table = text[text.index("## The paper's terms") : text.index("## Our terms")]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ") and "| the code |" not in line]
    return sorted({name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)})


@pytest.mark.parametrize("name", _code_names())
def test_a_code_name_of_the_glossary_exists(name):
    for part in name.split("."):
        definition = rf"^\s*(class|def|async def) {part}\b|^\s*{part}\s*[:=]"

        assert part in _MODULES or re.search(definition, _SOURCES, re.MULTILINE), f"{part} is not defined"
