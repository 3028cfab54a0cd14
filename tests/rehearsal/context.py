"""What of a directory is sent to the builder: `.dockerignore` applied as Docker does."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def sent_files(root: Path) -> list[str]:
    """Paths of all files that are sent, relative to the root."""
    rules = read_rules((root / ".dockerignore").read_text())
    return sorted(path for path in _files(root, rules) if not ignored(path, rules))


def read_rules(text: str) -> list[tuple[re.Pattern[str], bool]]:
    """Patterns in order, each with whether it takes away."""
    lines = [line.strip() for line in text.splitlines()]
    return [
        (_pattern(line.removeprefix("!").strip("/")), not line.startswith("!"))
        for line in lines
        if line and not line.startswith("#")
    ]


def ignored(path: str, rules: list[tuple[re.Pattern[str], bool]]) -> bool:
    """The last pattern that fits the path or a directory above it decides."""
    names = [path, *(str(parent) for parent in PurePosixPath(path).parents)][:-1]
    decided = False
    for pattern, takes_away in rules:
        if any(pattern.fullmatch(name) for name in names):
            decided = takes_away
    return decided


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", text)
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(part, part if part.startswith("[") else re.escape(part)) for part in parts))


def _files(root: Path, rules: list[tuple[re.Pattern[str], bool]], below: str = "") -> Iterator[str]:
    """All files, but for directories of the top of which nothing can be taken: an environment has 10⁵ files."""
    for entry in sorted((root / below).iterdir()):
        name = f"{below}{entry.name}"
        if entry.is_symlink() or entry.is_file():
            yield name
        elif entry.is_dir() and (below or _may_hold(name, rules)):
            yield from _files(root, rules, f"{name}/")


def _may_hold(name: str, rules: list[tuple[re.Pattern[str], bool]]) -> bool:
    kept = (pattern.pattern.replace("\\", "") for pattern, takes_away in rules if not takes_away)
    return any(text == name or text.startswith((f"{name}/", "(", ".", "[")) for text in kept)
