"""A compose file as values, with variables substituted as Compose does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Service:
    """One service."""

    name: str
    command: list[str]
    environment: dict[str, str]
    mounts: dict[str, tuple[str, bool]]
    """By path in the container: the volume or file, and True if it is read-only."""
    secrets: list[str]
    user: str | None
    groups: list[str]
    capabilities: list[str]
    """Capabilities that are added after all were dropped."""


def load(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the document with its variables substituted."""
    document: dict[str, Any] = yaml.safe_load(substitute(path.read_text(), environment))
    return document


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match["name"]) or match["default"] or ""

    return _VARIABLE.sub(value, text)


def service(document: Mapping[str, Any], name: str, environment: Mapping[str, str]) -> Service:
    """Return the service with this name."""
    entry = document["services"][name]
    variables = {
        key: environment.get(key) if value is None else str(value)
        for key, value in entry.get("environment", {}).items()
    }
    return Service(
        name,
        [str(word) for word in entry.get("command", [])],
        {key: value for key, value in variables.items() if value is not None},
        dict(_mount(text) for text in entry.get("volumes", [])),
        entry.get("secrets", []),
        entry.get("user"),
        entry.get("group_add", []),
        entry.get("cap_add", []),
    )


def _mount(text: str) -> tuple[str, tuple[str, bool]]:
    source, path, *mode = text.split(":")
    return path, (source, mode == ["ro"])
