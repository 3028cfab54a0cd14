"""The other side of `bench.quality.peers`: starts it with the peers' Python and speaks with it over files and pipes."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from bench.quality.figure import Panel

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds that a peer may take for one table."""

PeerRule = list[tuple[int, str, float]]
"""Conditions: feature index, `<=` or `>`, threshold."""


class PeerError(Exception):
    """A peer took too long, or failed."""


class PeerTimeoutError(PeerError):
    """It took too long, and would again."""


@dataclass(frozen=True, slots=True)
class PeerMined:
    rules: list[PeerRule]
    seconds: float
    cpu: float


class Searcher:
    """A peer that proposes subsets and is told their scores, in turn."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self) -> list[int]:
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the searcher ended with code {self._process.wait()}")
        return json.loads(line)

    def tell(self, score: float) -> None:
        self._process.stdin.write(f"{score!r}\n")
        self._process.stdin.flush()


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers' virtual environment."""

    python: Path

    def mine(self, method: str, frame: pd.DataFrame, labels: np.ndarray, seed: int, jobs: int) -> PeerMined:
        """The rules of a table of numbers without gaps; `labels` are 0 and 1."""
        with TemporaryDirectory() as folder:
            table = Path(folder) / "table.npz"
            np.savez(table, X=frame.to_numpy(np.float64), y=labels.astype(np.int64))
            answer = json.loads(self._call("mine", method, str(table), str(seed), str(jobs)))
        return PeerMined(**answer)

    @contextmanager
    def searcher(self, method: str, features: int, size: int, seed: int) -> Iterator[Searcher]:
        arguments = self._command("search", method, str(features), str(size), str(seed))
        pipe = subprocess.PIPE
        with subprocess.Popen(arguments, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                yield Searcher(process)
            finally:
                process.stdout.close()
                process.terminate()

    def draw(self, panels: Sequence[Panel], path: Path) -> None:
        with TemporaryDirectory() as folder:
            description = Path(folder) / "figure.json"
            description.write_text(json.dumps({"panels": [asdict(panel) for panel in panels]}))
            self._call("draw", str(description), str(path.resolve()))

    def versions(self) -> dict[str, str]:
        return json.loads(self._call("versions"))

    def lacking(self) -> dict[str, str]:
        """The miners that cannot be had there, each with the reason."""
        return json.loads(self._call("lacking"))

    def _command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-m", "bench.quality.peers", *arguments]

    def _call(self, *arguments: str) -> str:
        try:
            run = subprocess.run(
                self._command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True
            )
        except subprocess.TimeoutExpired:
            raise PeerTimeoutError(f"took more than {PATIENCE:.0f} s") from None
        except subprocess.CalledProcessError as error:
            raise PeerError((error.stderr.strip().splitlines() or ["no message"])[-1]) from None
        return run.stdout.splitlines()[-1] if run.stdout.strip() else ""
