"""A compose file as values: variables filled in as Compose does, services with what is needed to run them."""

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
    """By place in the container: the volume or file, and whether it is read-only."""
    secrets: list[str]
    user: str | None
    groups: list[str]
    capabilities: list[str]
    """Those that were given back after all were dropped."""


def load(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The document, filled in."""
    document: dict[str, Any] = yaml.safe_load(fill_in(path.read_text(), environment))
    return document


def fill_in(text: str, environment: Mapping[str, str]) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; `$$` is a dollar sign."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return environment.get(found["name"]) or found["default"] or ""

    return _VARIABLE.sub(value, text)


def service(document: Mapping[str, Any], name: str, environment: Mapping[str, str]) -> Service:
    """The service of this name."""
    found = document["services"][name]
    variables = {
        key: environment.get(key) if value is None else str(value)
        for key, value in found.get("environment", {}).items()
    }
    return Service(
        name,
        [str(word) for word in found.get("command", [])],
        {key: value for key, value in variables.items() if value is not None},
        dict(_mount(text) for text in found.get("volumes", [])),
        found.get("secrets", []),
        found.get("user"),
        found.get("group_add", []),
        found.get("cap_add", []),
    )


def _mount(text: str) -> tuple[str, tuple[str, bool]]:
    source, place, *mode = text.split(":")
    return place, (source, mode == ["ro"])
