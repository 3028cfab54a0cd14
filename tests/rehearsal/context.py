"""The files that are sent to the image builder: applies `.dockerignore` as Docker does."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def sent_files(root: Path) -> list[str]:
    """Return the paths of all files that are sent, relative to the root."""
    rules = read_rules((root / ".dockerignore").read_text())
    return sorted(path for path in _files(root, rules) if not ignored(path, rules))


def read_rules(text: str) -> list[tuple[re.Pattern[str], bool]]:
    """Return the patterns in order, each with True if it excludes."""
    lines = [line.strip() for line in text.splitlines()]
    return [
        (_pattern(line.removeprefix("!").strip("/")), not line.startswith("!"))
        for line in lines
        if line and not line.startswith("#")
    ]


def ignored(path: str, rules: list[tuple[re.Pattern[str], bool]]) -> bool:
    """True if the last pattern that matches the path or one of its directories excludes it."""
    names = [path, *(str(parent) for parent in PurePosixPath(path).parents)][:-1]
    excluded = False
    for pattern, excludes in rules:
        if any(pattern.fullmatch(name) for name in names):
            excluded = excludes
    return excluded


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", text)
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(part, part if part.startswith("[") else re.escape(part)) for part in parts))


def _files(root: Path, rules: list[tuple[re.Pattern[str], bool]], below: str = "") -> Iterator[str]:
    """Yield all files; skip top-level directories that are excluded completely, such as a .venv with 10⁵ files."""
    for entry in sorted((root / below).iterdir()):
        name = f"{below}{entry.name}"
        if entry.is_symlink() or entry.is_file():
            yield name
        elif entry.is_dir() and (below or _may_contain(name, rules)):
            yield from _files(root, rules, f"{name}/")


def _may_contain(name: str, rules: list[tuple[re.Pattern[str], bool]]) -> bool:
    included = (pattern.pattern.replace("\\", "") for pattern, excludes in rules if not excludes)
    return any(text == name or text.startswith((f"{name}/", "(", ".", "[")) for text in included)
