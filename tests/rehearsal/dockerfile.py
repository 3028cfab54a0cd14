"""A Dockerfile as values: text in, stages out. What it does not know, it refuses."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

KNOWN = frozenset(
    ("CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "STOPSIGNAL", "USER")
) | {"WORKDIR"}


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction."""

    word: str
    text: str
    """All after the word, on one line."""
    line: int

    @property
    def exec_form(self) -> list[str] | None:
        """The words of a JSON array at the end, as `CMD ["a", "b"]` has it; None in shell form."""
        found = re.search(r"\[.*\]$", self.text)
        if found is None:
            return None
        words: Any = json.loads(found[0])
        return [str(word) for word in words]

    @property
    def pairs(self) -> dict[str, str]:
        """Of ENV and LABEL: names and values, without quotes."""
        return {name: value.strip('"') for name, value in re.findall(r'([\w.]+)=("[^"]*"|\S*)', self.text)}


@dataclass(frozen=True, slots=True)
class Stage:
    """What follows a FROM."""

    base: str
    name: str | None
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> Step | None:
        """The one that counts of those that override each other."""
        return next((step for step in reversed(self.steps) if step.word == word), None)


def parse(text: str) -> list[Stage]:
    """The stages in order; the last one is the image."""
    stages: list[Stage] = []
    for step in _steps(text):
        if step.word not in KNOWN or "<<" in step.text:
            raise ValueError(f"Line {step.line}: {step.word} {step.text!r} is not understood here.")
        if step.word == "FROM":
            base, *rest = step.text.split()
            stages.append(Stage(base, rest[1] if rest else None))
        else:
            stages[-1].steps.append(step)
    return stages


def _steps(text: str) -> list[Step]:
    found: list[Step] = []
    whole, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        start = start if whole else number
        whole += bare.removesuffix("\\").rstrip() + " "
        if not bare.endswith("\\"):
            word, _, rest = whole.strip().partition(" ")
            found.append(Step(word.upper(), rest.strip(), start))
            whole = ""
    return found
