"""Parses a Dockerfile into stages. Unknown instructions are an error."""

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
    """Everything after the instruction word, on one line."""
    line: int

    @property
    def exec_form(self) -> list[str] | None:
        """The words of a JSON array at the end, as in `CMD ["a", "b"]`; None in shell form."""
        match = re.search(r"\[.*\]$", self.text)
        if match is None:
            return None
        words: Any = json.loads(match[0])
        return [str(word) for word in words]

    @property
    def pairs(self) -> dict[str, str]:
        """Names and values of ENV and LABEL, without quotes."""
        return {name: value.strip('"') for name, value in re.findall(r'([\w.]+)=("[^"]*"|\S*)', self.text)}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: FROM and the steps after it."""

    base: str
    name: str | None
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> Step | None:
        """Return the last step with this instruction, which overrides earlier ones."""
        return next((step for step in reversed(self.steps) if step.word == word), None)


def parse(text: str) -> list[Stage]:
    """Return the stages in order; the last one is the image."""
    stages: list[Stage] = []
    for step in _steps(text):
        if step.word not in KNOWN or "<<" in step.text:
            raise ValueError(f"Line {step.line}: {step.word} {step.text!r} is not supported.")
        if step.word == "FROM":
            base, *rest = step.text.split()
            stages.append(Stage(base, rest[1] if rest else None))
        else:
            stages[-1].steps.append(step)
    return stages


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    whole, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        start = start if whole else number
        whole += bare.removesuffix("\\").rstrip() + " "
        if not bare.endswith("\\"):
            word, _, rest = whole.strip().partition(" ")
            steps.append(Step(word.upper(), rest.strip(), start))
            whole = ""
    return steps
