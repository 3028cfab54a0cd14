"""The source distribution contains what its tests need."""

import ast

import pytest
from hatchling.builders.sdist import SdistBuilder

from tests.servers import ROOT

FILES = (
    ".dockerignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "docker-compose.yml", "deploy/image/Dockerfile", "deploy/monitoring/alerts.yml", "docs/cluster.md",
    "maabo_dist/py.typed", "mkdocs.yml", "pyproject.toml",
)  # fmt: skip
PACKAGES = {"bench", "deploy", "docs", "maabo_dist", "scheduler", "tests", "tools", "workers"}


@pytest.fixture(scope="module")
def sdist():
    return {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}


def test_the_sdist_contains_all_modules_that_tests_import(sdist):
    sources = sorted((ROOT / "tests").rglob("*.py"))
    modules = {name for source in sources for name in imported_modules(source.read_text(encoding="utf-8"))}

    missing = [name for name in modules if name.split(".")[0] in PACKAGES and not contains(sdist, name)]

    assert modules & PACKAGES
    assert missing == []
    assert {str(source.relative_to(ROOT)) for source in sources} <= sdist


def test_the_sdist_contains_the_files_that_tests_read(sdist):
    assert [name for name in FILES if name not in sdist] == []


def imported_modules(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def contains(sdist, module):
    path = module.replace(".", "/")
    return f"{path}.py" in sdist or f"{path}/__init__.py" in sdist or any(name.startswith(f"{path}/") for name in sdist)
